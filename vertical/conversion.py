"""A researcher's arrays, DataFrames and labels as the typed columns and codes that programs read.

Nothing of pandas is imported: whatever has `columns` and gives a column by name is read as a DataFrame.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocols.errors import BlockError
from vertical.table import MICROSECONDS_A_DAY, CategoricalColumn, Column, DateColumn, NumericColumn, Table


@runtime_checkable
class Frame(Protocol):
    """A DataFrame of pandas, polars or the like."""

    @property
    def columns(self) -> Iterable[object]:
        """Names of the columns."""

    def __getitem__(self, name: object, /) -> ArrayLike:
        """The column of that name."""


_WORDS: Mapping[type[Column], str] = {
    NumericColumn: "numbers",
    DateColumn: "dates",
    CategoricalColumn: "texts",
}
_CONVERSIONS: Mapping[type[Column], str] = {
    NumericColumn: "to_numeric(column, errors='coerce')",
    DateColumn: "to_datetime(column, errors='coerce')",
    CategoricalColumn: "Series(column).astype(str)",
}
"""What makes a column one of that kind; unreadable cells become missing."""
_NUMBERS = (int, float, np.integer, np.floating, np.bool_, Decimal)
Kinds: TypeAlias = Mapping[str, type[Column]]
TableLike: TypeAlias = Frame | Mapping[str, ArrayLike] | ArrayLike


def columns_of(table: TableLike) -> dict[str, object]:
    """The columns by name; those of an array (rows, f) are called x0, x1, ... BlockError for any other shape.

    Names are read as text; BlockError for two that are the same then.
    """
    if isinstance(table, Mapping):
        return _named(table, table)
    if isinstance(table, Frame):
        return _named(table, table.columns)
    try:
        array = np.asarray(table)
    except ValueError:
        raise BlockError(
            "the rows of a table differ in length", remedy="give every row one value for each column"
        ) from None
    if array.ndim != 2:
        raise BlockError(f"a table has two dimensions, came an array of shape {array.shape}")
    return {f"x{index}": array[:, index] for index in range(array.shape[1])}


def _named(table: Frame | Mapping[str, ArrayLike], names: Iterable[object]) -> dict[str, object]:
    texts = Counter(map(str, names))
    if twice := [name for name, times in texts.items() if times > 1]:
        raise BlockError(f"column names used twice: {', '.join(twice)}", remedy="rename the columns")
    return {str(name): table[name] for name in names}  # type: ignore[index]  # a mapping's own names


def to_table(columns: Mapping[str, object], kinds: Kinds = MappingProxyType({})) -> Table:
    """The typed columns: numbers, truth values, durations (days) are numeric, dates are days since 1970, else levels.

    None, NaN, NaT and NA are missing. `kinds` says of what kind a column must be, which a column without
    a value can't say itself. Raises BlockError for another kind, for columns of different lengths, or none.
    """
    return Table(tuple(_of_kind(to_column(name, cells), kinds.get(name)) for name, cells in columns.items()))


def kinds_of(table: Table) -> Kinds:
    """Of what kind each column is."""
    return {column.name: type(column) for column in table.columns}


def _of_kind(column: Column, kind: type[Column] | None) -> Column:
    if kind is None or type(column) is kind:
        return column
    if isinstance(column, NumericColumn) and np.isnan(column.values).all():
        if issubclass(kind, NumericColumn):
            return kind(name=column.name, values=column.values)
        return CategoricalColumn(name=column.name, codes=np.full(len(column.values), -1, np.int32), levels=())
    raise BlockError(
        f"column {column.name!r}: expected {_WORDS[kind]}, as when the model was trained, came {_WORDS[type(column)]}",
        remedy="give the numbers that it held in fit"  # pandas would make nanoseconds of dates
        if isinstance(column, DateColumn) and kind is NumericColumn
        else f"convert it first, as by pandas.{_CONVERSIONS[kind]}",
    )


def to_column(name: str, values: object) -> Column:
    """One column; a column of Python objects is numeric when all that isn't missing is a number.

    BlockError for cells of which nothing can be learnt, such as lists or complex numbers.
    """
    try:
        array = np.asarray(values)
    except ValueError:
        raise BlockError(
            f"column {name!r}: its cells differ in length, expected one value each",
            remedy="make a column of each of its parts, or leave it out",
        ) from None
    if array.ndim != 1:
        raise BlockError(f"column {name!r}: expected one dimension, came shape {array.shape}")
    if str(getattr(values, "dtype", "")) == "category":
        return _levels(name, array.astype(object))
    if array.dtype.kind in "biuf":
        return NumericColumn(name=name, values=array.astype(np.float64))
    if array.dtype.kind == "M":
        return DateColumn.of(name, array)
    if array.dtype.kind == "m":
        return NumericColumn(name=name, values=_days(array))
    cells = array.astype(object)
    present = [cell for cell in cells if not is_missing(cell)]
    wrong = {
        type(cell).__name__
        for cell in present
        if isinstance(cell, complex | np.complexfloating) or not _is_hashable(cell)
    }
    if wrong:
        raise BlockError(
            f"column {name!r} holds {' and '.join(sorted(wrong))}, expected numbers, dates or texts",
            remedy="make a column of each of its parts, or leave it out",
        )
    if present and all(isinstance(cell, date) for cell in present):
        days = [None if is_missing(cell) else _without_zone(cell) for cell in cells]
        return DateColumn.of(name, np.array(days, "datetime64[us]"))
    if all(isinstance(cell, _NUMBERS) for cell in present):
        return NumericColumn(
            name=name, values=np.array([np.nan if is_missing(c) else _number(c) for c in cells], np.float64)
        )
    return _levels(name, cells)


def _number(cell: float | Decimal) -> float:
    """A number of any size as a float; infinity for a whole one that is larger than any."""
    try:
        return float(cell)
    except OverflowError:
        return math.inf if cell > 0 else -math.inf


def _is_hashable(cell: object) -> bool:
    """Whether a cell can be told from others: no list, dict or array."""
    try:
        hash(cell)
    except TypeError:
        return False
    return True


def is_missing(cell: object) -> bool:
    """Whether a cell is None, NaN, NaT or pandas' NA, which says of nothing, itself included, that it is equal."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(cell, Decimal):
        return cell.is_nan()
    return isinstance(cell, float | np.floating | np.datetime64 | np.timedelta64) and bool(cell != cell)


