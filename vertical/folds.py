"""Folds of training rows: which are held out, by position alone, never by label or feature.

All folds hold out equally many rows, so that every training of a search sends messages of the same size; a rest that
doesn't divide is held out by none. n rows, K folds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from protocols.seeds import PrivateSeed, derive, public_order
from vertical.table import Rows

MOST_OWN = 4096
"""Rows of a party's own that one fold holds out at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """Positions in a group, ascending: `kept` for training, `held` (m,) for validation. Together all of them."""

    kept: Rows
    held: Rows


def everyone(rows: int) -> Fold:
    """All rows kept, none held out."""
    return Fold(np.arange(rows, dtype=np.int64), np.zeros(0, dtype=np.int64))


def fold_count(rows: int, wanted: int) -> int:
    """How many of the `wanted` folds there are: no more than rows, and 0 where one person would be all there is."""
    return min(wanted, rows) if rows >= 2 else 0


def kept_rows(rows: int, wanted: int) -> int:
    """Rows that each fold leaves for training: `rows` without folds."""
    folds = fold_count(rows, wanted)
    return rows - rows // folds if folds else rows


def aligned_folds(public_seed: int, rows: int, wanted: int) -> tuple[Fold, ...]:
    """The folds of the aligned training rows, which both parties derive alike from the public seed."""
    return _folds(public_seed, "aligned folds", rows, fold_count(rows, wanted))


def own_folds(seed: PrivateSeed, rows: int, folds: int) -> tuple[Fold, ...]:
    """`folds` folds of a party's own rows, in an order that nobody else knows; with fewer rows none is held out.

    Each holds out `MOST_OWN` at most: more would tell little more, and be missed in the training.
    """
    return _folds(derive(seed, "own folds"), "own folds", rows, folds, MOST_OWN)


def _folds(seed: int, group: str, rows: int, folds: int, most: int | None = None) -> tuple[Fold, ...]:
    size = rows // folds if folds else 0
    size = size if most is None else min(size, most)
    if size == 0:
        return tuple(everyone(rows) for _ in range(folds))
    # One epoch of batches of a fold's size: no row comes twice.
    held = [np.sort(public_order(seed, group, rows, size, fold)) for fold in range(folds)]
    return tuple(Fold(np.setdiff1d(np.arange(rows), part), part) for part in held)


def fold_numbers(folds: Sequence[Fold], rows: int) -> Rows:
    """The number of the fold that holds each row out, (rows,); rows that none does are spread over all."""
    numbers = np.arange(rows, dtype=np.int64) % max(len(folds), 1)
    for number, fold in enumerate(folds):
        numbers[fold.held] = number
    return numbers
