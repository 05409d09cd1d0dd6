"""Makes "> 0.5" mean something: one temperature per classifier, and the vote's thresholds, from held-out rows.

numpy in float64. Shapes: n held-out rows, k classes.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax

from vertical.linear import Floats, Integers

TEMPERATURES = (0.05, 20.0)
"""Bounds of a temperature."""

PRIOR_ROWS = 5.0
"""How strongly a temperature is drawn to 1 (ours); see `fit_temperature`."""

_HALVINGS = 60


def fit_temperature(logits: Floats, labels: Integers, *, prior_rows: float = PRIOR_ROWS) -> float:
    """The T within `TEMPERATURES` for which softmax(logits / T) fits the labels best; logits (n, k), codes (n,).

    Minimises, over b = 1 / T, the cross-entropy of b * logits summed over the rows plus
    prior_rows * (b - 1 - log b), both convex; the second is a Gamma prior with mode 1, worth about so many
    rows. Rows with code -1 or a logit that isn't finite don't count; without rows T is 1. Temperature
    scaling: Guo et al., ICML 2017.
    """
    usable = (labels >= 0) & np.isfinite(logits).all(axis=1)
    used, true = logits[usable], labels[usable]
    chosen = np.take_along_axis(used, true[:, None], axis=1).sum()

    def slope(b: float) -> float:
        expected = (np.exp(log_softmax(b * used, axis=1)) * used).sum()
        return float(expected - chosen) + prior_rows * (1.0 - 1.0 / b)

    low, high = (np.log(1.0 / bound) for bound in reversed(TEMPERATURES))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if slope(np.exp(middle)) < 0.0 else (low, middle)
    return float(np.exp(-(low + high) / 2.0))


def log_probabilities(logits: Floats, temperature: float = 1.0) -> Floats:
    """Log-probabilities (m, k) of logits (m, k); a row with a logit that isn't finite says nothing: equal ones."""
    usable = np.isfinite(logits).all(axis=1, keepdims=True)
    result: Floats = log_softmax(np.where(usable, logits, 0.0) / temperature, axis=1)
    return result


def choose_threshold(
    probabilities: Floats,
    labels: Integers,
    *,
    precision: float,
    fallback: float,
    least: float = 0.5,
    rows: int = 20,
) -> float:
    """The smallest threshold >= `least` above which held-out rows are right at a share of `precision` or more.

    probabilities (n, k) calibrated, labels (n,), -1 where unknown. A row is accepted if its top probability is
    strictly greater than the threshold, as in the vote. A threshold with fewer than `rows` accepted ones proves
    nothing; if no threshold will do, `fallback`.
    """
    known = labels >= 0
    top = probabilities[known].max(axis=1)
    right = probabilities[known].argmax(axis=1) == labels[known]
    for threshold in np.unique(np.append(top[top > least], least)):  # rising
        accepted = top > threshold
        if accepted.sum() >= rows and right[accepted].mean() >= precision:
            return float(threshold)
    return fallback
