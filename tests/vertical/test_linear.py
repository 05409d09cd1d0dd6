"""Logistic regression: scikit-learn as oracle, and the edges it doesn't have."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import approx_fprime
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from vertical.linear import LinearModel, choose, mean_loss

Floats = NDArray[np.float64]


def rows(n: int, f: int, k: int, seed: int) -> tuple[Floats, NDArray[np.int64]]:
    """Overlapping classes, columns of different sizes."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, f)) * np.linspace(0.5, 2.0, f) + 3.0
    scores = (x - 3.0) @ rng.normal(size=(f, k)) + rng.gumbel(size=(n, k))
    return x, scores.argmax(axis=1)


def fit(
    x: Floats,
    y: NDArray[np.int64],
    k: int,
    strength: float,
    class_weights: Floats | None = None,
    offsets: Floats | None = None,
) -> LinearModel:
    """The model at one strength."""
    one_fold = np.zeros(len(y), np.int64)
    return choose(
        x, y, k, one_fold, strengths=(strength,), class_weights=class_weights, offsets=offsets
    ).model


def oracle(
    x: Floats, y: NDArray[np.int64], k: int, strength: float, weights: Floats | None = None
) -> tuple[LogisticRegression, Floats]:
    """scikit-learn on centred rows and a row at the centre that is spread over the classes, and the centred rows."""
    centred = x - x.mean(axis=0)
    scaled = np.vstack([centred, np.zeros((k, x.shape[1]))])
    own = np.ones(len(x)) if weights is None else weights[y]
    model = LogisticRegression(C=strength, tol=1e-10, max_iter=10_000)
    model.fit(scaled, np.append(y, np.arange(k)), sample_weight=np.append(own, np.full(k, 1 / k)))
    return model, centred


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("strength", [0.01, 1.0])
@pytest.mark.parametrize("shape", [(60, 5), (20, 40)])  # more columns than rows: the rotated coordinates
@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_scikit_learns_solution(
    k: int, strength: float, shape: tuple[int, int], weighted: bool
) -> None:
    x, y = rows(*shape, k, seed=3)
    weights = np.linspace(0.5, 2.0, k) if weighted else None
    reference, centred = oracle(x, y, k, strength, weights)
    model = fit(x, y, k, strength=strength, class_weights=weights)
    np.testing.assert_allclose(softmax(model.logits(x), axis=1), reference.predict_proba(centred), atol=2e-4)


def test_an_offset_that_knows_it_all_leaves_nothing_to_learn() -> None:
    x, y = rows(500, 3, 2, seed=1)
    model = fit(x, y, 2, strength=1e9)
    again = fit(x, y, 2, strength=1e9, offsets=model.logits(x))
    assert np.abs(model.weights).max() > 0.5
    assert np.abs(again.weights).max() < 0.01


def test_the_solution_has_no_slope_in_the_stated_loss() -> None:
    x, y = rows(30, 4, 3, seed=5)
    offsets = np.random.default_rng(0).normal(size=(30, 3))
    weights = np.array([1.0, 2.0, 0.5])
    model = fit(x, y, 3, strength=0.5, offsets=offsets, class_weights=weights)

    def loss(flat: Floats) -> float:  # the module's formula, row by row
        w, b = flat[:12].reshape(4, 3), flat[12:]
        total = (w**2).sum() / (2 * 0.5) - np.log(softmax(b)).mean()
        for row in range(30):
            logits = offsets[row] + (x[row] - x.mean(axis=0)) @ w + b
            total -= weights[y[row]] * np.log(softmax(logits)[y[row]])
        return float(total)

    slope = approx_fprime(np.append(model.weights.ravel(), model.bias), loss, 1e-7)
    assert np.abs(slope).max() < 1e-2


def test_rows_without_a_label_do_not_count() -> None:
    x, y = rows(40, 3, 2, seed=4)
    some = fit(np.vstack([x, 2 * x.mean(axis=0) - x]), np.append(y, np.full(40, -1)), 2, strength=1.0)
    np.testing.assert_allclose(some.weights, fit(x, y, 2, strength=1.0).weights, atol=1e-3)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("n", [0, 1, 7])
