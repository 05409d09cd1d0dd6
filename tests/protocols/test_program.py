"""Programs under `simulate`: deterministic, closed in any case, and clear about who broke the conversation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from protocols.errors import DeadlockError, PeerLost, ProtocolError
from protocols.program import (
    Checkpoint,
    Compute,
    Deadline,
    Outcome,
    Program,
    Progress,
    Receive,
    Send,
    compute,
    expect,
    receive,
    simulate,
)
from protocols.wire import Message, array


@dataclass(frozen=True, slots=True)
class Views(Message):
    step: int
    values: NDArray[np.float32] = array(np.float32, 1)


@dataclass(frozen=True, slots=True)
class Gradients(Message):
    step: int


@dataclass(frozen=True, slots=True)
class Special(Gradients):
    pass


def views(step: int) -> Views:
    return Views(step=step, values=np.full(2, step, np.float32))


def active(steps: int) -> Program[list[int]]:
    """Views(step) from passive, then Gradients(step) to passive; the result is what it saw."""
    seen = []
    for step in range(steps):
        message = yield from receive("passive", Views)
        seen.append((yield from compute(lambda values: int(values.sum()), message.values)))
        yield Checkpoint(step, {"values": message.values})
        yield Send("passive", Gradients(step))
    return seen


def passive(steps: int) -> Program[str]:
    for step in range(steps):
        yield Send("active", views(step))
        yield from receive("active", Gradients)
    return "done"


def test_two_programs_talk_and_give_their_results_in_order_of_roles():
    results = simulate({"active": active(3), "passive": passive(3)})
    assert list(results.items()) == [("active", [0, 2, 4]), ("passive", "done")]
    assert list(simulate({"passive": passive(1), "active": active(1)})) == ["passive", "active"]


def test_no_programs_give_no_results():
    assert simulate({}) == {}


def test_observe_sees_each_message_when_it_is_sent():
    seen: list[tuple[str, str, str]] = []
    simulate(
        {"active": active(2), "passive": passive(2)},
        observe=lambda sender, to, message: seen.append((sender, to, type(message).__name__)),
    )
    assert seen == [("passive", "active", "Views"), ("active", "passive", "Gradients")] * 2


def test_an_observer_that_fails_ends_the_run():
    def observe(sender: str, to: str, message: Message) -> None:
        raise StopIteration("not the end of a program")

    with pytest.raises(StopIteration):
        simulate({"active": active(1), "passive": passive(1)}, observe=observe)


def test_messages_of_one_sender_keep_their_order_and_senders_do_not_mix():
    def sender(n: int) -> Program[None]:
        for step in range(3):
            yield Send("sum", Gradients(10 * n + step))

    def collector() -> Program[list[int]]:
        found = []
        for role in ("b", "a", "b", "a", "a", "b"):
            found.append((yield from receive(role, Gradients)).step)
        return found

    assert simulate({"a": sender(1), "sum": collector(), "b": sender(2)})["sum"] == [20, 10, 21, 11, 12, 22]


# Who breaks the conversation


def test_a_deadlock_says_who_waits_for_what_from_whom():
    def waits(sender: str, kind: type[Message]) -> Program[None]:
        yield from receive(sender, kind)

    with pytest.raises(DeadlockError) as caught:
        simulate({"active": waits("passive", Views), "passive": waits("active", Gradients)})
    assert str(caught.value) == (
        "active waits for Views from passive; passive waits for Gradients from active"
    )


def test_a_deadlock_says_that_the_other_has_ended():
    with pytest.raises(DeadlockError) as caught:
        simulate({"active": active(3), "passive": passive(2)})
    assert str(caught.value) == "active waits for Views from passive, who has ended"


def test_a_circle_of_three_is_a_deadlock():
    def waits(sender: str) -> Program[None]:
        yield from receive(sender, Views)

    with pytest.raises(
        DeadlockError, match=r"a waits for Views from b; b waits .* from c; c waits .* from a"
    ):
        simulate({"a": waits("b"), "b": waits("c"), "c": waits("a")})


@pytest.mark.parametrize("sent", [Views(step=0, values=np.zeros(1, np.float32)), Special(0)])
@pytest.mark.parametrize("order", [("active", "passive"), ("passive", "active")])
@pytest.mark.parametrize("bare", [True, False])
def test_another_kind_names_sender_expected_and_came(sent, order, bare):
    def sends() -> Program[None]:
        yield Send("passive", sent)

    def waits() -> Program[None]:
        if bare:
            yield Receive("active", Gradients)
        else:
            yield from receive("active", Gradients)

    programs = {"active": sends(), "passive": waits()}
    with pytest.raises(ProtocolError) as caught:
        simulate({role: programs[role] for role in order})
    assert str(caught.value) == f"passive expected Gradients from active, came {type(sent).__name__}"


def test_the_program_itself_refuses_another_kind_whatever_the_driver_does():
    program = receive("active", Gradients)
    assert next(program) == Receive("active", Gradients)
    with pytest.raises(ProtocolError, match="expected Gradients from active, came Views"):
        program.send(views(1))


@pytest.mark.parametrize("message", [None, 3, Special(1)])
def test_expect_wants_exactly_the_kind(message):
    assert expect("active", Gradients, Gradients(1)) == Gradients(1)
    with pytest.raises(ProtocolError, match=f"came {type(message).__name__}"):
        expect("active", Gradients, message)


def test_a_message_that_nobody_received():
    with pytest.raises(ProtocolError, match="active ended without receiving Views from passive"):
        simulate({"active": active(0), "passive": sends_only()})


def sends_only() -> Program[None]:
    yield Send("active", views(1))


@pytest.mark.parametrize("to", ["passive", "actve", ""])
def test_messages_to_oneself_or_a_stranger(to):
    def sends() -> Program[None]:
        yield Send(to, views(1))

    with pytest.raises(ProtocolError, match=f"passive addresses {to}; expected one of: active"):
        simulate({"active": active(1), "passive": sends()})


def test_waiting_for_a_stranger():
    def waits() -> Program[None]:
        yield from receive("nobody", Views)

    with pytest.raises(ProtocolError, match="only addresses nobody; expected one of: nobody"):
        simulate({"only": waits()})


@pytest.mark.parametrize("effect", [None, 3, "Send", views(1), Send])
def test_yielding_something_else(effect):
    def odd() -> Program[None]:
        yield effect

    with pytest.raises(ProtocolError, match=r"only yielded .*, which is not an effect"):
        simulate({"only": odd()})


def test_sending_something_else():
    def odd() -> Program[None]:
        yield Send("active", {"step": 1})  # type: ignore[arg-type]

    with pytest.raises(ProtocolError, match="passive sends dict to active, which is not a message"):
        simulate({"active": active(1), "passive": odd()})


# Compute


def test_an_error_of_a_computation_is_raised_inside_the_program():
    def careful() -> Program[str]:
        try:
            yield from compute(lambda: 1 // 0)
        except ZeroDivisionError:
            result = yield Compute(str, (7,))
            return f"caught, {result}"

    assert simulate({"only": careful()}) == {"only": "caught, 7"}


@pytest.mark.parametrize("error", [ValueError("x"), StopIteration("x")])
def test_an_error_that_the_program_does_not_catch_ends_the_run(error):
    def fails() -> None:
        raise error

    def careless() -> Program[None]:
        yield from compute(fails)

    with pytest.raises(
        (ValueError, RuntimeError)
    ):  # a generator turns a stray StopIteration into RuntimeError
        simulate({"only": careless()})


def test_a_computation_that_is_interrupted_is_not_an_error_of_the_program():
    def interrupted() -> None:
        raise KeyboardInterrupt

    def stubborn() -> Program[str]:
        try:
            yield from compute(interrupted)
        except Exception:
            return "swallowed"
        return "went on"

    with pytest.raises(KeyboardInterrupt):
        simulate({"only": stubborn()})


def both(role: str, other: str, steps: int) -> Program[list[int]]:
    """Squares numbers in step with another role, to whom it sends each one."""
    seen = []
    for step in range(steps):
        squared = yield from compute(lambda x: x * x, step)
        yield Send(other, Gradients(squared))
        seen.append((yield from receive(other, Gradients)).step)
    return seen


def test_all_that_waits_to_be_computed_is_computed_in_one_call():
    calls: list[int] = []

    def compute_all(effects):
        calls.append(len(effects))
        return [effect.function(*effect.arguments) for effect in effects]

    def run(**more):
        return simulate({"a": both("a", "b", 3), "b": both("b", "a", 3)}, **more)

    assert run(compute_all=compute_all) == run() == {"a": [0, 1, 4], "b": [0, 1, 4]}
    assert calls == [2, 2, 2]


def test_of_what_is_computed_together_each_program_gets_its_own_error():
    def careful(x: int) -> Program[str]:
        try:
            return str((yield from compute(lambda: 6 // x)))
        except ZeroDivisionError:
            return "caught"

    def compute_all(effects):
        return [ZeroDivisionError() if index == 1 else "fine" for index in range(len(effects))]

    roles = {str(x): careful(x) for x in range(3)}
    assert simulate(roles, compute_all=compute_all) == {"0": "fine", "1": "caught", "2": "fine"}


def test_checkpoints_are_kept_with_their_role():
    kept: list[tuple[str, int, list[float]]] = []
    simulate(
        {"active": active(2), "passive": passive(2)},
        keep=lambda role, checkpoint: kept.append(
            (role, checkpoint.step, checkpoint.state["values"].tolist())
        ),
    )
    assert kept == [("active", 0, [0.0, 0.0]), ("active", 1, [1.0, 1.0])]


# A role that may fail


def fails_after(steps: int) -> Program[None]:
    for step in range(steps):
        yield Send("active", views(step))
        yield from receive("active", Gradients)
    raise ValueError("gone")


@pytest.mark.parametrize("order", [("active", "passive"), ("passive", "active")])
def test_who_waits_for_a_role_that_has_failed_gets_peer_lost(order):
    def outlives() -> Program[tuple[list[int], str]]:
        seen = []
        try:
            while True:
                seen.append((yield from receive("passive", Views)).step)
                yield Send("passive", Gradients(0))
        except PeerLost as lost:
            return seen, str(lost)

    programs = {"active": outlives(), "passive": fails_after(2)}
    results = simulate({role: programs[role] for role in order}, may_fail={"passive"})
    assert results["active"] == ([0, 1], "passive has failed")
    assert isinstance(results["passive"], ValueError)


def test_what_it_sent_before_is_still_received_and_who_sends_to_it_gets_peer_lost():
    def last_words() -> Program[None]:
        yield Send("active", views(7))
        raise ValueError("gone")

    def outlives() -> Program[list[object]]:
        seen: list[object] = [(yield from receive("passive", Views)).step]
        for effect in (Send("passive", Gradients(0)), Receive("passive", Views)):
            try:
                yield effect
            except PeerLost:
                seen.append(type(effect).__name__)
        return seen

    assert simulate({"passive": last_words(), "active": outlives()}, may_fail={"passive"})["active"] == [
        7,
        "Send",
        "Receive",
    ]


def test_a_message_on_its_way_to_it_is_no_fault_of_the_others():
    def sends() -> Program[str]:
        yield Send("passive", Gradients(0))
        return "done"

    results = simulate({"active": sends(), "passive": fails_after(0)}, may_fail={"passive"})
    assert results["active"] == "done"


def test_a_role_that_may_not_fail_ends_the_run_as_ever():
    with pytest.raises(ValueError, match="gone"):
        simulate({"active": active(5), "passive": fails_after(1)}, may_fail={"active"})
    with pytest.raises(PeerLost):  # nor does one that doesn't expect the loss
        simulate({"active": active(5), "passive": fails_after(1)}, may_fail={"passive"})


# Closing


def recording(program: Program[object], closed: list[str], role: str) -> Program[object]:
    try:
        return (yield from program)
    finally:
        closed.append(role)


@pytest.mark.parametrize("fault", ["deadlock", "error", "left over", "kind"])
def test_all_programs_are_closed_whatever_happens(fault):
    def raises() -> Program[None]:
        yield Send("active", views(0))
        raise ValueError("mine")

    faulty: dict[str, Callable[[], Program[object]]] = {
        "deadlock": lambda: passive(1),
        "error": raises,
        "left over": sends_only,
        "kind": lambda: wrong(),
    }

    def wrong() -> Program[None]:
        yield Send("active", Gradients(0))

    closed: list[str] = []
    first = active(0) if fault == "left over" else active(2)
    programs = {
        "active": recording(first, closed, "active"),
        "passive": recording(faulty[fault](), closed, "passive"),
    }
    expected = {"deadlock": DeadlockError, "error": ValueError}.get(fault, ProtocolError)
    with pytest.raises(expected):
        simulate(programs)
    assert sorted(closed) == ["active", "passive"]


def test_a_program_that_fails_while_closing_hides_neither_the_fault_nor_the_others():
    closed: list[str] = []

    def bad() -> Program[None]:
        try:
            yield from receive("good", Views)
        finally:
            raise OSError("while closing")

    def good() -> Program[None]:
        yield from receive("bad", Views)

    with pytest.raises(OSError, match="while closing") as caught:
        simulate({"good": recording(good(), closed, "good"), "bad": bad()})
    assert closed == ["good"]
    assert isinstance(caught.value.__context__, DeadlockError) or isinstance(
        caught.value.__context__.__context__, DeadlockError
    )


# Determinism: random conversations, planned as one global order, always go through, and in the same order of events


@given(st.lists(st.permutations(["a", "b", "c"]).map(lambda roles: tuple(roles[:2])), max_size=30))
def test_any_planned_conversation_goes_through_the_same_way_each_time(plan):
    def follow(role: str) -> Program[list[int]]:
        got = []
        for step, (sender, to) in enumerate(plan):
            if role == sender:
                yield Send(to, Gradients(step))
            elif role == to:
                got.append((yield from receive(sender, Gradients)).step)
        return got

    runs = []
    for _ in range(2):
        events: list[tuple[str, str, Message]] = []
        results = simulate(
            {role: follow(role) for role in "abc"}, observe=lambda *event, seen=events: seen.append(event)
        )
        runs.append((results, events))
    assert runs[0] == runs[1]
    for role in "abc":
        assert runs[0][0][role] == [step for step, (_, to) in enumerate(plan) if to == role]
    assert sorted(message.step for _, _, message in runs[0][1]) == list(range(len(plan)))


def test_a_thousand_clients():
    clients = [f"client-{n}" for n in range(1000)]

    def aggregator() -> Program[int]:
        total = 0
        for _ in range(2):
            for client in clients:
                yield Send(client, Gradients(1))
            for client in clients:
                total += (yield from receive(client, Gradients)).step
        return total

    def client(n: int) -> Program[None]:
        for _ in range(2):
            yield from receive("aggregator", Gradients)
            yield Send("aggregator", Gradients(n))

    programs: dict[str, Program[object]] = {"aggregator": aggregator()}
    programs.update((name, client(n)) for n, name in enumerate(clients))
    assert simulate(programs)["aggregator"] == 2 * sum(range(1000))


def test_records_cannot_be_changed():
    records = [
        Progress("training", 1, 2, 0.5),
        Outcome({"auc": 0.5}, {}),
        Send("a", views(1)),
        Checkpoint(1, {}),
    ]
    for record in records:
        name = type(record).__dataclass_fields__.keys().__iter__().__next__()
        with pytest.raises(AttributeError):
            setattr(record, name, None)
    assert Progress("psi", 0, 1) == Progress("psi", 0, 1, None, "")


def test_a_deadline_is_nothing_where_waiting_takes_no_time():
    def waits():
        yield Deadline(1e-9)
        return (yield from receive("active", Gradients)).step

    def sends():
        yield Send("passive", Gradients(7))

    assert simulate({"passive": waits(), "active": sends()})["passive"] == 7
