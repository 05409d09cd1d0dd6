"""The rule for days, such as dates of birth."""

import re
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from typing import ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parties.blocks.keys.folding import flat
from parties.blocks.keys.rule import only_where

ISO = ("YYYY-MM-DD", "YYYYMMDD")
USUAL = ("DD.MM.YYYY", "DD/MM/YYYY", "MM/DD/YYYY", "DD-MM-YYYY", "YYYY/MM/DD")
"""Patterns that are looked for in a column which isn't in ISO form."""
FIRST_YEAR, LAST_YEAR = 1800, 2199
"""With these bounds no run of eight digits is both a YYYYMMDD and a DDMMYYYY."""
_PATTERN = r"(DD|MM|YYYY)([-./ ]?)(DD|MM|YYYY)([-./ ]?)(DD|MM|YYYY)"
_MIDNIGHT = r"(?:[T ]00:00(?::00(?:\.0+)?)?)?"
_DAYS = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])


@dataclass(frozen=True, slots=True)
class DateRule:
    """Days, in ISO form (2001-12-31, 20011231) or in one of the `patterns` that each party names for its own cells.

    A pattern such as DD.MM.YYYY says the order; years have four digits and lie between 1800 and 2199. Columns of dates
    are read as they are. A time of day other than midnight can't be used.
    """

    patterns: tuple[str, ...] = ()
    kind: ClassVar[str] = "date"
    version: ClassVar[int] = 1
    local: ClassVar[bool] = True
    takes_dates: ClassVar[bool] = True

    @classmethod
    def parse(cls, argument: str) -> Self:
        """The rule of patterns separated by commas, of which no two could read one text as different days."""
        patterns = tuple(dict.fromkeys(argument.split(","))) if argument else ()
        for pattern in patterns:
            found = re.fullmatch(_PATTERN, pattern)
            if found is None or len({found[1], found[3], found[5]}) < 3 or found[2] != found[4]:
                raise ValueError("patterns of DD, MM and YYYY, as in date:DD.MM.YYYY")
        for one, other in combinations((*ISO, *patterns), 2):
            if one != other and _shape(one) == _shape(other):
                raise ValueError(f"patterns that can't be confused, not {one} and {other}")
        return cls(patterns)

    @property
    def argument(self) -> str:
        """The patterns."""
        return ",".join(self.patterns)

    def normalise(self, cells: pa.ChunkedArray) -> pa.ChunkedArray:
        """YYYY-MM-DD; null for a cell that isn't one day."""
        text = pc.utf8_trim_whitespace(cells)
        return reduce(
            pc.coalesce, [_days(text, pattern) for pattern in dict.fromkeys((*ISO, *self.patterns))]
        )


def likely_patterns(cells: pa.ChunkedArray) -> tuple[str, ...]:
    """The usual patterns in which most of the cells are days, if more than half are and none in ISO form does as well.

    Two of them where days and months can't be told apart.
    """
    text = pc.utf8_trim_whitespace(cells)
    read = {pattern: _read(text, pattern) for pattern in (*ISO, *USUAL)}
    best = max(read.values())
    if 2 * best <= len(cells) - cells.null_count or best == max(read[pattern] for pattern in ISO):
        return ()
    return tuple(pattern for pattern in USUAL if read[pattern] == best)


def _read(text: pa.ChunkedArray, pattern: str) -> int:
    days = _days(text, pattern)
    return len(days) - int(days.null_count)


def _shape(pattern: str) -> str:
    """The pattern with day and month made equal: two of one shape differ only in the order of these."""
    return pattern.replace("DD", "NN").replace("MM", "NN")


def _days(text: pa.ChunkedArray, pattern: str) -> pa.ChunkedArray:
    """The day of each cell as YYYY-MM-DD; null where the cell isn't one in this pattern."""
    digits = "{1,2}" if re.search(r"[-./ ]", pattern) else "{2}"
    regex = re.escape(pattern).replace("YYYY", "(?P<y>[0-9]{4})")
    for letter in "MD":
        regex = regex.replace(letter * 2, f"(?P<{letter.lower()}>[0-9]{digits})")
    whole = flat(text)
    found = pc.extract_regex(whole, pattern=f"^{regex}{_MIDNIGHT}$")
    fields = [pc.struct_field(found, name) for name in "ymd"]
    matched = np.asarray(pc.and_(found.is_valid(), whole.is_valid()))
    year, month, day = (
        np.where(matched, pc.fill_null(_number(field), 0).to_numpy(zero_copy_only=False), 0)
        for field in fields
    )
    leap = (month == 2) & (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    last = _DAYS[np.clip(month, 0, 12)] + leap
    exists = (month >= 1) & (month <= 12) & (day >= 1) & (day <= last)
    usable = pa.array(matched & exists & (year >= FIRST_YEAR) & (year <= LAST_YEAR))
    padded = [fields[0], *(pc.utf8_lpad(field, width=2, padding="0") for field in fields[1:])]
    joined = pc.binary_join_element_wise(*padded, pa.scalar("-", padded[0].type))
    return pa.chunked_array([only_where(usable, joined).cast(pa.large_string())])


def _number(digits: pa.Array) -> pa.Array:
    return only_where(pc.match_substring_regex(digits, "^[0-9]+$"), digits).cast(pa.int64())
