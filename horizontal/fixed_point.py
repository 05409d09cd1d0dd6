"""Arrays as words modulo 2^64 and back: sums of such words are exact, in any order. numpy only.

A real value v becomes the whole number nearest to v * 2^f (halves to even), a whole number stays one. A weighted sum
over clients k is then `sum_k n_k q_k` without any error while it stays below 2^63, and their weighted mean is off by
2^-(f+1) at most, besides the rounding to the array's own dtype. Values beyond `limit` are refused, not clipped: a
clipped model would be another one than the client trained.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from horizontal.average import Arrays, UpdateError, rounded
from protocols.errors import ConfigError


class OutOfRange(UpdateError):
    """A client's update has values that secure aggregation can't add up."""

    code = "out_of_range"


_CAPACITY = 2.0**63
Words = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedPoint:
    """Numbers with `bits` after the binary point, none beyond +-`limit`."""

    bits: int
    limit: float

    @property
    def largest(self) -> float:
        """Bound of a value as a whole number; whole numbers themselves may be as large."""
        return self.limit * 2.0**self.bits

    def check_room(self, total_weight: int) -> None:
        """ConfigError if sums of values with weights up to this in all could leave 64 bits."""
        if total_weight * self.largest >= _CAPACITY:
            fits = int(np.ceil(np.log2(_CAPACITY / (total_weight * self.limit)))) - 1
            raise ConfigError(
                f"sums of values up to {self.limit:g} with weights up to {total_weight} in all and {self.bits} bits "
                "after the point don't fit in 64 bits",
                remedy=f"lower fraction_bits (to {fits} or less), value_limit or maximum_examples",
            )

    def words(self, arrays: Arrays, weight: int) -> Words:
        """All entries in the order of the arrays' names, times the weight: (n,).

        OutOfRange naming an array with a value that isn't finite or lies beyond the limit; never the value.
        """
        return np.concatenate(
            [self._whole(name, arrays).view(np.uint64) * np.uint64(weight) for name in sorted(arrays)]
            or [np.zeros(0, np.uint64)]
        )

    def _whole(self, name: str, arrays: Arrays) -> NDArray[np.int64]:
        value = arrays[name].ravel()
        real = np.issubdtype(value.dtype, np.inexact)
        scaled = value.astype(np.float64) * (2.0**self.bits if real else 1.0)
        if not (np.abs(scaled) <= self.largest).all():  # NaN compares false
            raise OutOfRange(
                f"{name!r} has values beyond {self.limit:g}, which secure aggregation can't add up",
                remedy="raise value_limit, or lower the learning rate or the range of the features",
            )
        return np.rint(scaled).astype(np.int64) if real else value.astype(np.int64)

    def mean(self, words: Words, like: Arrays, total_weight: int) -> dict[str, NDArray[np.generic]]:
        """The arrays, laid out like these, whose weighted sum the words are, over the total weight.

        UpdateError for a mean beyond the limit: then somebody sent what no model can be.
        """
        found = {}
        at = 0
        for name in sorted(like):
            shape, dtype = like[name].shape, like[name].dtype
            part = words[at : at + like[name].size].view(np.int64)
            at += len(part)
            unit = 2.0**self.bits if np.issubdtype(dtype, np.inexact) else 1.0
            mean = part.astype(np.float64) / total_weight
            if not (np.abs(mean) <= self.largest).all():
                raise UpdateError(f"the mean of {name!r} lies beyond {self.limit:g}: a client sent no model")
            found[name] = rounded(mean / unit, dtype).reshape(shape)
        return found


def size(arrays: Arrays) -> int:
    """Number of words of such arrays."""
    return sum(value.size for value in arrays.values())
