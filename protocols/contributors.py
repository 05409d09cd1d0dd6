"""Who stands behind a sum or a quantile: rules for numbers that one person can make up almost alone.

A mean over enough people can still be one person's value, when that person has nearly all of the sum: the dominance
rule (n, share) refuses it. A smallest or largest value is always one person's, and is never released; a quantile is,
when enough people lie on both sides of it, and then as the mean of the k values around it instead of somebody's own.
"""

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


def dominated(contributions: Values, people: int, percent: float) -> bool:
    """Whether the `people` largest of the people's contributions, by size, make up more than this share of the sum."""
    sizes = np.sort(np.abs(contributions))[::-1]
    total = float(sizes.sum())
    return total > 0 and float(sizes[:people].sum()) > percent / 100 * total


def by_person(values: Values, persons: NDArray[np.int64]) -> Values:
    """One contribution for each person: the sum of the sizes of that person's values."""
    _, index = np.unique(persons, return_inverse=True)
    return np.bincount(index, weights=np.abs(values)).astype(np.float64)


def around_quantile(ordered: Values, share: float, k: int) -> Values | None:
    """The k values around a quantile of ascending values, one a person; None unless k of them lie on either side.

    So the smallest and the largest value are never asked for, whatever the share.
    """
    count = len(ordered)
    below = int(np.floor(share * count))
    if below < k or count - below < k:
        return None
    first = below - k // 2
    return ordered[first : first + k]


def significant(value: float, digits: int = 3) -> float:
    """The value with so many significant digits: a mean of a known number of people gives no exact sum away."""
    return float(f"{value:.{digits - 1}e}") if np.isfinite(value) else value
