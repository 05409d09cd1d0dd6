"""Means that a few poisoned updates can't move far. numpy only.

Coordinate-wise median and trimmed mean: Yin et al., "Byzantine-robust distributed learning", arXiv 1803.01498. Norm
clipping: Sun et al., "Can you really backdoor federated learning?", arXiv 1911.07963. All three give each client that
has rows the same weight (ours): a number of rows can be forged. Counts and masks are rounded as in `average`.
What they cost: clients with rare data look like outliers, and none of them helps once the poisoned are a majority.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from horizontal.average import Array, Arrays, Contribution, NoExamplesError, check_contribution, rounded
from horizontal.drift import difference, distance


def coordinate_median(contributions: Sequence[Contribution]) -> dict[str, Array]:
    """The median of each entry. Raises as `average.size_weighted_mean`."""
    return _by_entry(contributions, lambda stack: np.median(stack, axis=0))


def trimmed_mean(contributions: Sequence[Contribution], share: float) -> dict[str, Array]:
    """The mean of each entry without its floor(share * n) smallest and as many largest values; `share` below 1/2."""

    def trim(stack: NDArray[np.float64]) -> NDArray[np.float64]:
        cut = math.floor(share * len(stack) + 1e-9)
        ordered = np.sort(stack, axis=0)[cut : len(stack) - cut]
        return np.asarray(ordered.mean(axis=0))

    return _by_entry(contributions, trim)


def clipped_mean(
    received: Arrays, contributions: Sequence[Contribution], parameters: Sequence[str], norm: float
) -> dict[str, Array]:
    """The received model plus the mean of the changes, each shortened to a length of at most `norm`.

    `norm` 0 stands for the median of this round's lengths (ours). Buffers, which have no common scale with weights, are
    medians of their entries (ours).
    """
    mean = coordinate_median(contributions)
    trained = [contribution for contribution in contributions if contribution.examples > 0]
    lengths = [distance(difference(received, c.arrays, parameters)) for c in trained]
    limit = norm or float(np.median(lengths))
    factors = [min(1.0, limit / length) if length > 0 else 1.0 for length in lengths]
    for name in parameters:
        start = received[name].astype(np.float64)
        changes = [
            f * (c.arrays[name].astype(np.float64) - start) for f, c in zip(factors, trained, strict=True)
        ]
        mean[name] = (start + sum(changes) / len(changes)).astype(received[name].dtype)
    return mean


def _by_entry(
    contributions: Sequence[Contribution], centre: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> dict[str, Array]:
    """`centre` of all clients' values, (n, ...) -> (...), array by array."""
    for contribution in contributions:
        check_contribution(contribution, contributions[0].arrays)
    trained = [contribution.arrays for contribution in contributions if contribution.examples > 0]
    if not trained:
        raise NoExamplesError(f"no examples: none of {len(contributions)} clients has trained on any")
    return {
        name: rounded(centre(np.stack([arrays[name].astype(np.float64) for arrays in trained])), value.dtype)
        for name, value in trained[0].items()
    }
