"""Fixed-point words: by hand, the weighted mean to the stated precision, and what doesn't fit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from horizontal.average import UpdateError
from horizontal.fixed_point import FixedPoint, size
from protocols.errors import ConfigError

POINT = FixedPoint(bits=24, limit=64.0)


def test_by_hand() -> None:
    arrays = {"b": np.array([3, -2]), "a": np.array([[0.5], [-0.25]], np.float32)}
    coarse = FixedPoint(bits=2, limit=8.0)
    found = coarse.words(arrays, 3)
    assert found.view(np.int64).tolist() == [6, -3, 9, -6]  # a: 2 and -1 quarters, then b, all times 3
    back = coarse.mean(found, arrays, 3)
    assert {name: value.tolist() for name, value in back.items()} == {"a": [[0.5], [-0.25]], "b": [3, -2]}
    assert (back["a"].dtype, back["b"].dtype, size(arrays)) == (np.float32, np.int64, 4)


def test_halves_go_to_the_even_neighbour() -> None:
    coarse = FixedPoint(bits=1, limit=8.0)
    assert coarse.words({"a": np.array([0.25, 0.75, -0.25])}, 1).view(np.int64).tolist() == [0, 2, 0]


@given(
    st.lists(
        st.tuples(st.integers(1, 1_000_000), st.floats(-64, 64), st.integers(-1000, 1000)),
        min_size=1,
        max_size=20,
    ),
    st.integers(4, 30),
)
def test_the_mean_of_the_sum_is_the_weighted_mean_to_the_stated_precision(
    sent: list[tuple[int, float, int]], bits: int
) -> None:
    point = FixedPoint(bits=bits, limit=64.0)
    total = sum(weight for weight, _, _ in sent)
    like = {"real": np.zeros(1), "whole": np.zeros((), np.int64)}
    whole = np.zeros(2, np.uint64)
    for weight, real, number in sent:
        whole = whole + point.words({"real": np.array([real]), "whole": np.array(number)}, weight)
    found = point.mean(whole, like, total)
    expected = sum(weight * real for weight, real, _ in sent) / total
    assert abs(float(found["real"][0]) - expected) <= 2.0 ** -(bits + 1) + 1e-12
    assert int(found["whole"]) == round(sum(weight * number for weight, _, number in sent) / total)


@pytest.mark.parametrize("value", [64.5, -65.0, np.inf, -np.inf, np.nan])
def test_what_can_t_be_added_up_is_refused_by_name_without_its_value(value: float) -> None:
    with pytest.raises(UpdateError, match="has values beyond 64") as caught:
        POINT.words({"fine": np.zeros(2), "layer.weight": np.array([0.0, value])}, 1)
    assert "'layer.weight'" in str(caught.value)
    assert str(value) not in str(caught.value)


def test_a_mean_that_no_models_have_is_refused() -> None:
    forged = np.array([1 << 62], np.uint64)
    with pytest.raises(UpdateError, match="the mean of 'w'"):
        POINT.mean(forged, {"w": np.zeros(1)}, 3)


def test_there_is_room_for_the_largest_sum_or_a_clear_refusal() -> None:
    POINT.check_room(8_000 * 1_000_000)
    with pytest.raises(ConfigError, match="don't fit in 64 bits") as caught:
        POINT.check_room(9_000 * 1_000_000)
    assert "lower fraction_bits (to 23 or less)" in caught.value.remedy
    FixedPoint(bits=23, limit=64.0).check_room(9_000 * 1_000_000)
    largest = POINT.words({"w": np.array([64.0])}, 8_000 * 1_000_000)
    assert POINT.mean(largest, {"w": np.zeros(1)}, 8_000 * 1_000_000)["w"].tolist() == [64.0]
