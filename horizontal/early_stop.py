"""The plain early stop: the validation loss rises while the training loss falls. numpy only.

The aggregator keeps (3,): the training and the validation loss of the round before, and for how many rounds in a row
this has been so. Clients send (3,): the loss of their last local epoch, and the received model's mean loss on their
validation rows and how many these are; an aggregator that can validate by itself needs only the first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from horizontal.average import Contribution

LOSSES = "losses"
"""The name of a client's losses among its extras: float64 (3,)."""
START = np.array([np.nan, np.nan, 0.0])
"""What the aggregator keeps before the first round."""


def overfitting(
    before: NDArray[np.float64], contributions: Sequence[Contribution], validation: float | None
) -> NDArray[np.float64]:
    """What is kept after a round; `validation` is the aggregator's own loss, None if it has none."""
    sent = np.stack([c.extras[LOSSES].astype(np.float64) for c in contributions])
    rows = np.array([c.examples for c in contributions], np.float64)
    training = _mean(sent[:, 0], rows)
    held_out = _mean(sent[:, 1], sent[:, 2]) if validation is None else validation
    worse = training < before[0] and held_out > before[1]
    return np.array([training, held_out, before[2] + 1 if worse else 0.0])


def _mean(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    return float(values @ weights / weights.sum()) if weights.sum() > 0 else float("nan")
