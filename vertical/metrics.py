"""Metrics of predictions on evaluated rows. numpy only. Shapes: n rows, k classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int64]
Scores = NDArray[np.float32] | NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Metric:
    """A value, or None and the reason why there is none."""

    value: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Metrics of one model on one group of people; a value that doesn't exist is None and `reasons` says why.

    majority_rate is the share of the most frequent true class: what a constant prediction would reach.
    """

    rows: int
    auc: float | None
    accuracy: float | None
    balanced_accuracy: float | None
    majority_rate: float | None
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]


def evaluate(logits: Scores, labels: Codes) -> Evaluation:
    """Metrics of logits or log-probabilities (n, k) against class codes (n,); rows with code -1 don't count."""
    known = labels >= 0
    scores, true = logits[known], labels[known]
    area = auc(scores, true)
    if area.reason in ("no rows", "scores are not finite"):
        return Evaluation(
            rows=len(true),
            auc=None,
            accuracy=None,
            balanced_accuracy=None,
            majority_rate=None,
            reasons=(area.reason,),
            warnings=(),
        )
    predicted = scores.argmax(axis=1)
    constant = len(np.unique(predicted)) == 1 and len(true) > 1
    return Evaluation(
        rows=len(true),
        auc=area.value,
        accuracy=float(np.mean(predicted == true)),
        balanced_accuracy=balanced_accuracy(predicted, true),
        majority_rate=float(np.bincount(true).max() / len(true)),
        reasons=(f"auc: {area.reason}",) if area.reason else (),
        warnings=("constant prediction",) if constant else (),
    )


def auc(logits: Scores, labels: Codes) -> Metric:
    """Area under the ROC curve of logits (n, k) and class codes (n,).

    More than two classes: one against the rest, mean over the classes that have people inside and outside.
    None with a reason for no rows, one class only, or scores that aren't finite.
    """
    if len(labels) == 0:
        return Metric(None, "no rows")
    if not np.isfinite(logits).all():
        return Metric(None, "scores are not finite")
    present = np.unique(labels)
    if len(present) < 2:
        return Metric(None, "one class")
    areas = [binary_auc(log_odds(logits, code), labels == code) for code in present]
    return Metric(float(np.mean(areas)))  # two classes: both areas are the same


def log_odds(logits: Scores, code: int) -> NDArray[np.float64]:
    """Log-odds (n,) of class `code` against the rest; unlike a probability it has no ties near 0 and 1."""
    wide = logits.astype(np.float64)
    rest: NDArray[np.float64] = np.logaddexp.reduce(np.delete(wide, code, axis=1), axis=1)
    result: NDArray[np.float64] = wide[:, code] - rest
    return result


def binary_auc(score: Scores, positive: NDArray[np.bool_]) -> float:
    """Chance that a positive row scores above a negative one, a tie counting half; needs rows of both kinds."""
    ranks = mean_ranks(score)
    inside = int(positive.sum())
    outside = len(positive) - inside
    return float((ranks[positive].sum() - inside * (inside + 1) / 2) / (inside * outside))


def mean_ranks(score: Scores) -> NDArray[np.float64]:
    """Ranks from 1 of scores (n,), ties sharing their mean rank."""
    _, group, size = np.unique(score, return_inverse=True, return_counts=True)
    last = np.cumsum(size)
    result: NDArray[np.float64] = (last - (size - 1) / 2.0)[group]
    return result


def calibration_error(log_chances: Scores, labels: Codes, bins: int = 10) -> float | None:
    """Expected calibration error of log-probabilities (n, k): mean distance of confidence and accuracy.

    Over equally wide bins of the top probability, weighted by their rows (Guo et al., ICML 2017). Rows with code -1
    don't count; None without any.
    """
    known = labels >= 0
    if not known.any():
        return None
    confidence = np.exp(log_chances[known].max(axis=1))
    right = log_chances[known].argmax(axis=1) == labels[known]
    place = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    gap = np.bincount(place, weights=confidence - right, minlength=bins)
    return float(np.abs(gap).sum() / len(right))


def balanced_accuracy(predicted: Codes, true: Codes) -> float:
    """Mean over the classes present in `true` (n,) of the share predicted right; n > 0."""
    return float(np.mean([np.mean(predicted[true == c] == c) for c in np.unique(true)]))
