"""FedAlign, the baseline of the FedOUI paper (arXiv 2605.11571): aggregation by agreement of direction.

`w_k` is proportional to `n_k (max(0, cos(delta_k, mean delta)) + 1e-3)`, with the change delta_k of client k's
parameters in this round and the size-weighted mean of all changes. The product with FedOUI's score is the combination.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from horizontal.average import Arrays, Contribution
from horizontal.drift import cosine, difference
from horizontal.fedavg import size_weighted_mean


def agreement(
    received: Arrays, contributions: Sequence[Contribution], parameters: Sequence[str]
) -> NDArray[np.float64]:
    """max(0, cos(delta_k, mean delta)) of each client, (n,). Raises as `size_weighted_mean`."""
    mean = difference(received, size_weighted_mean(contributions), parameters)
    cosines = [cosine(difference(received, c.arrays, parameters), mean) for c in contributions]
    return np.maximum(0.0, np.array(cosines))
