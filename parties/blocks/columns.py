"""Typed columns from the cells of a file.

What a column is gets inferred only where there is one reading; where there are two (decimal commas, numbers
mixed with words) the error names the column, the counts and the setting that decides. No error holds a
cell.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from parties.blocks.dates import DateOrder, days_of_text, days_of_times, is_date
from parties.blocks.missing import MISSING_TOKENS, check_tokens, present
from protocols.errors import BlockError
from vertical.table import CategoricalColumn, Column, DateColumn, NumericColumn

MAX_LEVELS = 1000
FEW_LEVELS = 50
FREE_TEXT_CELLS, FREE_TEXT_LENGTH = 20, 20
"""So many texts, all different and on average so long, are no levels of a category."""
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$|^[+-]?(?i:inf|infinity)$"
_LIKE_A_DATE = r"^[0-9]{1,4}[-./][0-9]{1,2}[-./][0-9]{1,4}"


class ColumnKind(StrEnum):
    """What a feature column is."""

    NUMERIC = "numeric"
    CATEGORICAL = "categorical"
    DATE = "date"


class Infinite(StrEnum):
    """What happens to infinite values: refuse the column, or treat them as missing."""

    REFUSE = "refuse"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRules:
    """How text cells are read: the decimal mark, the order of dates (None: as the column tells), the tokens (lower
    case) for "missing", and the fate of infinities."""

    decimal: str = "."
    date_order: DateOrder | None = None
    missing: tuple[str, ...] = MISSING_TOKENS
    infinite: Infinite = Infinite.REFUSE

    def __post_init__(self) -> None:
        """Raises BlockError for an impossible decimal mark or a token that could never match."""
        if self.decimal not in (".", ","):
            raise BlockError(f"decimal mark {self.decimal!r} is not usable", remedy="give '.' or ','")
        if not isinstance(self.infinite, Infinite):
            raise BlockError(f"infinite: expected {' or '.join(Infinite)}")
        check_tokens(self.missing, BlockError)


def typed_column(name: str, cells: pa.ChunkedArray, kind: ColumnKind | None, rules: CellRules) -> Column:
    """The column as numbers, as days, or as sorted levels with codes; `kind` None means: infer it.

    Raises BlockError naming the column.
    """
    if _is_number(cells.type) and kind in (None, ColumnKind.NUMERIC):
        return NumericColumn(name=name, values=_finite(name, _float64(cells), rules))
    if is_date(cells.type) and kind in (None, ColumnKind.DATE):
        return DateColumn(name=name, values=days_of_times(cells))
    text = present_text(cells, rules.missing)
    chosen = kind or _infer(name, text, rules)
    if chosen is ColumnKind.CATEGORICAL:
        codes, levels = _levels(name, text)
        return CategoricalColumn(name=name, codes=codes.astype(np.int32), levels=levels)
    if chosen is ColumnKind.DATE:
        return _dates(name, text, rules)
    numbers = _numbers(text, rules)
    if numbers is None:
        bad, given = _not_numbers(text, rules)
        raise BlockError(
            f"column {name!r}: {bad} of {given} cells are not numbers",
            remedy=f"correct them, or give --missing TEXT for theirs, or --categorical {name!r}",
        )
    return NumericColumn(name=name, values=_finite(name, numbers, rules))


def as_text(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """Cells of any plain type as large_string without blanks around them; whole floating-point numbers
    as plain digits."""
    if pa.types.is_floating(cells.type):
        values = _float64(cells)
        absent = np.isnan(values)
        plain = pa.array(values, mask=absent)
        if np.all(absent | ((values == np.trunc(values)) & (np.abs(values) < 2**53))):
            plain = pa.array(np.where(absent, 0, values).astype(np.int64), mask=absent)
        return pa.chunked_array([plain.cast(pa.large_string())])
    return pc.utf8_trim_whitespace(cells.cast(pa.large_string()))


def present_text(cells: pa.ChunkedArray, tokens: tuple[str, ...]) -> pa.ChunkedArray:
    """The cells as text, null where missing."""
    return present(as_text(cells), tokens)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _float64(cells: pa.ChunkedArray) -> NDArray[np.float64]:
    values = pc.fill_null(cells.cast(pa.float64(), safe=False), float("nan")).to_numpy()
    return np.asarray(values, dtype=np.float64)


def _finite(name: str, values: NDArray[np.float64], rules: CellRules) -> NDArray[np.float64]:
    infinite = np.isinf(values)
    if infinite.any() and rules.infinite is Infinite.REFUSE:
        raise BlockError(
            f"column {name!r}: {np.count_nonzero(infinite)} infinite or overflowing values",
            remedy="correct them, or give --infinite missing",
        )
    return np.where(infinite, np.nan, values)


def _dates(name: str, text: pa.ChunkedArray, rules: CellRules) -> DateColumn:
    days = days_of_text(name, text, rules.date_order)
    given = len(text) - text.null_count
    bad = given - int(np.count_nonzero(~np.isnan(days)))
    if bad:
        raise BlockError(
            f"column {name!r}: {bad} of {given} cells are not dates",
            remedy=f"correct them, or give --missing TEXT for theirs, or --categorical {name!r}",
        )
    return DateColumn(name=name, values=days)


def _infer(name: str, text: pa.ChunkedArray, rules: CellRules) -> ColumnKind:
    if _mostly_dates(name, text, rules):
        return ColumnKind.DATE
    if _count(text, r"^[+-]?0[0-9]"):
        return ColumnKind.CATEGORICAL  # 01234 is a code, such as a postcode, not a quantity
    if _numbers(text, rules) is not None:
        return ColumnKind.NUMERIC
    if float_cells(pc.replace_substring(text, ",", "")) is not None:
        raise BlockError(
            f"column {name!r}: numbers are written with commas",
            remedy=f"give --decimal ',' or --categorical {name!r}, or remove the thousands separators",
        )
    bad, given = _not_numbers(text, rules)
    if bad * 2 <= given and pc.count_distinct(text).as_py() > FEW_LEVELS:
        raise BlockError(
            f"column {name!r}: {bad} of {given} cells are not numbers, the others are",
            remedy=f"give --missing TEXT for theirs, or --categorical {name!r}",
        )
    return ColumnKind.CATEGORICAL


def _mostly_dates(name: str, text: pa.ChunkedArray, rules: CellRules) -> bool:
    """Whether most cells are dates, and the others too few to be levels beside a few days."""
    given = len(text) - text.null_count
    if _count(text, _LIKE_A_DATE) * 2 <= given:
        return False
    dates = int(np.count_nonzero(~np.isnan(days_of_text(name, text, rules.date_order))))
    several = int(pc.count_distinct(text).as_py()) > FEW_LEVELS
    return dates == given or (dates * 2 > given and several)


def _numbers(text: pa.ChunkedArray, rules: CellRules) -> NDArray[np.float64] | None:
    """The numbers (NaN where null), or None if a cell isn't one."""
    values = float_cells(_with_points(text, rules))
    return None if values is None else _float64(values)


