"""Whose a researcher's rows are: keys and splits for the rows of two tables in one process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocols.errors import BlockError, ConfigError
from vertical.conversion import is_missing, to_table
from vertical.roles import ACTIVE, PASSIVE
from vertical.table import Rows, Split

Aligned: TypeAlias = tuple[ArrayLike, ArrayLike]
"""Row numbers in the active and in the passive table of the common people, in the same order."""

On: TypeAlias = str | int | Sequence[object] | None
"""The name of the column that identifies people, or of several that do so together; "" or None for none."""
Cell: TypeAlias = object


def key_columns(on: On) -> tuple[str, ...]:
    """The names of the columns that identify people; () for none."""
    if on is None or on == "":
        return ()
    return (str(on),) if isinstance(on, str | int) else tuple(map(str, on))


def keys_of_rows(
    tables: Mapping[str, Mapping[str, object]], on: On, aligned: Aligned | None
) -> dict[str, tuple[bytes, ...]]:
    """Made-up keys of both tables' rows by role, equal for the same person and no others.

    `on` names columns of both that identify people, or `aligned` has the common people's rows. ConfigError for
    neither or both, and for rows that aren't there or come twice; BlockError for a table without such a column, for
    columns of two kinds, whose values are never equal, and for a table with several rows of one person.
    """
    names = key_columns(on)
    if bool(names) == (aligned is not None):
        raise ConfigError(
            "who is in both tables: either `on` or `aligned` must say so",
            remedy="on='column', or aligned=(rows of active, rows of passive)",
        )
    if aligned is not None:
        return _keys_by_rows(tables, aligned)
    cells = {role: _cells(table, names, role) for role, table in tables.items()}
    _check_kinds(cells[ACTIVE], cells[PASSIVE], names)
    for role, rows in cells.items():
        _check_different(rows, role, names)
    known: dict[tuple[Cell, ...], int] = {}
    return {role: _keys_by_value(rows, role, known) for role, rows in cells.items()}


def check_same_people(
    active: Mapping[str, object], passive: Mapping[str, object], names: Sequence[str]
) -> None:
    """BlockError when the key columns, if both tables have them, say that some row i is two different people."""
    if not names or any(name not in table for name in names for table in (active, passive)):
        return
    mine, other = (_cells(table, names, role) for role, table in ((ACTIVE, active), (PASSIVE, passive)))
    _check_kinds(mine, other, names)
    for row, (one, two) in enumerate(zip(mine, other, strict=False)):
        if one != two and not any(map(is_missing, (*one, *two))):
            raise BlockError(
                f"row {row} of the active and of the passive table are different people by {', '.join(names)}",
                remedy="bring both into one order, such as passive.set_index(key).loc[active[key]].reset_index()",
            )


def _keys_by_rows(
    tables: Mapping[str, Mapping[str, object]], aligned: Aligned
) -> dict[str, tuple[bytes, ...]]:
    keys = {}
    try:
        pair = tuple(zip(tables, aligned, strict=True))
    except (TypeError, ValueError):
        raise ConfigError(
            "aligned: expected two lists of row numbers", remedy="aligned=(rows of active, rows of passive)"
        ) from None
    rows = {role: _aligned_rows(given, role) for role, given in pair}
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
        for person, row in enumerate(rows[role].astype(np.int64).tolist()):
            names[row] = b"common %d" % person
        keys[role] = tuple(names)
    return keys


def _aligned_rows(given: ArrayLike, role: str) -> NDArray[np.float64]:
    numbers = _whole_numbers(given)
    if numbers is None:
        raise ConfigError(
            f"aligned: expected row numbers of the {role} table",
            remedy="numpy.flatnonzero turns truth values of all rows into row numbers",
        )
    return numbers


def _cells(table: Mapping[str, object], names: Sequence[str], role: str) -> list[tuple[Cell, ...]]:
    """The values of the key columns, row by row."""
    for name in names:
        if name not in table:
            raise BlockError(f"the {role} table has no column {name!r}", remedy=f"it has {', '.join(table)}")
    to_table({name: table[name] for name in names})  # refuses cells that are no values, such as lists
    return list(zip(*(np.asarray(table[name]).tolist() for name in names), strict=True))


def _check_different(rows: Sequence[tuple[Cell, ...]], role: str, names: Sequence[str]) -> None:
    """BlockError when several rows of a table are one person's."""
    usable = [cells for cells in rows if not any(map(is_missing, cells))]
    repeated = len(usable) - len(set(usable))
    if repeated:
        raise BlockError(
            f"{repeated} of {len(rows)} rows of the {role} table repeat the {', '.join(names)} of another row",
            remedy=f"keep one row per person, as by table.drop_duplicates({list(names)!r})",
        )