def to_codes(labels: ArrayLike, missing_label: object) -> tuple[NDArray[np.int64], tuple[object, ...]]:
    """Class codes (rows,), -1 where missing, and the labels that the codes stand for, in their own order.

    A label equal to `missing_label` is missing too. Labels that can't be compared are ordered by their text.
    BlockError for labels that can't be told apart, such as lists.
    """
    cells = np.asarray(labels, object) if not isinstance(labels, Sequence) else np.array([*labels], object)
    if wrong := {type(cell).__name__ for cell in cells if not is_missing(cell) and not _is_hashable(cell)}:
        raise BlockError(
            f"labels hold {' and '.join(sorted(wrong))}, expected texts, numbers or truth values",
            remedy="give one value for each row that names its class",
        )
    known = [cell for cell in cells if not _unlabelled(cell, missing_label)]
    try:
        classes = tuple(sorted(set(known)))
    except TypeError:
        classes = tuple(sorted(set(known), key=str))
    code = {label: index for index, label in enumerate(classes)}
    codes = [-1 if _unlabelled(cell, missing_label) else code[cell] for cell in cells]
    return np.array(codes, np.int64), classes


def _unlabelled(cell: object, missing_label: object) -> bool:
    return is_missing(cell) or (missing_label is not None and bool(cell == missing_label))


def _without_zone(day: date) -> date | np.datetime64:
    """A date as it is; a time in UTC, if it says where it is, also beyond the years that Python's dates have."""
    if isinstance(day, datetime) and (offset := day.utcoffset()) is not None:
        return np.datetime64(day.replace(tzinfo=None), "us") - np.timedelta64(offset)
    return day


def _days(array: NDArray[np.generic]) -> NDArray[np.float64]:
    """Durations as days; NaN for NaT."""
    microseconds = array.astype("m8[us]").astype(np.int64)
    return np.where(np.isnat(array), np.nan, microseconds / MICROSECONDS_A_DAY)


def _levels(name: str, cells: NDArray[np.object_]) -> CategoricalColumn:
    texts = [None if is_missing(cell) else str(cell) for cell in cells]
    levels = tuple(sorted({text for text in texts if text is not None}))
    code = {level: index for index, level in enumerate(levels)}
    codes = np.array([-1 if text is None else code[text] for text in texts], np.int32)
    return CategoricalColumn(name=name, codes=codes, levels=levels)