@pytest.mark.parametrize("f", [0, 3])
def test_one_class_gives_the_smoothed_base_rate(n: int, k: int, f: int) -> None:
    x = np.random.default_rng(0).normal(size=(n, f))
    chosen = choose(x, np.zeros(n, np.int64), k, np.arange(n) % 3)
    chance = softmax(chosen.model.logits(x.mean(axis=0, keepdims=True) if n else np.zeros((1, f))), axis=1)[0]
    # one row in all spread over k classes: (n + 1 / k) / (n + 1), up to what the weights take over
    assert chance[0] == pytest.approx((n + 1 / k) / (n + 1), abs=1e-3)
    assert chosen.held_out.shape == (n, k)
    assert np.isfinite(chosen.held_out).all()


def test_held_out_logits_come_from_the_fit_without_the_fold() -> None:
    x, y = rows(30, 3, 3, seed=6)
    folds = np.arange(30) % 3
    chosen = choose(x, y, 3, folds, strengths=(0.3,))
    for fold in range(3):
        hidden = np.where(folds == fold, -1, y)  # the centre is that of all rows
        other = fit(x, hidden, 3, strength=0.3)
        np.testing.assert_allclose(
            softmax(chosen.held_out[folds == fold], axis=1),
            softmax(other.logits(x[folds == fold]), axis=1),
            atol=2e-3,
        )
    assert chosen.losses == (pytest.approx(mean_loss(chosen.held_out, y)),)


def test_a_label_cannot_reach_its_own_held_out_logits() -> None:
    x, y = rows(24, 3, 2, seed=7)
    folds = np.arange(24) % 3
    flipped = y.copy()
    flipped[0] = 1 - y[0]
    first, second = (choose(x, labels, 2, folds, strengths=(1.0,)).held_out for labels in (y, flipped))
    np.testing.assert_array_equal(first[folds == 0], second[folds == 0])
    assert np.abs(first - second).max() > 0.01


def test_the_strength_is_the_one_of_least_held_out_loss() -> None:
    x, y = rows(300, 10, 2, seed=8)
    noise = np.random.default_rng(1).integers(0, 2, size=300)
    strengths = (1e-4, 1e-2, 1.0)
    folds = np.arange(300) % 3
    assert choose(x, y, 2, folds, strengths=strengths).strength > 1e-4
    pure = choose(x, noise, 2, folds, strengths=strengths)
    assert pure.strength == 1e-4
    assert min(pure.losses) == pure.losses[0]


def test_a_class_that_stands_in_one_fold_only() -> None:
    x, y = rows(12, 3, 3, seed=9)
    y = np.where(np.arange(12) < 4, 2, np.arange(12) % 2)  # class 2 in fold 0 only
    chosen = choose(x, y, 3, np.arange(12) // 4)
    assert np.isfinite(chosen.held_out).all()
    assert all(np.isfinite(loss) for loss in chosen.losses)


def test_without_any_label_nothing_is_learned() -> None:
    chosen = choose(np.ones((5, 2)), np.full(5, -1), 3, np.arange(5) % 2)
    assert np.isnan(chosen.losses[0])
    np.testing.assert_array_equal(chosen.model.weights, np.zeros((2, 3)))


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 12), st.integers(0, 15), st.integers(2, 4), st.integers(0, 5), st.integers(0, 99))
def test_any_small_problem_gives_finite_logits(n: int, f: int, k: int, parts: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, f)) * rng.integers(0, 2, size=f)  # some columns constant
    y = rng.integers(-1, k, size=n)
    chosen = choose(x, y, k, np.arange(n) % (parts + 1))
    assert np.isfinite(chosen.held_out).all()
    assert np.isfinite(chosen.model.logits(x)).all()


def test_packing_gives_the_same_model_again() -> None:
    x, y = rows(20, 3, 3, seed=10)
    model = fit(x, y, 3, strength=1.0)
    again = LinearModel.unpack("expert.stack", model.pack("expert.stack"))
    np.testing.assert_array_equal(again.logits(x), model.logits(x))