def _keys_by_value(
    rows: Sequence[tuple[Cell, ...]], role: str, known: dict[tuple[Cell, ...], int]
) -> tuple[bytes, ...]:
    """Keys by the values of the key columns; a row that lacks one is nobody of the other table."""
    return tuple(
        f"{role} {row}".encode()
        if any(map(is_missing, cells))
        else b"person %d" % known.setdefault(cells, len(known))
        for row, cells in enumerate(rows)
    )


def _check_kinds(
    active: Sequence[tuple[Cell, ...]], passive: Sequence[tuple[Cell, ...]], names: Sequence[str]
) -> None:
    """BlockError naming a column whose values in one table are of another kind than in the other."""
    for at, name in enumerate(names):
        mine, other = ({_kind(cells[at]) for cells in rows} - {""} for rows in (active, passive))
        if mine and other and not mine & other:
            raise BlockError(
                f"column {name!r} holds {' and '.join(sorted(mine))} in the active table and"
                f" {' and '.join(sorted(other))} in the passive one, so nobody could be common",
                remedy=f"make both the same, such as table.assign({name}=table[{name!r}].astype(str)); numbers lose"
                " leading zeros",
            )


def _kind(cell: Cell) -> str:
    """What sort of value a cell is; "" for a missing one."""
    if is_missing(cell):
        return ""
    if isinstance(cell, str):
        return "text"
    if isinstance(cell, int | float | Decimal):
        return "numbers"
    return "dates" if isinstance(cell, date) else type(cell).__name__


def _rows(table: Mapping[str, object]) -> int:
    return len(np.asarray(next(iter(table.values())))) if table else 0


def splits_of_rows(keys: Mapping[str, tuple[bytes, ...]], test: ArrayLike) -> dict[str, NDArray[np.uint8]]:
    """Split codes of both tables' rows: test people are so in both.

    `test` are row numbers, or truth values, of the active table; ConfigError for rows that aren't there.
    """
    rows = _test_rows(test, len(keys[ACTIVE]))
    people = {keys[ACTIVE][row] for row in rows.tolist()}
    return {
        role: np.array([Split.TEST if key in people else Split.TRAIN for key in names], np.uint8)
        for role, names in keys.items()
    }


def _test_rows(given: ArrayLike, rows: int) -> Rows:
    """Row numbers, from row numbers or from truth values (rows,)."""
    truths = _array(given)
    if truths is not None and truths.dtype == np.bool_:
        if truths.shape != (rows,):
            raise ConfigError(f"test: expected {rows} truth values, came shape {truths.shape}")
        return np.flatnonzero(truths).astype(np.int64)
    numbers = _whole_numbers(given)
    if numbers is None:
        raise ConfigError(
            "test: expected row numbers or truth values of the active table",
            remedy="for the people with some keys: table[column].isin(keys)",
        )
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < rows:
        raise ConfigError(f"test: rows must be in 0..{rows - 1}")
    return numbers.astype(np.int64)


def _whole_numbers(given: ArrayLike) -> NDArray[np.float64] | None:
    """Whole numbers (m,) of whatever type, infinity among them; None for anything else."""
    array = _array(given)
    if array is None or array.ndim != 1 or (array.size and array.dtype.kind not in "iuf"):
        return None
    numbers = array.astype(np.float64)
    return numbers if np.array_equal(numbers, np.floor(numbers)) else None


def _array(given: ArrayLike) -> NDArray[np.generic] | None:
    """An array of the type that its values have, also where they come as objects; None for lists of several lengths."""
    try:
        array = np.asarray(given)
        return np.array(array.tolist()) if array.dtype == np.object_ else array
    except ValueError:
        return None
