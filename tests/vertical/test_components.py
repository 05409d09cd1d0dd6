"""Principal components: a hand-made case, scikit-learn as oracle, and the edges."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA

from vertical.components import Components, fit_components


def test_three_rows_on_a_line() -> None:
    # the line runs along (3, 4) / 5 through the mean (0, 1); distances from the mean are -5, 0, 5
    rows = np.array([[-3.0, -3.0], [0.0, 1.0], [3.0, 5.0]])
    fitted = fit_components(rows, 5)
    assert fitted.width == 1  # rank 1: no second component, whatever was asked for
    np.testing.assert_allclose(fitted.axes, [[0.6], [0.8]])
    np.testing.assert_allclose(fitted.transform(rows), [[-5.0], [0.0], [5.0]], atol=1e-12)
    np.testing.assert_allclose(
        fitted.transform(np.array([[4.0, -2.0]])), [[0.0]], atol=1e-12
    )  # across the line


@pytest.mark.parametrize("shape", [(200, 6), (10, 6), (5, 12)])  # long, square-like and wide
def test_they_are_scikit_learns_up_to_signs(shape: tuple[int, int]) -> None:
    rows = np.random.default_rng(0).normal(size=shape) * np.arange(1, shape[1] + 1)
    mine = fit_components(rows, 3)
    reference = PCA(3, svd_solver="full").fit(rows)
    np.testing.assert_allclose(np.abs(mine.transform(rows)), np.abs(reference.transform(rows)), atol=1e-8)
    assert (np.take_along_axis(mine.axes, np.abs(mine.axes).argmax(axis=0)[None], axis=0) > 0).all()


def test_a_column_turned_round_turns_no_other_thing_round() -> None:
    rows = np.random.default_rng(1).normal(size=(30, 3)) * [5.0, 2.0, 1.0]
    turned = rows * [1.0, 1.0, -1.0]  # the weakest column: it is nowhere the largest entry but on axis 3
    first, second = fit_components(rows, 2).transform(rows), fit_components(turned, 2).transform(turned)
    np.testing.assert_allclose(first, second, atol=1e-8)


@pytest.mark.parametrize(
    ("rows", "width"),
    [
        (np.zeros((0, 3)), 0),
        (np.ones((1, 3)), 0),
        (np.full((7, 3), 0.1), 0),  # whose mean is not 0.1 to the last bit
        (np.zeros((4, 0)), 0),
        (np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 0.0]]), 1),
        (np.arange(12.0).reshape(3, 4), 1),
    ],
)
def test_width_is_the_rank(rows: np.ndarray, width: int) -> None:
    fitted = fit_components(rows, 4)
    assert fitted.width == width
    assert fitted.transform(rows).shape == (len(rows), width)


def test_no_component_when_none_is_asked_for() -> None:
    assert fit_components(np.eye(4), 0).width == 0


def test_single_precision_rows_and_packing() -> None:
    rows = np.random.default_rng(2).normal(size=(20, 4)).astype(np.float32)
    fitted = fit_components(rows, 2)
    again = Components.unpack("passive.components", fitted.pack("passive.components"))
    assert again.transform(rows).dtype == np.float64
    np.testing.assert_array_equal(again.transform(rows), fitted.transform(rows))
