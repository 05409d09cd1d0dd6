"""The simulated clock by hand, and in a run: stragglers, partial work, dropped clients."""

from __future__ import annotations

import numpy as np
import pytest

from horizontal.latency import Clock, DroppedError, LateError, finished_epochs
from horizontal.methods import method
from horizontal.simulation import Research, simulate
from tests.horizontal.sites import CLIENTS, hidden


def clock(**more) -> Clock:
    shift = dict(zip(CLIENTS, (1.0, 1.0, 8.0), strict=True))
    return Clock(**{"seed": 1, "shift": shift, "mean": dict.fromkeys(CLIENTS, 0.0)} | more)


@pytest.mark.parametrize(
    ("seconds", "partial", "epochs"),
    [(10.0, False, 5), (10.0, True, 5), (10.1, False, 0), (20.0, True, 2), (26.0, True, 1), (99.0, True, 0)],
)
def test_epochs_before_the_deadline(seconds: float, partial: bool, epochs: int) -> None:
    assert finished_epochs(seconds, 5, 10.0, partial_work=partial) == epochs  # 5 * 10/26 = 1.9


def test_seconds_are_a_shifted_exponential_of_seed_client_and_round() -> None:
    one = clock(shift={"a": 3.0, "b": 3.0}, mean={"a": 2.0, "b": 2.0})
    drawn = np.array([one.seconds("a", number) for number in range(4000)])
    assert drawn.min() >= 3.0
    assert (drawn - 3).mean() == pytest.approx(2.0, abs=0.1)
    assert (drawn - 3).std() == pytest.approx(2.0, abs=0.15)
    assert one.expected("a") == 5.0
    assert one.seconds("a", 7) == one.seconds("a", 7) != one.seconds("b", 7)


def test_late_and_dropped_clients() -> None:
    assert clock(deadline=8.0).effort("client-3", 4)(1) == 4
    with pytest.raises(LateError, match=r"client-3 needs 8\.0 s, the deadline is 5\.0 s"):
        clock(deadline=5.0).effort("client-3", 4)(1)
    assert clock(deadline=5.0, partial_work=True).effort("client-3", 4)(1) == 2
    with pytest.raises(DroppedError, match="client-1 did not answer in round 3"):
        clock(drop=1.0).effort("client-1", 4)(3)
    dropped = sum(clock(drop=0.3).seconds("client-1", number) == float("inf") for number in range(2000))
    assert dropped == pytest.approx(600, abs=60)


def run(one: Clock, name: str = "fedavg", **settings):
    config = method(name, rounds=3, epochs=4, **settings)
    efforts = {client: one.effort(client, config.epochs) for client in CLIENTS}
    return simulate(hidden(), CLIENTS, config, research=Research(efforts=efforts))


def test_a_straggler_is_left_out_or_does_what_it_can() -> None:
    late = run(clock(deadline=5.0))
    for record in late.report["rounds"].values():
        assert (record["clients"], record["failures"]) == (["client-1", "client-2"], {"client-3": "late"})
    partial = run(clock(deadline=5.0, partial_work=True), "fedprox")
    assert partial.report["rounds"]["1"]["clients"] == list(CLIENTS)
    assert len(partial.clients["client-3"]["rounds"]["1"]["losses"]) == 2
    assert len(partial.clients["client-1"]["rounds"]["1"]["losses"]) == 4


def test_time_goes_by_the_slowest_or_the_deadline() -> None:
    assert clock().elapsed(run(clock()).report) == [8.0, 16.0, 24.0]
    short = clock(deadline=5.0)
    assert short.elapsed(run(short).report) == [5.0, 10.0, 15.0]


def test_fednova_counts_each_clients_own_steps_and_scaffold_does_too() -> None:
    for name in ("fednova", "scaffold"):
        result = run(clock(deadline=5.0, partial_work=True), name)
        assert result.report["rounds"]["3"]["clients"] == list(CLIENTS)
