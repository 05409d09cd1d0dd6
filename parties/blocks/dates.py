"""Dates as numbers: days since 1970-01-01, the time of day (UTC where a zone is given) as a fraction.

A fixed day, not the day of reading: the same file gives the same numbers at any time. Read are ISO 8601 dates and times
(2020-01-31, 2020-01-31T10:20:30+01:00), and day, month and year in figures (31.1.2020, 1/31/2020). Whether the day or
the month stands first is told by the whole column where it can be, and asked for where it can't.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from protocols.errors import BlockError

_TIME = (
    r"(?:[T ](?P<hour>\d{2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:\.\d{1,9})?))?"
    r"(?:Z|(?P<sign>[+-])(?P<ahead>\d{2}):?(?P<past>\d{2}))?)?$"
)
_ISO = r"^(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})" + _TIME
_FIGURES = r"^(?P<one>\d{1,2})(?P<mark>[./-])(?P<two>\d{1,2})(?P<again>[./-])(?P<year>\d{4})" + _TIME
_DAY = 86400.0

Floats = NDArray[np.float64]


class DateOrder(StrEnum):
    """Which number stands first in dates such as 1/2/2020."""

    DAY_FIRST = "day-first"
    MONTH_FIRST = "month-first"


def is_date(kind: pa.DataType) -> bool:
    """Whether cells of this type are dates or times already."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def days_of_times(cells: pa.ChunkedArray) -> Floats:
    """Days (rows,) of dates or timestamps, NaN where null."""
    zone = cells.type.tz if pa.types.is_timestamp(cells.type) else None
    milliseconds = cells.cast(pa.timestamp("ms", zone), safe=False).cast(pa.int64())
    values: Floats = pc.cast(milliseconds, pa.float64(), safe=False).to_numpy()
    return values / (1000 * _DAY)


def days_of_text(name: str, text: pa.ChunkedArray, order: DateOrder | None) -> Floats:
    """Days (rows,) of the cells, NaN where null or no date in the form that most cells have.

    Raises BlockError naming the column where days and months can't be told apart and `order` is None.
    """
    iso = _read(text, _ISO, ("year", "month", "day"))
    figures = {
        DateOrder.DAY_FIRST: _read(text, _FIGURES, ("year", "two", "one")),
        DateOrder.MONTH_FIRST: _read(text, _FIGURES, ("year", "one", "two")),
    }
    found = {way: _count(days) for way, days in figures.items()}
    if _count(iso) >= max(found.values()):
        return iso
    if order is not None:
        return figures[order]
    day, month = DateOrder
    if found[day] == found[month] and not np.array_equal(figures[day], figures[month], equal_nan=True):
        if not pc.any(pc.match_substring(text, "/")).as_py():
            return figures[day]  # 1.2.2020: with points nobody writes the month first
        raise BlockError(
            f"column {name!r}: days and months of its dates can't be told apart",
            remedy=f"give --date-order {day} or {month}, or --categorical {name!r}",
        )
    return figures[max(found, key=found.__getitem__)]


def date_text(days: float) -> str:
    """ISO 8601 text of a day, with its time to the second unless that is midnight; "" for NaN."""
    if np.isnan(days):
        return ""
    second = np.datetime64(round(days * _DAY), "s")
    midnight = second == second.astype("datetime64[D]")
    return str(second.astype("datetime64[D]") if midnight else second)


def _count(days: Floats) -> int:
    return int(np.count_nonzero(~np.isnan(days)))


def _read(text: pa.ChunkedArray, pattern: str, names: tuple[str, str, str]) -> Floats:
    """Days of the cells that have this form and are in the calendar; `names` of year, month, day in the pattern."""
    parts = pc.extract_regex(text, pattern)

    def number(name: str) -> Floats:
        part = pc.struct_field(parts, name)
        filled = pc.if_else(pc.equal(part, ""), "0", part)
        return np.asarray(pc.fill_null(filled.cast(pa.float64()), float("nan")).to_numpy(), np.float64)

    year, month, day = (number(name) for name in names)
    fits = (month >= 1) & (month <= 12) & (year >= 1)
    first = np.where(fits, (year - 1970) * 12 + month - 1, 0).astype(np.int64).astype("datetime64[M]")
    start, end = (value.astype("datetime64[D]").astype(np.int64) for value in (first, first + 1))
    fits &= (day >= 1) & (day <= end - start)
    hour, minute, second = number("hour"), number("minute"), number("second")
    fits &= (hour < 24) & (minute < 60) & (second < 60)
    if "mark" in pattern:
        same = pc.equal(pc.struct_field(parts, "mark"), pc.struct_field(parts, "again"))
        fits &= pc.fill_null(same, False).to_numpy()
    west = pc.fill_null(pc.equal(pc.struct_field(parts, "sign"), "-"), False).to_numpy()
    zone = np.where(west, -1.0, 1.0) * (number("ahead") * 3600 + number("past") * 60)
    clock = hour * 3600 + minute * 60 + second - zone
    return np.where(fits, start + day - 1 + clock / _DAY, np.nan)
