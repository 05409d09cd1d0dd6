"""Temperatures from held-out rows: worked cases, a grid as oracle, tiny samples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax

from vertical.calibration import TEMPERATURES, calibrated_loss, fit_temperature, log_probabilities


def two(*odds: float) -> np.ndarray:
    """Logits of two classes with these log-odds."""
    return np.stack([np.zeros(len(odds)), np.array(odds)], axis=1)


def test_the_temperature_makes_the_stated_confidence_the_share_that_is_right() -> None:
    # three of four rows are right, all at log-odds 4: without a prior 4 / T = log 3
    logits, labels = two(4.0, 4.0, 4.0, 4.0), np.array([1, 1, 1, 0])
    assert fit_temperature(logits, labels, prior_rows=0.0) == pytest.approx(4.0 / math.log(3.0))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 999), st.integers(2, 4), st.integers(1, 30))
def test_it_is_the_minimum_of_a_fine_grid(seed: int, k: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    logits, labels = 3.0 * rng.normal(size=(n, k)), rng.integers(0, k, size=n)

    def cost(temperature: float) -> float:
        b = 1.0 / temperature
        loss = -log_softmax(b * logits, axis=1)[np.arange(n), labels].sum()
        return float(loss + 5.0 * (b - 1.0 - math.log(b)))

    grid = np.geomspace(*TEMPERATURES, 4000)
    best = grid[np.argmin([cost(temperature) for temperature in grid])]
    assert fit_temperature(logits, labels, prior_rows=5.0) == pytest.approx(best, rel=3e-3)


def test_few_rows_move_it_little_and_many_rows_far() -> None:
    sure = two(3.0)
    few = fit_temperature(sure, np.array([0]))  # one row, surely wrong
    many = fit_temperature(np.repeat(sure, 100, axis=0), np.arange(100) % 2)  # half of them wrong
    assert 1.0 < few < 2.0
    assert many > 5.0


def test_without_usable_rows_it_is_one() -> None:
    assert fit_temperature(np.zeros((0, 3)), np.zeros(0, np.int64)) == pytest.approx(1.0)
    assert fit_temperature(two(2.0, np.inf), np.array([-1, 0])) == pytest.approx(1.0)


def test_it_stays_within_its_bounds() -> None:
    right, wrong = np.repeat(two(1e-3), 9, axis=0), np.repeat(two(1e3), 9, axis=0)
    assert fit_temperature(right, np.ones(9, np.int64), prior_rows=0.0) == pytest.approx(TEMPERATURES[0])
    assert fit_temperature(wrong, np.zeros(9, np.int64), prior_rows=0.0) == pytest.approx(TEMPERATURES[1])


def test_logits_that_are_not_finite_say_nothing() -> None:
    got = np.exp(log_probabilities(np.array([[0.0, math.log(9.0)], [np.nan, 1.0]]), temperature=2.0))
    np.testing.assert_allclose(got, [[0.25, 0.75], [0.5, 0.5]])  # 9^(1/2) = 3 to 1


def test_the_loss_of_held_out_rows_is_that_at_their_best_temperature() -> None:
    """Right three times of four at log-odds 5 is too sure: the best temperature gives them about 3 to 1."""
    logits = np.array([[0.0, 5.0]] * 400 + [[np.nan, 0.0]])
    labels = np.array([1, 1, 1, 0] * 100 + [0])
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert calibrated_loss(logits, labels) == pytest.approx(entropy, abs=0.01)
    assert math.isnan(calibrated_loss(logits, -np.ones_like(labels)))
