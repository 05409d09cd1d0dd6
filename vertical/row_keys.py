"""Whose a researcher's rows are: keys and splits for the rows of two tables in one process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocols.errors import BlockError, ConfigError
from vertical.conversion import is_missing
from vertical.one_process import ACTIVE, PASSIVE
from vertical.table import Rows, Split

Aligned: TypeAlias = tuple[ArrayLike, ArrayLike]
"""Row numbers in the active and in the passive table of the common people, in the same order."""


def keys_of_rows(
    tables: Mapping[str, Mapping[str, object]], on: str, aligned: Aligned | None
) -> dict[str, tuple[bytes, ...]]:
    """Made-up keys of both tables' rows by role, equal for the same person and no others.

    `on` names a column of both that identifies people, or `aligned` has the common people's rows. ConfigError for
    neither or both, and for rows that aren't there or come twice; BlockError for a table without the column.
    """
    if bool(on) == (aligned is not None):
        raise ConfigError(
            "who is in both tables: either `on` or `aligned` must say so",
            remedy="on='column', or aligned=(rows of active, rows of passive)",
        )
    if aligned is not None:
        return _keys_by_rows(tables, aligned)
    known: dict[object, int] = {}
    return {role: _keys_by_column(table, on, role, known) for role, table in tables.items()}


def _keys_by_rows(
    tables: Mapping[str, Mapping[str, object]], aligned: Aligned
) -> dict[str, tuple[bytes, ...]]:
    keys = {}
    rows = {role: np.asarray(given, np.int64) for role, given in zip(tables, aligned, strict=True)}
    if len(rows[ACTIVE]) != len(rows[PASSIVE]):
        raise ConfigError(
            f"aligned: {len(rows[ACTIVE])} rows of one table, {len(rows[PASSIVE])} of the other"
        )
    for role, table in tables.items():
        count = _rows(table)
        found = np.unique(rows[role])
        if len(found) != len(rows[role]) or (len(found) and not 0 <= found[0] <= found[-1] < count):
            raise ConfigError(f"aligned: rows of the {role} table must be different and in 0..{count - 1}")
        names = [f"{role} {row}".encode() for row in range(count)]
        for person, row in enumerate(rows[role].tolist()):
            names[row] = b"common %d" % person
        keys[role] = tuple(names)
    return keys


def _keys_by_column(
    table: Mapping[str, object], on: str, role: str, known: dict[object, int]
) -> tuple[bytes, ...]:
    """Keys by the values in a column; a row without one is nobody of the other table."""
    if on not in table:
        raise BlockError(f"the {role} table has no column {on!r}")
    return tuple(
        f"{role} {row}".encode() if is_missing(value) else b"person %d" % known.setdefault(value, len(known))
        for row, value in enumerate(np.asarray(table[on]).tolist())
    )


def _rows(table: Mapping[str, object]) -> int:
    return len(np.asarray(next(iter(table.values())))) if table else 0


def splits_of_rows(keys: Mapping[str, tuple[bytes, ...]], test: ArrayLike) -> dict[str, NDArray[np.uint8]]:
    """Split codes of both tables' rows: test people are so in both.

    `test` are row numbers, or truth values, of the active table; ConfigError for rows that aren't there.
    """
    rows = _row_numbers(test, len(keys[ACTIVE]))
    people = {keys[ACTIVE][row] for row in rows.tolist()}
    return {
        role: np.array([Split.TEST if key in people else Split.TRAIN for key in names], np.uint8)
        for role, names in keys.items()
    }


def _row_numbers(given: ArrayLike, rows: int) -> Rows:
    """Row numbers, from row numbers or from truth values (rows,)."""
    array = np.asarray(given)
    if array.dtype == np.bool_:
        if array.shape != (rows,):
            raise ConfigError(f"test: expected {rows} truth values, came shape {array.shape}")
        return np.flatnonzero(array).astype(np.int64)
    numbers = array.astype(np.int64)
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < rows:
        raise ConfigError(f"test: rows must be in 0..{rows - 1}")
    return numbers