def _with_points(text: pa.ChunkedArray, rules: CellRules) -> pa.ChunkedArray:
    """The text with decimal points; a point in a file with decimal commas would be a thousands
    separator, so it spoils the cell."""
    if rules.decimal == ".":
        return text
    return pc.replace_substring(pc.replace_substring(text, ".", "x"), ",", ".")


def float_cells(text: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """The text as float64 cells, None if one isn't a number."""
    try:
        return text.cast(pa.float64())
    except pa.ArrowInvalid:
        return None  # its message would quote the cell


def _not_numbers(text: pa.ChunkedArray, rules: CellRules) -> tuple[int, int]:
    given = len(text) - text.null_count
    return given - _count(_with_points(text, rules), _NUMBER), given


def _count(text: pa.ChunkedArray, pattern: str) -> int:
    return int(pc.sum(pc.match_substring_regex(text, pattern)).as_py() or 0)


def _levels(name: str, text: pa.ChunkedArray) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    codes, levels = distinct(text)
    if _is_free(text, len(levels)):
        raise BlockError(
            f"column {name!r} is free text: {len(levels)} different texts, one in each row, longer than"
            f" {FREE_TEXT_LENGTH} characters on average",
            remedy=f"leave it out: --ignore {name!r}; as a category it would say nothing of other people",
        )
    if len(levels) > MAX_LEVELS:
        raise BlockError(
            f"column {name!r} has {len(levels)} levels, at most {MAX_LEVELS} are supported",
            remedy=f"group its levels, or give --ignore {name!r} or --numeric {name!r}",
        )
    order = sorted(range(len(levels)), key=levels.__getitem__)
    rank = np.full(len(levels) + 1, -1, np.int64)
    rank[np.array(order, np.int64)] = np.arange(len(levels))
    return rank[codes], tuple(levels[i] for i in order)


def is_free_text(cells: pa.ChunkedArray, rules: CellRules) -> bool:
    """Whether a column of text is comments, addresses and the like: all cells different, and long."""
    if not (pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)):
        return False
    text = present_text(cells, rules.missing)
    return _is_free(text, int(pc.count_distinct(text, mode="only_valid").as_py()))


def _is_free(text: pa.ChunkedArray, levels: int) -> bool:
    given = len(text) - text.null_count
    if given < FREE_TEXT_CELLS or levels < given:
        return False
    return bool(pc.mean(pc.utf8_length(text)).as_py() > FREE_TEXT_LENGTH)


def distinct(text: pa.ChunkedArray) -> tuple[NDArray[np.int64], list[str]]:
    """Codes in order of appearance (-1 where null) and the distinct texts."""
    coded = text.combine_chunks().dictionary_encode()
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    codes = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, list(coded.dictionary.to_pylist())
