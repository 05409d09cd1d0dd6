"""Makes "> 0.5" mean something: one temperature per classifier, from held-out rows.

numpy in float64. Shapes: n held-out rows, k classes.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax

from vertical.linear import Floats, Integers, mean_loss

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


def calibrated_loss(logits: Floats, labels: Integers) -> float:
    """Mean cross-entropy of held-out logits at their best temperature; NaN without a row that has both.

    Rows with a logit that isn't finite, which nobody held out, don't count.
    """
    said = np.isfinite(logits).all(axis=1)
    temperature = fit_temperature(logits[said], labels[said])
    return mean_loss(log_probabilities(logits[said], temperature), labels[said])
