"""Means of what clients send, and the checks that each contribution has to pass first.

A model is a set of named arrays: parameters and buffers. The mean is a convex combination, so that no dtype overflows
and clients that agree change nothing; it is summed in float64 in the order given and rounded to the array's own dtype.
Integers and booleans (such as batch normalisation's count of batches) are rounded to the nearest, halves to even.
numpy only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from protocols.errors import FedaccordError

Array: TypeAlias = NDArray[np.generic]
Arrays: TypeAlias = Mapping[str, Array]
"""Named arrays: a model, alone or with what else an algorithm sends."""


def named(part: str, arrays: Arrays) -> dict[str, Array]:
    """The arrays under names that begin with `part` and a dot."""
    return {f"{part}.{name}": value for name, value in arrays.items()}


def unnamed(part: str, arrays: Arrays) -> dict[str, Array]:
    """Those arrays whose names begin with `part` and a dot, under the rest of their names."""
    return {n.removeprefix(f"{part}."): value for n, value in arrays.items() if n.startswith(f"{part}.")}


class UpdateError(FedaccordError):
    """A client's contribution cannot be used; the text names the client."""

    code = "update"


class NoExamplesError(FedaccordError):
    """No client of a round has trained on anything."""

    code = "no_examples"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contribution:
    """What one client adds to a round: its model after training on `examples` rows, and what a method sends besides."""

    client: str
    examples: int
    arrays: Arrays
    extras: Arrays = field(default_factory=dict)


def check_layout(arrays: Arrays, like: Arrays, who: str) -> None:
    """UpdateError naming `who` and both sides unless names, dtypes and shapes are those of `like`."""
    for name in sorted(arrays.keys() ^ like.keys()):
        raise UpdateError(f"{who}: array {name!r} is {'missing' if name in like else 'not expected'}")
    for name, expected in like.items():
        came = arrays[name]
        if came.shape != expected.shape:
            raise UpdateError(f"{who}: {name!r}: expected shape {expected.shape}, came {came.shape}")
        if came.dtype != expected.dtype:
            raise UpdateError(f"{who}: {name!r}: expected {expected.dtype}, came {came.dtype}")


def check_contribution(contribution: Contribution, like: Arrays, extras: Arrays | None = None) -> None:
    """UpdateError naming the client for a count below 0 or none at all, another layout, NaN or infinity.

    `like` is the layout of the model, `extras` (if given) of what goes with it.
    """
    who, examples = contribution.client, contribution.examples
    if not math.isfinite(examples) or examples < 0 or examples != int(examples):
        raise UpdateError(f"{who}: expected a number of examples, 0 or more, came {examples!r}")
    parts = [(contribution.arrays, like)] + ([] if extras is None else [(contribution.extras, extras)])
    for arrays, layout in parts:
        check_layout(arrays, layout, who)
        for name, value in arrays.items():
            if np.issubdtype(value.dtype, np.inexact) and not np.isfinite(value).all():
                raise UpdateError(f"{who}: {name!r}: some values are not finite")


def weighted_mean(contributions: Sequence[Contribution], weights: Sequence[float]) -> dict[str, Array]:
    """The mean with these weights, 0 or more and not all 0, which need not sum to 1."""
    for contribution in contributions:
        check_contribution(contribution, contributions[0].arrays)
    total = math.fsum(weights)
    if not total > 0:
        raise NoExamplesError(f"no examples: none of {len(contributions)} clients has trained on any")
    shares = [weight / total for weight in weights]
    return {
        name: _combine([c.arrays[name] for c in contributions], shares) for name in contributions[0].arrays
    }


def _combine(values: Sequence[Array], shares: Sequence[float]) -> Array:
    mean = np.zeros(values[0].shape)
    for value, share in zip(values, shares, strict=True):
        mean += share * value.astype(np.float64)
    return rounded(mean, values[0].dtype)


def rounded(mean: NDArray[np.float64], dtype: np.dtype[np.generic]) -> Array:
    """The mean in the array's own dtype; integers and booleans to the nearest, halves to even."""
    whole = mean if np.issubdtype(dtype, np.inexact) else np.rint(mean)
    return np.asarray(whole, dtype)
