"""The round loop with stand-in work, one number as the model: faults (AC-12, AC-14) as kinds, choice, checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from horizontal.average import Arrays, Contribution, NoExamplesError, UpdateError
from horizontal.client import Answer, client_program
from horizontal.config import HorizontalConfig
from horizontal.fedavg import choose_uniformly, size_weighted_mean
from horizontal.messages import AGGREGATOR, Broadcast, Task, Update
from horizontal.round_rules import Rules, State
from horizontal.rounds import RoundError, aggregator_program
from protocols.errors import (
    CancelledRun,
    ConfigError,
    GateError,
    PeerLost,
    PeerStopped,
    PeerTimeout,
    ProtocolError,
    RevokedRun,
    WireError,
)
from protocols.program import Checkpoint, Compute, Deadline, Outcome, Program, Receive, Send, simulate

CLIENTS = ("client-1", "client-2", "client-3")
NAN = float("nan")
Work = Callable[[Broadcast], Update]


def model(value: float, size: int = 1) -> Arrays:
    return {"w": np.full(size, value, np.float32)}


def trained(broadcast: Broadcast, examples: int, arrays: Arrays) -> Update:
    return Update.of(broadcast.round, Task.TRAIN, examples, arrays)


def adds(amount: float, examples: int = 10) -> Work:
    """Work whose result is the received number plus `amount`."""
    return lambda b: trained(b, examples, model(float(b.arrays()["w"][0]) + amount))


def at(number: int, faulty: Work, normal: Work) -> Work:
    return lambda b: (faulty if b.round == number else normal)(b)


def breaks(error: Exception) -> Work:
    def work(broadcast: Broadcast) -> Update:
        raise error

    return work


def mean(number: int, state: State, sent: Sequence[Contribution]) -> tuple[State, dict[str, float]]:
    return replace(state, model=size_weighted_mean(sent)), {}


def rules(clients: Sequence[str], fraction: float = 1.0, minimum: int = 2, **more) -> Rules:
    choose = choose_uniformly(clients, fraction, minimum, 1)
    return Rules(**{"choose": lambda number, state, present: choose(number, present), "advance": mean} | more)


def aggregator(
    rounds=3,
    minimum=2,
    clients=CLIENTS,
    fraction=1.0,
    made: Rules | None = None,
    every=1,
    deadline=600.0,
    **more,
):
    config = HorizontalConfig(
        rounds=rounds,
        minimum_clients=minimum,
        maximum_examples=10_000,
        checkpoint_every=every,
        round_deadline_s=deadline,
    )
    return aggregator_program(
        State(model=model(0.0)), clients, made or rules(clients, fraction, minimum), config, **more
    )


def client(work: Work, rounds: int = 3, **more) -> Program[Outcome]:
    return client_program(lambda b, memory: Answer(update=work(b)), rounds, **more)


def run(work: dict[str, Work], rounds=3, observe=None, **more) -> dict[str, Outcome]:
    programs = {name: client(one, rounds) for name, one in work.items()}
    return simulate(
        {AGGREGATOR: aggregator(rounds, clients=tuple(work), **more), **programs}, observe=observe
    )


def final(outcome: Outcome) -> float:
    return float(outcome.artifacts["model.w"][0])


def test_rounds_by_hand_and_everybody_ends_with_the_same_model() -> None:
    sizes = {"client-1": adds(1.0, 30), "client-2": adds(5.0, 10), "client-3": adds(9.0, 0)}
    outcomes = run(sizes)  # each round adds (30*1 + 10*5)/40 = 2
    assert {final(outcome) for outcome in outcomes.values()} == {6.0}
    report = outcomes[AGGREGATOR].report
    assert (report["end"], report["last_good"]) == ("done", "round 3")
    assert outcomes["client-1"].report == {
        "end": "done",
        "took_part": "3 rounds",
        "failures": {},
        "rounds": {"1": {}, "2": {}, "3": {}},
    }


def test_messages_in_order() -> None:
    seen: list[str] = []
    run(
        {"client-1": adds(1.0), "client-2": adds(1.0)},
        rounds=1,
        observe=lambda s, to, m: seen.append(f"{type(m).__name__} {m.task} {s} {to}"),
    )
    both = ["Broadcast {} aggregator client-1", "Broadcast {} aggregator client-2"]
    assert seen == [
        *(text.format("train") for text in both),
        "Update train client-1 aggregator",
        "Update train client-2 aggregator",
        *(text.format("finish") for text in both),
    ]


# Faults of clients' work


def test_one_failing_client_is_recorded_and_all_failing_keep_the_last_good_model() -> None:
    # Client 2 fails in round 2, all in round 3. Were the cached 1 + 2 of client 2 used, round 2 would differ.
    def amounts(amount: float, number: int) -> Work:
        return at(number, breaks(ValueError("a cell: 42")), at(3, breaks(RuntimeError("x")), adds(amount)))

    with pytest.raises(RoundError, match="round 3: 0 clients") as stopped:
        run({"client-1": amounts(1.0, 9), "client-2": amounts(2.0, 2), "client-3": amounts(3.0, 9)})
    outcome = stopped.value.outcome
    assert final(outcome) == 2.0 + 2.0  # (1 + 2 + 3)/3, then (1 + 3)/2
    assert outcome.report == {
        "end": "stopped",
        "last_good": "round 2",
        "rounds": {
            "1": {"clients": list(CLIENTS), "failures": {}},
            "2": {"clients": ["client-1", "client-3"], "failures": {"client-2": "internal"}},
            "3": {"clients": [], "failures": dict.fromkeys(CLIENTS, "internal")},
        },
    }
    assert "42" not in str(stopped.value)
    assert stopped.value.code == "round"


def test_a_client_that_failed_takes_part_again() -> None:
    outcomes = run(
        {"client-1": adds(1.0), "client-2": at(2, breaks(OSError("disk")), adds(1.0)), "client-3": adds(1.0)}
    )
    report = outcomes["client-2"].report
    assert (report["took_part"], report["failures"]) == ("2 rounds", {"2": "internal"})
    assert outcomes[AGGREGATOR].report["rounds"]["3"]["clients"] == list(CLIENTS)


BAD = {
    "not finite": (lambda b: trained(b, 10, model(NAN)), "update"),
    "not finite, no rows": (lambda b: trained(b, 0, model(NAN)), "update"),
    "negative count": (lambda b: trained(b, -5, model(1.0)), "update"),
    "forged count": (lambda b: trained(b, 10_001, model(1.0)), "update"),
    "other shape": (lambda b: trained(b, 10, model(1.0, size=3)), "update"),
    "other names": (lambda b: trained(b, 10, {"v": np.zeros(1)}), "update"),
    "other dtype": (lambda b: trained(b, 10, {"w": np.zeros(1)}), "update"),
    "nothing": (lambda b: trained(b, 10, {}), "update"),
    "extras": (lambda b: Update.of(b.round, Task.TRAIN, 1, model(1.0), {"x": np.zeros(1)}), "update"),
    "no arrays": (lambda b: Update(b.round, "train", 10, "", b"junk", b""), "wire"),
    "another round": (lambda b: Update.of(7, Task.TRAIN, 1, model(1.0)), "protocol"),
    "another task": (lambda b: Update.of(b.round, Task.DESCRIBE, 1, model(1.0)), "protocol"),
    "own code": (breaks(ConfigError("x")), "config"),
    "foreign text": (lambda b: Update.failed(b.round, Task.TRAIN, "Mallory was here\n"), "unknown"),
}


@pytest.mark.parametrize("bad", BAD)
def test_every_bad_update_costs_its_client_the_round_and_nothing_else(bad: str) -> None:
    work, code = BAD[bad]
    outcomes = run({"client-1": adds(1.0), "client-2": at(2, work, adds(1.0)), "client-3": adds(1.0)})
    assert final(outcomes[AGGREGATOR]) == 3.0
    second = outcomes[AGGREGATOR].report["rounds"]["2"]
    assert second == {"clients": ["client-1", "client-3"], "failures": {"client-2": code}}


@pytest.mark.parametrize("bad", BAD)
def test_too_many_bad_updates_stop_the_run_in_the_first_round(bad: str) -> None:
    work, code = BAD[bad]
    with pytest.raises(
        RoundError, match=rf"round 1: 1 clients.*minimum is 2; failed: client-2 \({code}\)"
    ) as stopped:
        run({"client-1": adds(1.0), "client-2": work})
    assert final(stopped.value.outcome) == 0.0
    assert stopped.value.outcome.report["last_good"] == "the initial model"


def test_no_examples_anywhere_says_so_and_leaves_the_model() -> None:
    with pytest.raises(RoundError, match="no examples") as stopped:
        run({"client-1": adds(1.0, 0), "client-2": adds(2.0, 0)})
    assert isinstance(stopped.value.__cause__, NoExamplesError)
    assert final(stopped.value.outcome) == 0.0


def test_clients_without_rows_do_not_count_towards_the_minimum() -> None:
    with pytest.raises(RoundError, match="1 clients sent a usable update, the minimum is 2"):
        run({"client-1": adds(1.0), "client-2": adds(1.0, 0)})


def test_a_stop_is_no_failure() -> None:
    with pytest.raises(CancelledRun):
        run({"client-1": adds(1.0), "client-2": breaks(CancelledRun("stop"))})


# Faults of links, which a driver raises where the aggregator sends or waits


class Line:
    """Drives an aggregator with clients that answer at once.

    `faults` by (client, round) are raised where it waits, or, given as ("send", error), where it sends. `late` answers
    come after so many waits that find nothing.
    """

    def __init__(
        self,
        work: Work,
        faults: dict[tuple[str, int], object],
        late: Mapping[tuple[str, int], int] | None = None,
    ):
        self.work, self.faults, self.late = work, faults, dict(late or {})
        self.queues: dict[str, list[Update]] = {}
        self.asked: list[tuple[str, int, str]] = []
        self.kept: list[Checkpoint] = []
        self.deadlines: list[tuple[int, float]] = []
        self.waiting = 0

    def drive(self, program: Program[Outcome]) -> Outcome:
        action, value = program.send, None
        while True:
            try:
                effect = action(value)
            except StopIteration as end:
                return end.value
            action, value = self.handle(program, effect)

    def handle(self, program, effect):
        match effect:
            case Send(to, message):
                fault = self.faults.get((to, message.round))
                self.asked.append((to, message.round, message.task))
                reaches = not isinstance(fault, tuple) or isinstance(fault[1], PeerTimeout)
                if message.task == "train" and reaches:  # what isn't read in time is read later
                    self.waiting = message.round
                    self.queues.setdefault(to, []).append(self.work(message))
                return (program.throw, fault[1]) if isinstance(fault, tuple) else (program.send, None)
            case Receive(sender, _):
                key = (sender, self.waiting)
                fault = self.faults.get(key)
                if isinstance(fault, (WireError, GateError, ProtocolError)):
                    self.queues[sender].pop(0)  # a message came, which could not be read
                    self.faults.pop(key)
                    return program.throw, fault
                if isinstance(fault, Exception):
                    return program.throw, fault
                owed = (sender, self.queues[sender][0].round) if self.queues.get(sender) else key
                if self.late.get(owed, 0):
                    self.late[owed] -= 1
                    return program.throw, PeerTimeout("late")
                return program.send, self.queues[sender].pop(0)
            case Compute(function, arguments):
                return program.send, function(*arguments)
            case Checkpoint():
                self.kept.append(effect)
                return program.send, None
            case Deadline(seconds):
                self.deadlines.append((self.waiting, seconds))
                return program.send, None


def asked(line: Line, name: str) -> list[int]:
    return [number for to, number, task in line.asked if to == name and task == "train"]


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (PeerLost("gone"), "peer_lost"),
        (PeerStopped("x", reason="revoked"), "peer_stopped"),
        (("send", PeerLost("gone")), "peer_lost"),
        (("send", PeerStopped("x")), "peer_stopped"),
    ],
)
def test_a_client_that_is_gone_costs_its_round_and_is_not_asked_again(fault: object, code: str) -> None:
    line = Line(adds(1.0), {("client-2", 2): fault})
    outcome = line.drive(aggregator(rounds=4))
    assert final(outcome) == 4.0
    assert asked(line, "client-2") == [1, 2]
    assert ("client-2", 4, "finish") not in line.asked
    report = outcome.report
    assert report["rounds"]["2"] == {"clients": ["client-1", "client-3"], "failures": {"client-2": code}}
    assert report["rounds"]["3"] == {"clients": ["client-1", "client-3"], "failures": {}}
    assert report["gone"] == {"client-2": code}


@pytest.mark.parametrize(
    ("fault", "code"), [(WireError("x"), "wire"), (GateError("x"), "gate"), (ProtocolError("x"), "protocol")]
)
def test_a_message_that_cannot_be_read_costs_its_client_the_round(fault: Exception, code: str) -> None:
    line = Line(adds(1.0), {("client-2", 2): fault})
    outcome = line.drive(aggregator(rounds=3))
    assert outcome.report["rounds"]["2"]["failures"] == {"client-2": code}
    assert outcome.report["rounds"]["3"]["clients"] == list(CLIENTS)
    assert "gone" not in outcome.report


def test_a_late_answer_is_left_out_and_skipped_when_it_comes() -> None:
    # Were the answer of round 1 used in round 3, the mean would move by less than 1.
    line = Line(adds(1.0), {}, late={("client-2", 1): 2})
    outcome = line.drive(aggregator(rounds=4))
    assert final(outcome) == 4.0
    assert asked(line, "client-2") == [
        1,
        3,
        4,
    ]  # before round 2 it is still late, before round 3 it has answered
    rounds = outcome.report["rounds"]
    assert [rounds[str(number)]["failures"] for number in range(1, 5)] == [
        {"client-2": "peer_timeout"},
        {},
        {},
        {},
    ]
    assert [rounds[str(number)].get("busy") for number in range(1, 5)] == [None, ["client-2"], None, None]


def test_each_round_has_its_deadline_and_so_has_what_is_owed_at_the_end() -> None:
    line = Line(adds(1.0), {}, late={("client-2", 2): 9})
    outcome = line.drive(aggregator(rounds=3, deadline=45.0))
    waits = [
        (0, 45.0),
        (1, 45.0),
        (2, 0.001),
        (2, 45.0),
        (3, 45.0),
    ]  # two rounds; a moment, the third; the end
    assert line.deadlines == waits
    assert outcome.report["rounds"]["2"]["failures"] == {"client-2": "peer_timeout"}
    assert outcome.report["gone"] == {"client-2": "peer_timeout"}
    assert ("client-2", 3, "finish") not in line.asked


def test_a_message_that_was_not_read_in_time_may_be_answered_later() -> None:
    silent = {("client-2", 2): ("send", PeerTimeout("silent"))}
    line = Line(adds(1.0), silent, late={("client-2", 2): 1})
    outcome = line.drive(aggregator(rounds=4))
    assert outcome.report["rounds"]["2"]["failures"] == {"client-2": "peer_timeout"}
    assert asked(line, "client-2") == [1, 2, 4]


def test_late_clients_count_towards_no_minimum_and_the_last_good_model_stays() -> None:
    line = Line(adds(1.0), {}, late={("client-2", 2): 9, ("client-3", 2): 9})
    with pytest.raises(RoundError, match=r"round 2: 1 clients.*client-2 \(peer_timeout\)") as stopped:
        line.drive(aggregator(rounds=5))
    assert final(stopped.value.outcome) == 1.0
    assert stopped.value.outcome.report["last_good"] == "round 1"
    assert [checkpoint.step for checkpoint in line.kept] == [1]


def test_more_answers_than_were_asked_for_are_a_fault() -> None:
    def flood(broadcast: Broadcast) -> Update:
        return trained(Broadcast.of(broadcast.round - 1, Task.TRAIN, broadcast.arrays()), 1, model(9.0))

    line = Line(lambda b: flood(b) if b.round == 2 else adds(1.0)(b), {})
    with pytest.raises(RoundError, match=r"round 2: 0 clients.*client-1 \(protocol\)"):
        line.drive(aggregator(rounds=3))


def test_when_too_many_are_gone_the_run_stops() -> None:
    line = Line(adds(1.0), {("client-2", 2): PeerLost("x"), ("client-3", 3): PeerLost("x")})
    with pytest.raises(RoundError, match=r"round 3: 1 clients.*client-3 \(peer_lost\)") as stopped:
        line.drive(aggregator(rounds=5))
    report = stopped.value.outcome.report
    assert (report["end"], report["last_good"], list(report["gone"])) == (
        "stopped",
        "round 2",
        ["client-2", "client-3"],
    )


@pytest.mark.parametrize("own", [CancelledRun("x"), RevokedRun("x"), GateError("x")])
def test_this_sides_own_stop_is_nobodys_failure(own: Exception) -> None:
    fault = ("send", own) if isinstance(own, GateError) else own
    with pytest.raises(type(own)):
        Line(adds(1.0), {("client-2", 2): fault}).drive(aggregator())


def test_a_program_that_breaks_down_is_a_lost_client() -> None:
    def broken() -> Program[Outcome]:
        yield Receive(AGGREGATOR, Broadcast)
        raise MemoryError

    programs = {name: client(adds(1.0)) for name in CLIENTS}
    programs |= {AGGREGATOR: aggregator(), "client-2": broken()}
    outcomes = simulate(programs, may_fail={"client-2"})
    assert outcomes[AGGREGATOR].report["gone"] == {"client-2": "peer_lost"}
    assert final(outcomes[AGGREGATOR]) == 3.0


# Checkpoints


def test_each_good_state_is_a_checkpoint() -> None:
    fails = at(3, lambda b: Update.failed(b.round, Task.TRAIN, "internal"), adds(1.0))
    line = Line(fails, {})
    with pytest.raises(RoundError, match="round 3"):
        line.drive(aggregator(minimum=1, clients=("client-1",)))
    assert [(c.step, int(c.state["round"]), c.state["model.w"].tolist()) for c in line.kept] == [
        (1, 1, [1.0]),
        (2, 2, [2.0]),
    ]


def test_checkpoints_come_as_often_as_wanted_and_at_the_end() -> None:
    line = Line(adds(1.0), {})
    line.drive(aggregator(rounds=7, every=3))
    assert [c.step for c in line.kept] == [3, 6, 7]


def test_a_resumed_aggregator_goes_on_to_the_same_end() -> None:
    def remembering(
        number: int, state: State, sent: Sequence[Contribution]
    ) -> tuple[State, dict[str, float]]:
        after, _ = mean(number, state, sent)
        return replace(after, shared={"s": state.shared["s"] + 1}, kept={"k": state.kept["k"] * 2}), {
            "n": 0.5 * number
        }

    def program(**more):
        start = State(model=model(0.0), shared={"s": np.zeros(2)}, kept={"k": np.ones(1)})
        made = rules(CLIENTS, fraction=0.7, advance=remembering)
        return aggregator_program(start, CLIENTS, made, HorizontalConfig(rounds=4), **more)

    whole = Line(adds(1.0), {})
    unbroken = whole.drive(program())
    resumed = Line(adds(1.0), {})
    outcome = resumed.drive(program(resume=whole.kept[1].state))
    assert outcome.report == unbroken.report
    assert resumed.asked == [entry for entry in whole.asked if entry[1] > 2]
    for name, value in whole.kept[-1].state.items():
        np.testing.assert_array_equal(resumed.kept[-1].state[name], value)


# Rules


def test_validation_after_each_round_is_reported_and_observed() -> None:
    told = []
    program = aggregator(
        observe=told.append, validate=lambda state: {"loss": float(state["w"][0]), "accuracy": 0.5}
    )
    outcomes = simulate({AGGREGATOR: program, **{name: client(adds(2.0)) for name in CLIENTS}})
    records = outcomes[AGGREGATOR].report["rounds"].values()
    assert [(r["loss"], r["accuracy"]) for r in records] == [(2.0, 0.5), (4.0, 0.5), (6.0, 0.5)]
    assert [(p.step, p.of, p.loss) for p in told] == [(1, 3, 2.0), (2, 3, 4.0), (3, 3, 6.0)]


def test_a_method_may_ask_all_clients_before_it_chooses() -> None:
    def describes(broadcast: Broadcast) -> Update:
        if broadcast.task == Task.DESCRIBE:
            return Update.of(
                broadcast.round, Task.DESCRIBE, 3, {}, {"size": np.array(float(broadcast.round))}
            )
        return adds(1.0)(broadcast)

    def hear(state: State, sent: Sequence[Contribution]) -> State:
        return replace(state, kept={"heard": np.array([float(c.extras["size"]) for c in sent])})

    seen = []
    made = rules(
        CLIENTS,
        asks=lambda number: number == 2,
        described={"size": np.zeros(())},
        hear=hear,
        choose=lambda number, state, present: (
            seen.append((number, dict(state.kept), list(present))) or CLIENTS[:2]
        ),
    )
    work: dict[str, Work] = dict.fromkeys(CLIENTS, describes)
    work["client-3"] = lambda b: Update.failed(b.round, Task(b.task), "internal")
    outcomes = run(work, rounds=2, made=made)
    assert [number for number, _, _ in seen] == [1, 2]
    assert seen[0][1] == {}
    assert seen[1][1]["heard"].tolist() == [2.0, 2.0]  # client-3 could not
    assert outcomes[AGGREGATOR].report["rounds"]["2"]["undescribed"] == {"client-3": "internal"}


def test_a_value_that_a_method_cannot_use_is_its_clients_failure() -> None:
    def check(contribution: Contribution) -> None:
        if contribution.examples == 13:
            raise UpdateError(f"{contribution.client}: thirteen")

    work = {"client-1": adds(1.0), "client-2": at(2, adds(9.0, 13), adds(1.0)), "client-3": adds(1.0)}
    outcomes = run(work, made=rules(CLIENTS, check=check))
    assert final(outcomes[AGGREGATOR]) == 3.0
    assert outcomes[AGGREGATOR].report["rounds"]["2"]["failures"] == {"client-2": "update"}


def test_a_run_may_be_enough_before_its_last_round() -> None:
    made = rules(CLIENTS, enough=lambda state: "far enough" if float(state.model["w"][0]) >= 2 else "")
    outcomes = run(dict.fromkeys(CLIENTS, adds(1.0)), rounds=9, made=made)
    report = outcomes[AGGREGATOR].report
    assert (report["end"], report["last_good"]) == ("done", "round 2")
    assert report["ended_early"] == "before round 3: far enough"
    assert final(outcomes["client-1"]) == 2.0


def test_a_round_is_judged_by_its_metrics() -> None:
    judged = []
    made = rules(
        CLIENTS, judge=lambda state, sent, metrics: judged.append((len(sent), dict(metrics))) or state
    )
    run(dict.fromkeys(CLIENTS, adds(1.0)), rounds=1, made=made, validate=lambda arrays: {"loss": 4.0})
    assert judged == [(3, {"loss": 4.0})]


def test_clients_that_are_not_chosen_wait_and_get_the_final_model() -> None:
    outcomes = run({f"client-{i}": adds(1.0) for i in range(5)}, fraction=0.4, rounds=2)
    assert {final(outcome) for outcome in outcomes.values()} == {2.0}
    assert sum(len(r["clients"]) for r in outcomes[AGGREGATOR].report["rounds"].values()) == 4


def test_a_minimum_that_cannot_be_met_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 4 clients, there are 3"):
        next(aggregator(minimum=4))
