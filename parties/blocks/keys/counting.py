"""Columns of keys as whole numbers, so that millions of them are compared quickly: equal numbers are equal texts."""

from collections.abc import Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Codes = NDArray[np.int64]
"""(rows,): a number for each different text, -1 where there is none."""


def coded(cells: pa.LargeStringArray) -> Codes:
    """The codes of a column of text."""
    return np.asarray(cells.dictionary_encode().indices.fill_null(-1), dtype=np.int64)


def combined(parts: Sequence[Codes]) -> Codes:
    """Codes of whole rows: equal where all parts are, -1 where one is missing."""
    return reduce(_pair, parts)


def merged(now: Codes, then: Codes) -> int:
    """How many of the different keys `now` are equal to an earlier one in `then`, among the rows that have both."""
    pairs = _pair(now, then)
    return len(np.unique(pairs[pairs >= 0])) - len(np.unique(then[pairs >= 0]))


def _pair(one: Codes, other: Codes) -> Codes:
    both = (one >= 0) & (other >= 0)
    pairs = np.full(len(one), -1, np.int64)
    width = int(other.max(initial=0)) + 1
    pairs[both] = np.unique(one[both] * width + other[both], return_inverse=True)[1]
    return pairs
