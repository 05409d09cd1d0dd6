"""How far and in which direction a client's training moved the model (FedBSS, arXiv 2501.11360). numpy only.

The drift of a client that received V and trained W is `D2 = sqrt(sum over all layers and entries (W - V)^2)`. Length
without agreement wastes a round: clients that move far in opposite directions leave the mean where it was. So the
cosine between a client's change and the mean change is reported beside it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from horizontal.average import Arrays

Vector = NDArray[np.float64]


def difference(received: Arrays, trained: Arrays, parameters: Iterable[str]) -> Vector:
    """W - V of these arrays in one vector, in float64."""
    names = tuple(parameters)
    return flat(trained, names) - flat(received, names)


def flat(arrays: Arrays, names: Iterable[str]) -> Vector:
    """All entries of these arrays in one float64 vector, in the order of `names`."""
    return np.concatenate([arrays[name].astype(np.float64).ravel() for name in names] or [np.zeros(0)])


def distance(change: Vector) -> float:
    """D2 of a change W - V."""
    return float(np.sqrt(_inner(change, change)))


def cosine(one: Vector, other: Vector, lengths: tuple[float, float] | None = None) -> float:
    """The cosine of the angle between two changes; 0 if either is nil. `lengths` are theirs, where known."""
    first, second = lengths or (distance(one), distance(other))
    return _inner(one, other) / (first * second) if first * second > 0 else 0.0


def _inner(one: Vector, other: Vector) -> float:
    """The inner product, by numpy alone: a BLAS splits it over threads, whose number shows in the bits."""
    return float(np.einsum("i,i->", one, other))
