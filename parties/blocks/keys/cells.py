"""The exact text of a key column of any type; no step goes through a floating-point number."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from protocols.errors import SubjectKeyError


def key_text(column: str, cells: pa.ChunkedArray, *, dates: bool = False) -> pa.ChunkedArray:
    """The cells as large_string: text as it is, integers as plain digits, null where there is nothing.

    Floating-point and decimal columns pass only when every value is a whole number that the type holds
    exactly, days and times at midnight only with `dates` (as YYYY-MM-DD). Raises SubjectKeyError naming the column
    otherwise, and for types without one obvious text (truth values, times of day).
    """
    kind = cells.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind):
        return cells.cast(pa.large_string())
    if pa.types.is_null(kind):
        return cells.cast(pa.large_string())
    if pa.types.is_floating(kind):
        return _float_text(column, cells)
    if pa.types.is_decimal(kind):
        return _decimal_text(column, cells)
    if dates and (pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and kind.tz is None)):
        return _date_text(column, cells)
    raise SubjectKeyError(
        f"column {column!r} has the type {kind}, not text or whole numbers" + (" or days" if dates else ""),
        remedy="export it as text",
    )


def _float_text(column: str, cells: pa.ChunkedArray) -> pa.ChunkedArray:
    digits = {pa.float16(): 11, pa.float32(): 24, pa.float64(): 53}[cells.type]
    values = cells.to_numpy().astype(np.float64)
    given = ~np.isnan(values)
    # 2**53 itself may stand for 2**53 + 1, so the bound is excluded.
    large = int(np.count_nonzero(given & (np.abs(values) >= 2.0**digits)))
    fractions = int(np.count_nonzero(given & (np.abs(values) < 2.0**digits) & (values != np.trunc(values))))
    if large or fractions:
        raise SubjectKeyError(
            f"column {column!r} is {cells.type} with {large} values of 2**{digits} or more"
            f" and {fractions} with a fraction: different keys may have become one",
            remedy="deliver the key as text or as a 64-bit integer",
        )
    whole = np.where(given, values, 0).astype(np.int64)
    return pa.chunked_array([pa.array(whole, mask=~given).cast(pa.large_string())])


def _decimal_text(column: str, cells: pa.ChunkedArray) -> pa.ChunkedArray:
    whole: pa.ChunkedArray | None
    try:
        whole = cells.cast(pa.decimal256(76, 0))
    except pa.ArrowInvalid:
        whole = None
    if whole is None:
        raise SubjectKeyError(
            f"column {column!r} has decimal keys with a fraction", remedy="deliver the key as text"
        )
    texts = [None if value is None else str(int(value)) for value in whole.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.large_string())])


def _date_text(column: str, cells: pa.ChunkedArray) -> pa.ChunkedArray:
    days = cells.cast(pa.date32(), safe=False)
    if pa.types.is_timestamp(cells.type):
        times = pc.sum(pc.not_equal(days.cast(cells.type, safe=False), cells)).as_py() or 0
        if times:
            raise SubjectKeyError(
                f"column {column!r} has {times} times of day, not only days",
                remedy="deliver the days as text",
            )
    return days.cast(pa.large_string())
