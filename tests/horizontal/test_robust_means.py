"""Median, trimmed and clipped means by hand, and what one poisoned client can do."""

from __future__ import annotations

import numpy as np
import pytest

from horizontal.average import Contribution, NoExamplesError, UpdateError
from horizontal.robust_means import clipped_mean, coordinate_median, trimmed_mean

RECEIVED = {"w": np.zeros(2, np.float32), "count": np.array(0)}


def sent(*values: tuple[float, float], count: int = 1) -> list[Contribution]:
    return [
        Contribution(
            client=f"client-{i}",
            examples=1,
            arrays={"w": np.array(v, np.float32), "count": np.array(count * i)},
        )
        for i, v in enumerate(values, 1)
    ]


MEANS = {
    "median": coordinate_median,
    "trimmed": lambda contributions: trimmed_mean(contributions, 0.25),
    "clipped": lambda contributions: clipped_mean(RECEIVED, contributions, ("w",), 0.0),
}


def test_median_by_hand() -> None:
    new = coordinate_median(sent((1, 9), (2, 8), (99, -50)))
    assert (new["w"].tolist(), new["w"].dtype) == ([2.0, 8.0], np.float32)
    assert (new["count"].dtype, int(new["count"])) == (np.int64, 2)
    assert coordinate_median(sent((1, 9), (2, 8)))["w"].tolist() == [1.5, 8.5]


def test_trimmed_mean_by_hand() -> None:
    values = sent((1, 1), (2, 2), (3, 3), (99, -99))  # floor(.25 * 4) = 1 off each end
    assert trimmed_mean(values, 0.25)["w"].tolist() == [2.5, 1.5]
    assert trimmed_mean(values[:3], 0.25)["w"].tolist() == [2.0, 2.0]  # floor(.75) = 0: the mean
    assert trimmed_mean(values, 0.49)["w"].tolist() == [2.5, 1.5]


def test_clipped_mean_by_hand() -> None:
    values = sent((3, 4), (0, 2), (60, 80))  # lengths 5, 2, 100
    new = clipped_mean(RECEIVED, values, ("w",), 1.0)
    np.testing.assert_allclose(new["w"], [(0.6 + 0 + 0.6) / 3, (0.8 + 1 + 0.8) / 3], rtol=1e-6)
    new = clipped_mean(RECEIVED, values, ("w",), 0.0)  # the median length 5
    np.testing.assert_allclose(new["w"], [(3 + 0 + 3) / 3, (4 + 2 + 4) / 3], rtol=1e-6)
    assert int(new["count"]) == 2  # a buffer: the median


def test_nobody_moving_changes_nothing() -> None:
    assert clipped_mean(RECEIVED, sent((0, 0), (0, 0)), ("w",), 0.0)["w"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("mean", MEANS.values(), ids=MEANS.keys())
def test_one_of_five_cannot_take_the_model_away(mean) -> None:
    honest = [(1.0, 1.1), (0.9, 1.0), (1.1, 0.9), (1.0, 1.0)]
    poisoned = mean(sent(*honest, (-1e6, 1e6)))["w"]
    assert np.abs(poisoned - 1).max() < 0.7


@pytest.mark.parametrize("mean", MEANS.values(), ids=MEANS.keys())
def test_a_forged_count_gains_nothing(mean) -> None:
    values = sent((1, 1), (2, 2), (3, 3), (8, 8))
    forged = Contribution(client="client-4", examples=10**12, arrays=values[3].arrays)
    assert mean([*values[:3], forged])["w"].tolist() == mean(values)["w"].tolist()


@pytest.mark.parametrize("mean", MEANS.values(), ids=MEANS.keys())
def test_faults_name_the_client(mean) -> None:
    with pytest.raises(UpdateError, match="client-2: 'w': some values are not finite"):
        mean(sent((1, 1), (float("nan"), 1)))
    with pytest.raises(NoExamplesError):
        mean([Contribution(client="a", examples=0, arrays=RECEIVED)])


@pytest.mark.parametrize("mean", MEANS.values(), ids=MEANS.keys())
def test_clients_without_rows_do_not_count(mean) -> None:
    values = sent((1, 1), (2, 2), (3, 3))
    empty = Contribution(
        client="z", examples=0, arrays={"w": np.full(2, 50, np.float32), "count": np.array(9)}
    )
    assert mean([*values, empty])["w"].tolist() == mean(values)["w"].tolist()
