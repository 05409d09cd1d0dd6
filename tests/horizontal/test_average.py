"""Means of contributions: AC-11's values, AC-12's faults, dtypes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from horizontal.average import (
    Contribution,
    NoExamplesError,
    UpdateError,
    check_contribution,
    size_weighted_mean,
    uniform_mean,
)

NAN, INFINITY = float("nan"), float("inf")
MEANS = pytest.mark.parametrize("mean", [size_weighted_mean, uniform_mean])


def made(*pairs, dtype=np.float32) -> list[Contribution]:
    """Contributions of client-1, client-2, ... from (values, examples)."""
    return [
        Contribution(client=f"client-{i}", examples=n, arrays={"w": np.array(values, dtype)})
        for i, (values, n) in enumerate(pairs, 1)
    ]


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
    ("arrays", "text"),
    [
        ({}, "'w' is missing"),
        ({"w": np.zeros(2, np.float32), "v": np.zeros(1)}, "'v' is not expected"),
        ({"w": np.zeros(2)}, "expected float32, came float64"),
        ({"w": np.zeros((2, 1), np.float32)}, r"expected shape \(2,\), came \(2, 1\)"),
    ],
)
def test_another_layout_names_the_client(arrays, text: str) -> None:
    like = {"w": np.zeros(2, np.float32)}
    with pytest.raises(UpdateError, match=f"client-7: .*{text}"):
        check_contribution(Contribution(client="client-7", examples=1, arrays=arrays), like)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
def test_integers_stay_integers_and_are_rounded_to_the_nearest(dtype) -> None:
    mean = size_weighted_mean(made(([3, 10, 250], 30), ([4, 11, 255], 10), dtype=dtype))["w"]
    assert mean.dtype == dtype
    assert mean.tolist() == [3, 10, 251]  # 3.25, 10.25, 251.25


def test_a_count_without_dimensions_stays_an_array() -> None:
    mean = size_weighted_mean(made((5, 1), (7, 1), dtype=np.int64))["w"]
    assert type(mean) is np.ndarray
    assert (mean.shape, mean.dtype, int(mean)) == ((), np.int64, 6)


def test_a_mask_stays_a_mask() -> None:
    mean = size_weighted_mean(made(([True, False, True], 3), ([True, False, False], 1), dtype=np.bool_))["w"]
    assert mean.dtype == np.bool_
    assert mean.tolist() == [True, False, True]


@pytest.mark.parametrize("huge", [3e38, -3e38])
def test_large_values_and_counts_do_not_overflow(huge: float) -> None:
    mean = size_weighted_mean(made(([huge], 2**62), ([huge], 2**62)))["w"]
    assert mean.tolist() == [float(np.float32(huge))]


@given(
    st.lists(st.tuples(st.floats(-1e6, 1e6, width=32), st.integers(0, 10**6)), min_size=1, max_size=6).filter(
        lambda pairs: any(n for _, n in pairs)
    )
)
def test_the_mean_lies_among_its_values_and_equals_the_slow_sum(pairs) -> None:
    mean = float(size_weighted_mean(made(*([[value], n] for value, n in pairs)))["w"][0])
    counted = [value for value, n in pairs if n]
    slow = sum(value * n for value, n in pairs) / sum(n for _, n in pairs)
    assert min(counted) <= mean <= max(counted)
    assert mean == pytest.approx(slow, rel=1e-6, abs=1e-3)


@given(
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.lists(st.integers(1, 10**6), min_size=1, max_size=6),
)
def test_clients_that_agree_change_nothing(value: float, counts: list[int]) -> None:
    assert size_weighted_mean(made(*(([value], n) for n in counts)))["w"].tolist() == [value]
