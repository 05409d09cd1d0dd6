"""FedAvg: the choice of clients and the means, AC-11's values and AC-12's faults."""

from __future__ import annotations

import numpy as np
import pytest

from horizontal.average import NoExamplesError, UpdateError
from horizontal.fedavg import choose_uniformly, clients_per_round, size_weighted_mean, uniform_mean
from tests.horizontal.contributions import made

NAN, INFINITY = float("nan"), float("inf")
MEANS = pytest.mark.parametrize("mean", [size_weighted_mean, uniform_mean])


def test_size_weighted_and_uniform_worked_values() -> None:
    both = made(([1.0, 2.0], 30), ([3.0, 6.0], 10))
    assert size_weighted_mean(both)["w"].tolist() == [1.5, 3.0]  # (30*1 + 10*3)/40, (30*2 + 10*6)/40
    assert uniform_mean(both)["w"].tolist() == [2.0, 4.0]


@MEANS
def test_all_counts_zero_is_no_examples(mean) -> None:
    with pytest.raises(NoExamplesError, match="no examples"):
        mean(made(([1.0, 2.0], 0), ([3.0, 4.0], 0)))


def test_nobody_is_no_examples() -> None:
    with pytest.raises(NoExamplesError, match="none of 0"):
        size_weighted_mean([])


@MEANS
def test_a_client_without_examples_changes_nothing(mean) -> None:
    assert mean(made(([1.0, 2.0], 30), ([3.0, 6.0], 0)))["w"].tolist() == [1.0, 2.0]


@MEANS
@pytest.mark.parametrize("bad", [NAN, INFINITY, -INFINITY])
@pytest.mark.parametrize("examples", [10, 0])
def test_values_that_are_not_finite_name_the_client(mean, bad: float, examples: int) -> None:
    with pytest.raises(UpdateError, match=r"client-2: 'w'.*not finite"):
        mean(made(([1.0, 2.0], 30), ([bad, 6.0], examples)))


@MEANS
@pytest.mark.parametrize("count", [-5, NAN, INFINITY, 1.5])
def test_a_count_that_is_none_names_the_client(mean, count: float) -> None:
    with pytest.raises(UpdateError, match=r"client-2: expected a number of examples"):
        mean(made(([1.0, 2.0], 30), ([3.0, 6.0], count)))


@MEANS
def test_another_shape_names_the_client_and_both_shapes(mean) -> None:
    with pytest.raises(UpdateError, match=r"client-2: 'w': expected shape \(2,\), came \(3,\)"):
        mean(made(([1.0, 2.0], 30), ([3.0, 6.0, 9.0], 10)))


@pytest.mark.parametrize(
    ("n", "fraction", "at_least", "size"),
    [(10, 0.1, 1, 1), (10, 0.25, 1, 3), (10, 0.24, 1, 2), (10, 0.0, 2, 2), (10, 1.0, 1, 10), (3, 0.5, 3, 3)],
)
def test_how_many_clients_are_chosen(n: int, fraction: float, at_least: int, size: int) -> None:
    names = [f"client-{i}" for i in range(n)]
    chosen = choose_uniformly(names, fraction, at_least, 5)(1, names)
    assert len(chosen) == len(set(chosen)) == size == clients_per_round(n, fraction, at_least)
    assert chosen == [name for name in names if name in chosen]


def test_the_choice_depends_on_seed_and_round_and_reaches_everybody() -> None:
    names = [f"client-{i}" for i in range(6)]
    one, same, other = (choose_uniformly(names, 0.5, 1, seed) for seed in (1, 1, 2))
    rounds = range(1, 41)
    assert [one(r, names) for r in rounds] == [same(r, names) for r in rounds]
    assert [one(r, names) for r in rounds] != [other(r, names) for r in rounds]
    times = {name: sum(name in one(r, names) for r in rounds) for name in names}
    assert min(times.values()) >= 8  # 20 expected


def test_whoever_is_gone_is_replaced_and_nobody_else_changes() -> None:
    names = [f"client-{i}" for i in range(6)]
    choose = choose_uniformly(names, 0.5, 1, 1)
    before = choose(1, names)
    left = [name for name in names if name != before[0]]
    after = choose(1, left)
    assert (len(after), set(before[1:]) <= set(after), before[0] in after) == (3, True, False)
    assert choose(1, names[:2]) == names[:2]  # fewer than wanted
    assert choose(1, []) == []


def test_means_keep_their_dtype() -> None:
    assert size_weighted_mean(made(([1.0], 1), ([2.0], 2)))["w"].dtype == np.float32
