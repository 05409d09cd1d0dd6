"""Data frames of any dtypes as the table that files give: key columns exactly, cell by cell where pandas only knows
that they are objects."""

from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa

from parties.blocks.csv_text import check_names
from protocols.errors import BlockError, SubjectKeyError

_ONE_KIND = ("string", "bytes", "date", "datetime", "datetime64", "empty")
"""What pandas finds in a column of objects that pyarrow then reads exactly."""


def frame_table(frame: pd.DataFrame, keys: tuple[str, ...] = ()) -> pa.Table:
    """The frame's columns, without its index; `keys` name the key columns.

    Raises BlockError naming a column of several types or of one that has no table form, SubjectKeyError for key
    cells that have no exact text, with counts.
    """
    names = [name if isinstance(name, str) else "" for name in frame.columns]
    check_names(names)
    columns = {}
    for name in names:
        cells = frame[name]
        objects = cells.dtype == object and pd.api.types.infer_dtype(cells, skipna=True) not in _ONE_KIND
        columns[name] = _exact(name, cells) if name in keys and objects else _array(name, cells)
    return pa.table(columns)


def _exact(name: str, cells: "pd.Series[object]") -> pa.Array:
    """Key cells of several types, each as its own exact text."""
    texts: list[str | None] = []
    strange: Counter[str] = Counter()
    for value, absent in zip(cells, pd.isna(cells), strict=True):
        text = None if absent else _text(value)
        if text is None and not absent:
            strange[type(value).__name__] += 1
        texts.append(text)
    if strange:
        counts = ", ".join(f"{count} of type {kind}" for kind, count in strange.items())
        raise SubjectKeyError(
            f"column {name!r} has cells without one exact text: {counts}",
            remedy="deliver the key as text or whole numbers",
        )
    return _array(name, texts)


def _text(value: object) -> str | None:
    """The exact text of a key cell; None where there is none."""
    if isinstance(value, str | UUID):
        return str(value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float | np.floating):
        number, digits = float(value), np.finfo(type(value)).nmant + 1
        return str(int(number)) if number.is_integer() and abs(number) < 2.0 ** min(digits, 53) else None
    if isinstance(value, Decimal):
        return str(int(value)) if value.is_finite() and value == value.to_integral_value() else None
    if isinstance(value, bytes):
        return _utf8(value)
    return None


def _utf8(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _array(name: str, cells: Iterable[object]) -> pa.Array:
    made: pa.Array | None
    try:
        made = pa.array(cells, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        made = None  # the message would quote cells
    if made is None:
        raise BlockError(
            f"column {name!r} holds values of several types, or of one that no file has",
            remedy="convert it to text or numbers",
        )
    return made
