"""Temperatures and thresholds from held-out rows: worked cases, a grid as oracle, tiny samples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax

from vertical.calibration import TEMPERATURES, choose_threshold, fit_temperature, log_probabilities


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


def confident(*tops: float) -> np.ndarray:
    """Probabilities of two classes, the second one on top."""
    return np.stack([1.0 - np.array(tops), np.array(tops)], axis=1)


def test_the_threshold_is_the_smallest_that_reaches_the_precision() -> None:
    probabilities, labels = confident(0.6, 0.7, 0.8, 0.9), np.array([0, 1, 0, 1])
    # strictly above .5: 2 of 4 right; above .6: 2 of 3; above .7: 1 of 2; above .8: 1 of 1
    for precision, threshold in ((0.5, 0.5), (0.6, 0.6), (0.7, 0.8)):
        assert (
            choose_threshold(probabilities, labels, precision=precision, fallback=0.99, rows=1) == threshold
        )


def test_the_fallback_when_nothing_reaches_it_or_too_few_rows_do() -> None:
    probabilities, labels = confident(0.6, 0.9), np.array([0, 1])
    assert choose_threshold(probabilities, labels, precision=0.9, fallback=0.77, rows=2) == 0.77
    assert choose_threshold(probabilities, 1 - labels, precision=0.9, fallback=0.77, rows=1) == 0.6 + 0.17
    assert choose_threshold(np.zeros((0, 2)), np.zeros(0, np.int64), precision=0.9, fallback=0.77) == 0.77


def test_rows_without_a_label_prove_nothing() -> None:
    probabilities = confident(0.6, 0.9)
    assert choose_threshold(probabilities, np.array([-1, 1]), precision=0.9, fallback=0.7, rows=1) == 0.5
