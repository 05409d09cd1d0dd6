"""Contributions: layouts, weighted means, dtypes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from horizontal.average import Contribution, UpdateError, check_contribution, named, unnamed
from horizontal.fedavg import size_weighted_mean
from tests.horizontal.contributions import made


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


def test_what_goes_with_a_model_is_checked_too() -> None:
    like, extras = {"w": np.zeros(1)}, {"oui": np.zeros(())}
    for sent, text in (
        ({}, "array 'oui' is missing"),
        ({"oui": np.array(np.nan)}, "'oui': some values are not finite"),
    ):
        with pytest.raises(UpdateError, match=f"client-7: {text}"):
            check_contribution(
                Contribution(client="client-7", examples=1, arrays={"w": np.zeros(1)}, extras=sent),
                like,
                extras,
            )


def test_names_of_parts() -> None:
    arrays = {"w": np.zeros(1), "a.b": np.ones(1)}
    both = named("model", arrays) | named("models", {"w": np.ones(1)})
    assert sorted(both) == ["model.a.b", "model.w", "models.w"]
    assert unnamed("model", both) == arrays
