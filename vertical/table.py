"""What a program reads at one party: typed columns, keys, split and, at the active party, labels.

numpy only. Arrays may be memory-mapped and are never written to. A checked record names the column
and the count of what is wrong, never a cell.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from protocols.errors import BlockError

Rows = NDArray[np.int64]
MICROSECONDS_A_DAY = 86_400e6


class Split(IntEnum):
    """The codes of a block's split column."""

    TRAIN = 0
    VALIDATION = 1
    TEST = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NumericColumn:
    """A column of numbers: values float64 (rows,), NaN where missing; infinities are allowed."""

    name: str
    values: NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.values.ndim != 1 or self.values.dtype != np.float64:
            raise BlockError(
                f"column {self.name!r}: expected float64 (rows,), "
                f"came {self.values.dtype} {self.values.shape}"
            )

    def take(self, rows: Rows) -> NumericColumn:
        """The same column with only these rows, in this order."""
        return replace(self, values=self.values[rows])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DateColumn(NumericColumn):
    """A column of dates: days since 1970-01-01, the time of day as a fraction, NaN where missing."""

    @classmethod
    def of(cls, name: str, dates: NDArray[np.datetime64]) -> DateColumn:
        """The column of dates or times of any unit, NaT where missing; BlockError for a year beyond 290,000."""
        fine = dates.astype("datetime64[us]")
        kept = np.isnat(dates) | (fine.astype("datetime64[D]") == dates.astype("datetime64[D]"))
        if not kept.all():
            raise BlockError(
                f"column {name!r}: {np.count_nonzero(~kept)} dates are out of range",
                remedy="mark dates beyond the year 290,000 as missing",
            )
        microseconds = fine.astype(np.int64)
        return cls(name=name, values=np.where(np.isnat(dates), np.nan, microseconds / MICROSECONDS_A_DAY))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CategoricalColumn:
    """A column of levels: codes int32 (rows,) into `levels`, -1 where missing."""

    name: str
    codes: NDArray[np.int32]
    levels: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.codes.ndim != 1 or self.codes.dtype != np.int32:
            raise BlockError(
                f"column {self.name!r}: expected int32 (rows,), came {self.codes.dtype} {self.codes.shape}"
            )
        outside = int(np.count_nonzero((self.codes < -1) | (self.codes >= len(self.levels))))
        if outside:
            raise BlockError(f"column {self.name!r}: {outside} codes outside its {len(self.levels)} levels")
        if len(set(self.levels)) != len(self.levels):
            raise BlockError(f"column {self.name!r}: a level is listed twice")

    def take(self, rows: Rows) -> CategoricalColumn:
        """The same column with only these rows, in this order."""
        return CategoricalColumn(name=self.name, codes=self.codes[rows], levels=self.levels)


Column = NumericColumn | CategoricalColumn


def column_rows(column: Column) -> int:
    """Number of rows of a column of either kind."""
    return len(column.values) if isinstance(column, NumericColumn) else len(column.codes)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Columns of equal length with distinct names; without columns the number of rows has to be given."""

    columns: tuple[Column, ...]
    rows: int = -1
    """Number of rows; from the columns where there are any."""

    def __post_init__(self) -> None:
        if not self.columns and self.rows < 0:
            raise BlockError("a table without columns needs its number of rows")
        if len(set(self.names)) != len(self.names):
            twice = sorted({name for name in self.names if self.names.count(name) > 1})
            raise BlockError(f"column names used twice: {', '.join(twice)}")
        lengths = {column.name: column_rows(column) for column in self.columns}
        if len(set(lengths.values()) | ({self.rows} if self.rows >= 0 else set())) > 1:
            raise BlockError(f"columns differ in length: {lengths}")
        object.__setattr__(self, "rows", next(iter(lengths.values()), self.rows))

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(column.name for column in self.columns)

    def take(self, rows: Rows) -> Table:
        """The same columns with only these rows, in this order (a copy)."""
        return Table(tuple(column.take(rows) for column in self.columns), len(rows))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PartyData:
    """One party's block as a program reads it.

    keys: one per row, already normalised. split uint8 (rows,) in Split codes.
    labels int64 (rows,) are class codes into `classes`, -1 where missing; None and () at a passive party.
    """

    keys: tuple[bytes, ...]
    table: Table
    split: NDArray[np.uint8]
    labels: NDArray[np.int64] | None = None
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        rows = self.table.rows
        if len(self.keys) != rows or self.split.shape != (rows,):
            raise BlockError(f"{rows} rows, but {len(self.keys)} keys and split {self.split.shape}")
        if self.split.dtype != np.uint8 or np.any(self.split > Split.TEST):
            raise BlockError("split must be uint8 with codes 0 train, 1 validation, 2 test")
        if self.labels is not None:
            self._check_labels(self.labels, rows)

    def _check_labels(self, labels: NDArray[np.int64], rows: int) -> None:
        if labels.shape != (rows,) or labels.dtype != np.int64:
            raise BlockError(f"labels: expected int64 ({rows},), came {labels.dtype} {labels.shape}")
        outside = int(np.count_nonzero((labels < -1) | (labels >= len(self.classes))))
        if outside:
            raise BlockError(f"labels: {outside} codes outside the {len(self.classes)} classes")

    def rows_of(self, split: Split) -> Rows:
        """Indices of the rows of a split, ascending."""
        return np.flatnonzero(self.split == split).astype(np.int64)

    def take(self, rows: Rows) -> PartyData:
        """The same party with only these rows, in this order; the classes stay."""
        return PartyData(
            keys=tuple(self.keys[row] for row in rows),
            table=self.table.take(rows),
            split=self.split[rows],
            labels=None if self.labels is None else self.labels[rows],
            classes=self.classes,
        )
