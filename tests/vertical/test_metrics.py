"""Metrics against slow loops and AC-10."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vertical.metrics import auc, balanced_accuracy, binary_auc, evaluate, log_odds, mean_ranks


def two(*second: float) -> np.ndarray:
    """Logits (n, 2) whose log-odds of class 1 are `second`."""
    return np.stack([np.zeros(len(second)), np.array(second)], axis=1)


def slow_auc(score: list[int], positive: list[bool]) -> float:
    rows = list(zip(score, positive, strict=True))
    pairs = [(s, t) for s, p in rows for t, q in rows if p and not q]
    return sum(1.0 if s > t else 0.5 if s == t else 0.0 for s, t in pairs) / len(pairs)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=20))
def test_auc_equals_counting_pairs_ties_included(rows: list[tuple[int, bool]]) -> None:
    score, positive = [row[0] for row in rows], [row[1] for row in rows]
    if len(set(positive)) == 2:
        got = binary_auc(np.array(score, np.float64), np.array(positive))
        assert got == pytest.approx(slow_auc(score, positive), abs=1e-12)


def test_ties_share_their_mean_rank() -> None:
    assert mean_ranks(np.array([5.0, 1.0, 5.0, 5.0])).tolist() == [3.0, 1.0, 3.0, 3.0]


def test_auc_of_confident_logits_has_no_ties() -> None:
    logits = two(40.0, 41.0, 42.0, 43.0).astype(np.float32)  # every probability rounds to 1
    assert auc(logits, np.array([0, 1, 0, 1])).value == 0.75


def test_auc_is_the_mean_of_one_against_the_rest_over_present_classes() -> None:
    logits = np.log(np.array([[0.7, 0.2, 0.1], [0.5, 0.4, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1]]))
    labels = np.array([0, 0, 1, 1])  # class 2 has nobody
    # class 0: scores .7 .5 against .6 .1 -> 3 of 4 pairs; class 1: .3 .8 against .2 .4 -> 3 of 4
    assert auc(logits, labels).value == pytest.approx(0.75)
    odds = log_odds(logits, 0)
    np.testing.assert_allclose(odds, np.log([0.7 / 0.3, 1.0, 0.6 / 0.4, 0.1 / 0.9]), atol=1e-12)


def test_one_class_has_no_auc_but_other_metrics() -> None:
    result = evaluate(two(-1.0, -2.0, 3.0), np.array([0, 0, 0]))
    assert (result.auc, result.reasons) == (None, ("auc: one class",))
    assert result.accuracy == pytest.approx(2 / 3)
    assert result.balanced_accuracy == pytest.approx(2 / 3)
    assert result.majority_rate == 1.0


def test_constant_predictor_on_imbalanced_rows_is_warned_of() -> None:
    labels = np.array([0] * 990 + [1] * 10)
    result = evaluate(two(*[-1.0] * 1000), labels)
    assert (result.accuracy, result.majority_rate, result.balanced_accuracy) == (0.99, 0.99, 0.5)
    assert result.warnings == ("constant prediction",)
    assert result.auc == 0.5


def test_a_varying_prediction_is_not_warned_of() -> None:
    assert evaluate(two(-1.0, 1.0), np.array([0, 1])).warnings == ()


@pytest.mark.parametrize(
    ("logits", "labels", "reason"),
    [
        (np.zeros((0, 2)), np.zeros(0, np.int64), "no rows"),
        (two(1.0, 2.0), np.array([-1, -1]), "no rows"),
        (two(1.0, np.nan), np.array([0, 1]), "scores are not finite"),
    ],
)
def test_without_usable_rows_every_metric_is_none_with_its_reason(
    logits: np.ndarray, labels: np.ndarray, reason: str
) -> None:
    result = evaluate(logits, labels)
    assert result.reasons == (reason,)
    assert [result.auc, result.accuracy, result.balanced_accuracy, result.majority_rate] == [None] * 4


def test_rows_without_a_label_do_not_count() -> None:
    assert evaluate(two(-1.0, 1.0, 1.0), np.array([0, 1, -1])) == evaluate(two(-1.0, 1.0), np.array([0, 1]))


def test_balanced_accuracy_is_the_mean_over_true_classes() -> None:
    assert balanced_accuracy(np.array([0, 0, 1, 2]), np.array([0, 0, 0, 1])) == pytest.approx((2 / 3 + 0) / 2)
