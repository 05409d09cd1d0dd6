"""Whole runs in which the aggregator sees sums only: equal to plain ones, faults, and what must be refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from horizontal.average import Arrays
from horizontal.client import Answer, client_program
from horizontal.config import HorizontalConfig
from horizontal.masked_client import Masking, add_update
from horizontal.masked_messages import MASKED_KINDS, GroupKeys, Masked, MaskStep, Ready, Revealed, Step
from horizontal.masked_sum import Summed, SumTerms
from horizontal.messages import AGGREGATOR, Broadcast, Task, Update
from horizontal.methods import METHODS, method
from horizontal.round_rules import Rules, State, Sums
from horizontal.rounds import RoundError, aggregator_program
from horizontal.simulation import simulate as simulate_training
from protocols.errors import ApprovalError, ConfigError, PeerLost, ProtocolError, WireError
from protocols.masking import MaskKey, Masks, identities
from protocols.program import Outcome, Program, Receive, Send, simulate
from protocols.wire import Message, decode, encode
from tests.horizontal.sites import CLIENTS, deep, drawn, flat, linear

FOUR = ("client-1", "client-2", "client-3", "client-4")
WHO = identities((AGGREGATOR, *FOUR))
SMALL = {"rounds": 4, "epochs": 2, "batch": 9, "minimum_clients": 3}
Work = Callable[[Broadcast], Update]


def config(**changes: object) -> HorizontalConfig:
    given = {"rounds": 3, "minimum_clients": 3, "maximum_examples": 1000, "secure_aggregation": True}
    return HorizontalConfig(**{**given, **changes})


# The same models as without


@pytest.mark.parametrize("model", [linear, deep])
@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("fedavg", {}),
        ("fedavg", {"aggregation": "mean", "objective": "robust"}),
        (
            "fedavg",
            {"optimizer": "adam", "rounds": 1},
        ),  # which makes much of the last bits of a gradient of 0
        ("fedprox", {"optimizer": "momentum"}),
        ("scaffold", {}),
        ("scaffold", {"scaffold_option": 1, "server_rate": 0.5}),
        ("fedbss", {}),
    ],
)
def test_a_run_under_masks_gives_the_plain_models(
    name: str, more: dict[str, object], model: Callable[[], nn.Module]
) -> None:
    more = {**SMALL, **more}
    plain = simulate_training(model(), CLIENTS, method(name, **more))
    masked = simulate_training(model(), CLIENTS, method(name, secure_aggregation=True, **more))
    torch.testing.assert_close(flat(masked.model), flat(plain.model), rtol=0, atol=2e-6)
    assert masked.report["end"] == "done"
    for number, record in masked.report["rounds"].items():
        assert record["clients"] == list(CLIENTS)
        assert record["sum"]["people"] == sum(len(data) for data in CLIENTS.values())
        assert not {"drift", "cosine", "rows"} & record.keys(), "nothing is known of one client"
        assert plain.report["rounds"][number]["rows"]


def test_the_masks_of_two_runs_differ_and_their_models_do_not() -> None:
    one, other = (
        simulate_training(deep(), CLIENTS, method("fedavg", secure_aggregation=True, **SMALL)) for _ in "ab"
    )
    assert torch.equal(flat(one.model), flat(other.model))
    assert one.report == other.report


@pytest.mark.parametrize("together", [False, True])
def test_a_run_of_many_clients_that_take_turns_and_one_that_is_taken_up_again(together: bool) -> None:
    clients = {f"client-{i}": drawn(10 + i, i) for i in range(1, 9)}
    made = method("fedavg", secure_aggregation=True, fraction=0.5, **SMALL)
    saved: dict[int, bytes] = {}
    whole = simulate_training(
        linear(), clients, made, together=together, save=lambda number, state: saved.update({number: state})
    )
    again = simulate_training(linear(), clients, made, together=together, resume=saved[2])
    assert torch.equal(flat(whole.model), flat(again.model))
    assert [len(record["clients"]) for record in whole.report["rounds"].values()] == [4] * 4


# What is refused before a run


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        *(({"aggregation": name}, f"{name}: ") for name in ("median", "trimmed", "clipped")),
        *(({"aggregation": name}, f"{name}: ") for name in ("fedoui", "fedalign", "fednova")),
        ({"selection": "flash"}, "flash: its reward needs each client's alignment"),
        ({"stop_after": 3}, "stop_after: it reads each client's losses"),
        ({"minimum_clients": 2}, "of the sum of two, each knows the other's update"),
        ({"fraction_bits": 0}, "fraction_bits must lie in"),
        ({"value_limit": 0.0}, "value_limit must lie in"),
    ],
)
def test_what_does_not_combine_is_refused_with_the_reason(changes: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        config(**changes)


def test_every_method_either_runs_on_sums_or_is_refused_with_a_reason() -> None:
    fine = {"fedavg", "fedprox", "scaffold", "fedbss", "fedbss_linear", "fedbss_cold", "fedbss_late"}
    for name in fine:
        assert method(name, secure_aggregation=True, minimum_clients=3).secure_aggregation
    for name in METHODS.keys() - fine:
        with pytest.raises(ConfigError, match="not with secure aggregation: "):
            method(name, secure_aggregation=True, minimum_clients=3)


def test_two_clients_are_refused() -> None:
    two = {name: CLIENTS[name] for name in ("client-1", "client-2")}
    with pytest.raises(ConfigError, match="at least 3 clients, there are 2"):
        simulate_training(linear(), two, config())


def test_sums_that_have_no_room_are_refused() -> None:
    with pytest.raises(ConfigError, match="don't fit in 64 bits"):
        simulate_training(linear(), CLIENTS, config(fraction_bits=40, maximum_examples=10**6))


# One number as the model, and clients that fail at any point


def model(value: float, size: int = 1) -> Arrays:
    return {"w": np.full(size, value, np.float32)}


def adds(amount: float, examples: int = 10) -> Work:
    return lambda b: Update.of(b.round, Task.TRAIN, examples, model(float(b.arrays()["w"][0]) + amount))


def advance(number: int, state: State, total: Summed) -> tuple[State, dict[str, object]]:
    return replace(state, model=total.arrays), {"rows": total.examples}


def never(*arguments: object) -> tuple[State, dict[str, object]]:
    raise AssertionError("a single contribution was read")


def aggregator(clients: tuple[str, ...] = FOUR, **changes: object) -> Program[Outcome]:
    made = config(**changes)
    rules = Rules(
        choose=lambda number, state, present: present,
        advance=never,
        sums=Sums(terms=SumTerms.of(made), advance=advance),
    )
    return aggregator_program(State(model=model(0.0)), clients, rules, made, identity=WHO[AGGREGATOR])


def masking(role: str, **changes: object) -> Masking:
    return Masking(identity=WHO[role], terms=SumTerms.of(config(**changes)))


def client(role: str, work: Work, **changes: object) -> Program[Outcome]:
    return client_program(lambda b, memory: Answer(update=work(b)), 3, masking=masking(role, **changes))


def broken(program: Program[Outcome], at: type[Message], number: int = 2) -> Program[Outcome]:
    """The program, which is gone when it should send its message of this kind in this round."""
    effect = next(program)
    while True:
        if isinstance(effect, Send) and isinstance(effect.message, at) and effect.message.round == number:
            program.close()
            raise PeerLost("the machine has gone")
        try:
            result = yield effect
        except Exception as problem:
            effect = program.throw(problem)
        else:
            try:
                effect = program.send(result)
            except StopIteration as end:
                return end.value


def run(
    clients: Mapping[str, Program[Outcome]], may_fail: tuple[str, ...] = (), **changes: object
) -> tuple[dict[str, object], list[tuple[str, str, Message]]]:
    seen: list[tuple[str, str, Message]] = []
    outcomes = simulate(
        {AGGREGATOR: aggregator(tuple(clients), **changes), **clients},
        observe=lambda sender, to, message: seen.append((sender, to, message)),
        may_fail=may_fail,
    )
    return outcomes, seen


def rounds(outcome: object) -> Mapping[str, Mapping[str, object]]:
    assert isinstance(outcome, Outcome)
    return outcome.report["rounds"]  # type: ignore[return-value]


def all_four(**special: Work) -> dict[str, Program[Outcome]]:
    works = {f"client-{i}": adds(float(i), 10 * i) for i in range(1, 5)}
    works |= {name.replace("_", "-"): work for name, work in special.items()}
    return {role: client(role, work) for role, work in works.items()}


def test_rounds_by_hand() -> None:
    outcomes, seen = run(all_four())
    # each round adds (10*1 + 20*2 + 30*3 + 40*4) / 100 = 3
    assert {float(outcome.artifacts["model.w"][0]) for outcome in outcomes.values()} == {9.0}
    assert rounds(outcomes[AGGREGATOR])["1"]["rows"] == 100
    assert not any(isinstance(message, Update) for _, _, message in seen)
    first = [type(m).__name__ for s, to, m in seen if "client-1" in (s, to) and m.round == 1]
    assert first == ["Broadcast", "Ready", "MaskStep", "GroupKeys", "Masked", "MaskStep", "Revealed"]


@pytest.mark.parametrize("at", [Ready, Masked, Revealed])
def test_a_client_that_goes_at_any_moment_is_never_unmasked(at: type[Message]) -> None:
    clients = all_four()
    clients["client-4"] = broken(clients["client-4"], at)
    outcomes, seen = run(clients, may_fail=("client-4",))
    record = rounds(outcomes[AGGREGATOR])["2"]
    rest = (10 * 1 + 20 * 2 + 30 * 3) / 60
    assert record["failures"] == {"client-4": "peer_lost"}
    assert outcomes[AGGREGATOR].report["gone"] == {"client-4": "peer_lost"}
    expected = 3.0 + 2 * rest if at is not Revealed else 3.0 + rest  # that round is void
    assert outcomes["client-1"].artifacts["model.w"][0] == pytest.approx(expected, abs=1e-6)
    assert ("void" in record) is (at is Revealed)
    told = [m.attempt for s, _, m in seen if isinstance(m, Revealed) and (s, m.round) == ("client-1", 2)]
    assert told == [2 if at is Masked else 1], "each seed of a round is told once"
    sent = [m.words for s, _, m in seen if isinstance(m, Masked) and (s, m.round) == ("client-1", 2)]
    assert len(sent) == (2 if at is Masked else 1)
    assert len({word for words in sent for word in words.tolist()}) == 2 * len(sent), "masks are used once"


def test_when_too_few_are_left_the_run_stops_with_the_last_good_model() -> None:
    clients = {role: program for role, program in all_four().items() if role != "client-4"}
    clients["client-3"] = broken(clients["client-3"], Masked)
    with pytest.raises(
        RoundError, match=r"round 2: 2 clients sent a usable update.*client-3 \(peer_lost\)"
    ) as e:
        run(clients, may_fail=("client-3",))
    assert e.value.outcome.report["last_good"] == "round 1"


@pytest.mark.parametrize(
    ("work", "code"),
    [
        (lambda b: Update.failed(b.round, Task.TRAIN, "too_slow"), "too_slow"),
        (adds(1.0, 0), "no_examples"),
        (adds(1.0, 1001), "update"),
        (adds(65.0), "out_of_range"),
        (adds(float("nan")), "out_of_range"),
    ],
)
def test_an_update_that_can_t_be_added_costs_its_client_the_round(work: Work, code: str) -> None:
    outcomes, seen = run(all_four(client_2=lambda b: (work if b.round == 2 else adds(2.0, 20))(b)))
    assert rounds(outcomes[AGGREGATOR])["2"]["failures"] == {"client-2": code}
    assert outcomes["client-2"].report["failures"] == {"2": code}
    assert rounds(outcomes[AGGREGATOR])["3"]["clients"] == list(FOUR)
    assert not [m for s, _, m in seen if isinstance(m, Masked) and (s, m.round) == ("client-2", 2)]


def test_what_a_client_remembers_stays_if_its_update_is_not_in_the_sum() -> None:
    def work(broadcast: Broadcast, memory: Arrays) -> Answer:
        update = adds(2.0)(broadcast) if broadcast.round != 2 else adds(1e6)(broadcast)
        return Answer(update=update, memory={"rounds": np.array([broadcast.round])})

    kept: dict[int, int] = {}
    clients = all_four()
    clients["client-2"] = client_program(work, 3, masking=masking("client-2"))
    simulate(
        {AGGREGATOR: aggregator(), **clients},
        keep=lambda role, c: (
            kept.update({c.step: int(c.state["memory.rounds"][0])}) if role == "client-2" else None
        ),
    )
    assert kept == {1: 1, 2: 1, 3: 3}


def test_a_sum_that_no_clients_can_have_sent_ends_the_run_with_the_last_good_model() -> None:
    def forged(role: str) -> Iterator[object]:
        program = client(role, adds(1.0))
        effect = next(program)
        while True:
            if isinstance(effect, Send) and isinstance(effect.message, Masked) and effect.message.round == 2:
                words = effect.message.words + np.array([0, 1 << 62], np.uint64)
                effect = Send(effect.to, replace(effect.message, words=words))
            result = yield effect
            try:
                effect = program.send(result)
            except StopIteration as end:
                return end.value

    clients = all_four()
    clients["client-2"] = forged("client-2")
    with pytest.raises(RoundError, match="a client sent no model") as caught:
        run(clients)
    assert caught.value.outcome.report["last_good"] == "round 1"


# An aggregator that doesn't keep to the protocol


class Relay:
    """The aggregator's end of one client's program, by hand."""

    def __init__(self, role: str = "client-1") -> None:
        self.program = add_update(adds(1.0)(Broadcast.of(1, Task.TRAIN, model(0.0))), masking(role))
        self.others = {name: Masks(WHO[name], 1, least=3) for name in FOUR if name != role}
        ready = self._until(next(self.program))
        assert isinstance(ready, Ready)
        own = MaskKey(role=role, public=ready.key, signature=ready.signature)
        self.keys = {role: own, **{name: masks.key for name, masks in self.others.items()}}

    def send(self, *messages: Message) -> Message:
        """What the client sends back."""
        effect = self.program.send(None)
        for message in messages:
            assert isinstance(effect, Receive)
            effect = self.program.send(message)
        return self._until(effect)

    def group(self, attempt: int, roles: tuple[str, ...] = FOUR, number: int = 1) -> GroupKeys:
        return GroupKeys.of(number, attempt, [self.keys[role] for role in roles])

    def mask(self, attempt: int, roles: tuple[str, ...] = FOUR) -> Message:
        return self.send(MaskStep.of(1, attempt, Step.MASK), self.group(attempt, roles))

    def _until(self, effect: object) -> Message:
        while not isinstance(effect, Send):
            assert not isinstance(effect, Receive)
            try:
                result = effect.function(*effect.arguments)  # type: ignore[attr-defined]
            except Exception as problem:
                effect = self.program.throw(problem)
            else:
                effect = self.program.send(result)
        return effect.message


def test_another_key_in_a_clients_place_is_refused() -> None:
    relay = Relay()
    mine = Masks(identities((AGGREGATOR,))[AGGREGATOR], 1, least=3).key
    relay.keys["client-2"] = replace(mine, role="client-2")
    with pytest.raises(ApprovalError, match="mask key of client-2 for round 1 isn't signed by client-2"):
        relay.mask(1)


def test_a_group_of_one_honest_client_and_the_aggregators_own_is_refused() -> None:
    relay = Relay()
    strangers = identities(("client-8", "client-9"))
    relay.keys |= {name: Masks(who, 1, least=3).key for name, who in strangers.items()}
    with pytest.raises(ApprovalError, match="no part in this run"):
        relay.mask(1, ("client-1", "client-8", "client-9"))


@pytest.mark.parametrize("roles", [FOUR[:2], FOUR[:1], FOUR[1:]])
def test_too_small_groups_and_those_without_us_are_refused(roles: tuple[str, ...]) -> None:
    with pytest.raises(ProtocolError):
        Relay().mask(1, roles)


def test_a_replayed_attempt_another_round_and_a_second_sum_are_refused() -> None:
    for bad in (
        lambda relay: relay.mask(1),
        lambda relay: relay.mask(2, FOUR),
        lambda relay: relay.send(MaskStep.of(2, 2, Step.MASK)),
        lambda relay: relay.send(MaskStep.of(1, 2, Step.MASK), relay.group(1)),
        lambda relay: relay.send(MaskStep.of(1, 2, Step.MASK), relay.group(2, FOUR[:3], number=2)),
        lambda relay: relay.send(MaskStep.of(1, 2, Step.REVEAL)),
    ):
        relay = Relay()
        assert isinstance(relay.mask(1), Masked)
        with pytest.raises(ProtocolError):
            bad(relay)
    relay = Relay()
    relay.mask(1)
    assert isinstance(relay.send(MaskStep.of(1, 1, Step.REVEAL)), Revealed)
    with pytest.raises(StopIteration):  # the round is over for this client
        relay.mask(2, FOUR[:3])


def test_a_client_with_a_key_that_it_did_not_sign_is_left_out_by_the_aggregator() -> None:
    clients = all_four()
    other = identities((AGGREGATOR, *FOUR))["client-4"]
    clients["client-4"] = client_program(
        lambda b, memory: Answer(update=adds(4.0, 40)(b)),
        3,
        masking=replace(masking("client-4"), identity=other),
    )
    outcomes, _ = run(clients)
    assert rounds(outcomes[AGGREGATOR])["1"]["failures"] == {"client-4": "approval"}
    assert outcomes["client-4"].report["failures"] == {str(n): "left_out" for n in (1, 2, 3)}


# Nothing else shows a single update


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-60, 60, width=32), min_size=2, max_size=2), st.integers(1, 900))
def test_no_message_of_a_client_holds_its_update(values: list[float], examples: int) -> None:
    """Of everything that crosses, no client's words are what fixed point makes of its model."""

    def special(broadcast: Broadcast) -> Update:
        arrays = {"w": np.array(values[:1], np.float32)}
        return Update.of(broadcast.round, Task.TRAIN, examples, arrays)

    _, seen = run(all_four(client_1=special))
    point = SumTerms.of(config()).point
    plain = np.concatenate(
        [np.array([examples], np.uint64), point.words({"w": np.array(values[:1], np.float32)}, examples)]
    )
    masked = [m for s, _, m in seen if s == "client-1" and isinstance(m, Masked)]
    assert len(masked) == 3
    for message in masked:
        assert (message.words != plain).all()
    raw = np.array(values[:1], "<f4").tobytes()
    if any(raw[:3]):
        assert not [m for s, _, m in seen if s == "client-1" and raw in encode(m)]


