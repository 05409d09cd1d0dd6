"""The pool of experts: a worked case, a search as oracle, and the edges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import softmax
from scipy.stats import norm

from vertical.mixture import (
    Mixture,
    fit_mixture,
    fixed_mixture,
    plausibility,
    pool_weights,
)


def test_two_experts_that_are_right_in_turn() -> None:
    # w1 = w: log(.9 w + .1 (1 - w)) * 3 + log(.1 w + .9 (1 - w)) is largest where 2.4 / (.1 + .8 w) = .8 / (.9 - .8 w)
    chances = np.log([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.1, 0.9]])
    got = pool_weights(chances, np.array([0.5, 0.5]), 0.0)
    np.testing.assert_allclose(got, [0.8125, 0.1875], atol=1e-6)  # 2.16 - 1.92 w = .08 + .64 w


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 999), st.integers(1, 20), st.floats(0.5, 20.0))
def test_it_is_what_a_search_finds(seed: int, n: int, prior_rows: float) -> None:
    rng = np.random.default_rng(seed)
    chances, prior = np.log(rng.uniform(0.01, 1.0, size=(n, 3))), np.array([0.5, 0.3, 0.2])

    def cost(free: np.ndarray) -> float:
        w = softmax(np.append(free, 0.0))
        return float(-np.log(np.exp(chances) @ w).sum() - prior_rows * (prior @ np.log(w)))

    best = softmax(np.append(minimize(cost, np.zeros(2), tol=1e-12).x, 0.0))
    np.testing.assert_allclose(pool_weights(chances, prior, prior_rows), best, atol=1e-4)


def test_plausibility_is_a_paired_test_against_the_best() -> None:
    # gaps of the second to the first: 1, 1, 1, 0; mean 3 / 4, deviation 1 / 2, error 1 / 4, so three errors apart
    chances = np.array([[-1.0, -2.0], [-3.0, -4.0], [-2.0, -3.0], [-1.0, -1.0]])
    np.testing.assert_allclose(plausibility(chances), [1.0, 2.0 * norm.cdf(-3.0)])
    np.testing.assert_allclose(
        plausibility(np.column_stack([chances, chances[:, 0]])), [1.0, 0.0027, 1.0], atol=1e-4
    )
    np.testing.assert_array_equal(
        plausibility(np.array([[-1.0, -2.0]] * 5)), [1.0, 0.0]
    )  # the same gap everywhere
    np.testing.assert_array_equal(plausibility(chances[:1]), [1.0, 1.0])  # one row proves nothing


def test_a_flat_likelihood_leaves_the_weight_to_experts_that_may_be_the_best() -> None:
    rng = np.random.default_rng(0)
    labels = (rng.uniform(size=300) < 0.06).astype(
        np.int64
    )  # a rare class: hardly anything to tell them apart by
    rate = np.tile(np.log([0.94, 0.06]), (300, 1))
    noisy = rate + np.column_stack([np.zeros(300), 0.8 * rng.normal(size=300)])
    weights = fit_mixture({"rate": rate, "noisy": noisy}, labels, {"rate": 1.0, "noisy": 1.0}).weights
    assert weights[0] > 0.6


def test_without_rows_the_weights_are_the_stated_ones() -> None:
    prior = {"joint": 1.0, "stack": 3.0}
    held_out = {name: np.zeros((2, 2)) for name in prior}
    for mixture in (fixed_mixture(prior), fit_mixture(held_out, np.array([-1, -1]), prior)):
        np.testing.assert_allclose(mixture.weights, [0.25, 0.75])
        np.testing.assert_allclose(mixture.temperatures, [1.0, 1.0])


def test_many_rows_give_the_weight_to_the_better_expert_and_few_rows_hardly_any() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, size=2000)
    held_out = {
        "good": 2.0 * np.eye(2)[labels] + rng.normal(size=(2000, 2)),
        "bad": rng.normal(size=(2000, 2)),
    }
    prior = dict.fromkeys(held_out, 0.5)
    many = fit_mixture(held_out, labels, prior)
    few = fit_mixture({name: logits[:3] for name, logits in held_out.items()}, labels[:3], prior)
    assert many.weights[0] > 0.9
    assert 0.3 < few.weights[0] < 0.9


def test_an_expert_that_breaks_down_gets_no_say() -> None:
    labels = np.arange(200) % 2
    held_out = {"good": 3.0 * np.eye(2)[labels], "broken": np.full((200, 2), np.nan)}
    mixture = fit_mixture(held_out, labels, dict.fromkeys(held_out, 0.5))
    assert mixture.weights[0] > 0.9
    assert np.isfinite(mixture.log_probabilities(held_out)).all()


def test_the_pool_is_the_weighted_mean_of_calibrated_probabilities() -> None:
    mixture = Mixture(
        names=("a", "b", "unused"),
        temperatures=np.array([1.0, 2.0, 1.0]),
        weights=np.array([0.25, 0.75, 0.0]),
    )
    logits = {"a": np.log([[0.2, 0.8]]), "b": 2.0 * np.log([[0.6, 0.4]]), "unused": np.array([[np.inf, 0.0]])}
    got = np.exp(mixture.log_probabilities(logits))
    np.testing.assert_allclose(got, [[0.25 * 0.2 + 0.75 * 0.6, 0.25 * 0.8 + 0.75 * 0.4]])
    again = Mixture.unpack("mixture.both", mixture.pack("mixture.both"))
    assert again.names == mixture.names
    np.testing.assert_array_equal(again.log_probabilities(logits), mixture.log_probabilities(logits))


def test_one_expert_has_all_the_weight() -> None:
    mixture = fit_mixture({"a": np.zeros((3, 2))}, np.array([0, 1, 1]), {"a": 1.0})
    assert mixture.weights.tolist() == [pytest.approx(1.0)]
