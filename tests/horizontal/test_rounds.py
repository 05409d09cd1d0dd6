"""The round loop with stand-in work, one number as the model: faults (AC-12, AC-14) as kinds, choice, checkpoints."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from horizontal.average import Arrays, NoExamplesError, size_weighted_mean
from horizontal.messages import Broadcast, Update
from horizontal.rounds import AGGREGATOR, RoundError, aggregator_program, choose_uniformly, client_program
from protocols.errors import CancelledRun, ConfigError, ProtocolError
from protocols.program import Checkpoint, Compute, Outcome, Receive, Send, simulate

CLIENTS = ("client-1", "client-2", "client-3")
NAN = float("nan")
Work = Callable[[Broadcast], Update]


def model(value: float, size: int = 1) -> Arrays:
    return {"w": np.full(size, value, np.float32)}


def adds(amount: float, examples: int = 10) -> Work:
    """Work whose result is the received number plus `amount`."""
    return lambda b: Update.trained(b.round, examples, model(float(b.arrays()["w"][0]) + amount))


def at(number: int, faulty: Work, normal: Work) -> Work:
    return lambda b: (faulty if b.round == number else normal)(b)


def breaks(error: Exception) -> Work:
    def work(broadcast: Broadcast) -> Update:
        raise error

    return work


def aggregator(rounds=3, minimum=2, clients=CLIENTS, fraction=1.0, **more):
    return aggregator_program(
        model(0.0),
        clients,
        rounds=rounds,
        minimum_clients=minimum,
        choose=choose_uniformly(clients, fraction, minimum, 1),
        advance=lambda state, contributions: size_weighted_mean(contributions),
        **more,
    )


def run(work: dict[str, Work], rounds=3, observe=None, **more) -> dict[str, Outcome]:
    programs = {name: client_program(one, rounds) for name, one in work.items()}
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
    assert outcomes["client-1"].report == {"end": "done", "took_part": "3 rounds", "failures": {}}


def test_messages_in_order() -> None:
    seen: list[str] = []
    run(
        {"client-1": adds(1.0), "client-2": adds(1.0)},
        rounds=1,
        observe=lambda s, to, m: seen.append(f"{type(m).__name__} {s} {to}"),
    )
    both = ["Broadcast aggregator client-1", "Broadcast aggregator client-2"]
    assert seen == [*both, "Update client-1 aggregator", "Update client-2 aggregator", *both]


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
    assert outcomes["client-2"].report == {
        "end": "done",
        "took_part": "2 rounds",
        "failures": {"2": "internal"},
    }
    assert outcomes[AGGREGATOR].report["rounds"]["3"]["clients"] == list(CLIENTS)


BAD = {
    "not finite": (lambda b: Update.trained(b.round, 10, model(NAN)), "update"),
    "not finite, no rows": (lambda b: Update.trained(b.round, 0, model(NAN)), "update"),
    "negative count": (lambda b: Update.trained(b.round, -5, model(1.0)), "update"),
    "other shape": (lambda b: Update.trained(b.round, 10, model(1.0, size=3)), "update"),
    "other names": (lambda b: Update.trained(b.round, 10, {"v": np.zeros(1)}), "update"),
    "other dtype": (lambda b: Update.trained(b.round, 10, {"w": np.zeros(1)}), "update"),
    "no arrays": (lambda b: Update(b.round, 10, "", b"junk"), "wire"),
    "own code": (breaks(ConfigError("x")), "config"),
    "foreign text": (lambda b: Update.failed(b.round, "Mallory was here\n"), "unknown"),
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


def checkpoints(program, answer: Work, kept: list[Checkpoint]) -> None:
    """Runs an aggregator to its end with one client that answers at once; keeps its checkpoints."""
    effect, sent = next(program), None
    while True:
        result: object = None
        match effect:
            case Send(message=message):
                sent = message
            case Compute(function, arguments):
                result = function(*arguments)
            case Receive():
                result = answer(sent)
            case Checkpoint():
                kept.append(effect)
        effect = program.send(result)


def test_each_good_state_is_a_checkpoint() -> None:
    program, kept = aggregator(minimum=1, clients=("client-1",)), list[Checkpoint]()
    fails = at(3, lambda b: Update.failed(b.round, "internal"), adds(1.0))
    with pytest.raises(RoundError, match="round 3"):
        checkpoints(program, fails, kept)
    assert [(c.step, int(c.state["round"]), c.state["model.w"].tolist()) for c in kept] == [
        (1, 1, [1.0]),
        (2, 2, [2.0]),
    ]


def test_validation_after_each_round_is_reported_and_observed() -> None:
    told = []
    outcomes = run(
        {"client-1": adds(1.0), "client-2": adds(1.0)},
        validate=lambda state: 10.0 - float(state["w"][0]),
    )
    assert [entry["loss"] for entry in outcomes[AGGREGATOR].report["rounds"].values()] == [9.0, 8.0, 7.0]
    program = aggregator(clients=CLIENTS, observe=told.append, validate=lambda state: float(state["w"][0]))
    simulate({AGGREGATOR: program, **{name: client_program(adds(2.0), 3) for name in CLIENTS}})
    assert [(p.step, p.of, p.loss) for p in told] == [(1, 3, 2.0), (2, 3, 4.0), (3, 3, 6.0)]


def test_messages_out_of_turn_are_refused() -> None:
    with pytest.raises(ProtocolError, match="Update from client-1: expected round 1, came 7"):
        run({"client-1": lambda b: Update.trained(7, 1, model(1.0)), "client-2": adds(1.0)})
    for first, then in ((2, 2), (2, 1), (1, 4)):
        client = client_program(adds(1.0), 3)
        next(client)
        effect = client.send(Broadcast.of(first, model(0.0)))  # Compute
        client.send(effect.function(*effect.arguments))  # Send
        client.send(None)
        with pytest.raises(ProtocolError, match=f"Broadcast from aggregator: expected round .* came {then}"):
            client.send(Broadcast.of(then, model(0.0)))


@pytest.mark.parametrize(
    ("n", "fraction", "at_least", "size"),
    [(10, 0.1, 1, 1), (10, 0.25, 1, 3), (10, 0.24, 1, 2), (10, 0.0, 2, 2), (10, 1.0, 1, 10), (3, 0.5, 3, 3)],
)
def test_how_many_clients_are_chosen(n: int, fraction: float, at_least: int, size: int) -> None:
    names = [f"client-{i}" for i in range(n)]
    chosen = choose_uniformly(names, fraction, at_least, 5)(1)
    assert len(chosen) == len(set(chosen)) == size
    assert list(chosen) == [name for name in names if name in chosen]


def test_the_choice_depends_on_seed_and_round_and_reaches_everybody() -> None:
    names = [f"client-{i}" for i in range(6)]
    one, same, other = (choose_uniformly(names, 0.5, 1, seed) for seed in (1, 1, 2))
    rounds = range(1, 41)
    assert [one(r) for r in rounds] == [same(r) for r in rounds]
    assert [one(r) for r in rounds] != [other(r) for r in rounds]
    times = {name: sum(name in one(r) for r in rounds) for name in names}
    assert min(times.values()) >= 8  # 20 expected


def test_clients_that_are_not_chosen_wait_and_get_the_final_model() -> None:
    outcomes = run({f"client-{i}": adds(1.0) for i in range(5)}, fraction=0.4, rounds=2)
    assert {final(outcome) for outcome in outcomes.values()} == {2.0}
    assert sum(len(r["clients"]) for r in outcomes[AGGREGATOR].report["rounds"].values()) == 4


@pytest.mark.parametrize("at_least", [0, 4])
def test_a_minimum_that_cannot_be_met_is_refused(at_least: int) -> None:
    with pytest.raises(ConfigError, match=f"at least {at_least} clients, there are 3"):
        choose_uniformly(CLIENTS, 1.0, at_least, 1)