def test_messages_go_through_the_wire_and_contradictions_are_refused() -> None:
    keys = [Masks(WHO[role], 1, least=3).key for role in FOUR]
    for message in (
        Ready(1, "", keys[0].public, keys[0].signature),
        Ready(1, "diverged", "", ""),
        MaskStep.of(1, 2, Step.OVER),
        GroupKeys.of(1, 2, keys),
        Masked(1, 2, np.arange(3, dtype=np.uint64)),
        Revealed(1, 2, bytes(32)),
    ):
        assert decode(encode(message), MASKED_KINDS) == message
    assert GroupKeys.of(1, 2, keys).mask_keys() == tuple(keys)
    for make in (
        lambda: Ready(1, "", "", ""),
        lambda: Ready(1, "diverged", keys[0].public, keys[0].signature),
        lambda: Ready(1, "", keys[0].public, ""),
        lambda: MaskStep(1, 1, "show"),
        lambda: GroupKeys(1, 1, ("client-1",), (), ()),
        lambda: Revealed(1, 1, bytes(31)),
    ):
        with pytest.raises(WireError):
            make()


def test_programs_without_an_identity_say_so() -> None:
    made = config()
    rules = Rules(
        choose=lambda number, state, present: present,
        advance=never,
        sums=Sums(terms=SumTerms.of(made), advance=advance),
    )
    with pytest.raises(ConfigError, match="needs an identity"):
        next(aggregator_program(State(model=model(0.0)), FOUR, rules, made))
