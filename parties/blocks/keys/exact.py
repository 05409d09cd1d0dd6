"""Rules for identifiers that are written by machines: exact text, padded digits, codes."""

import re
import unicodedata
from dataclasses import dataclass
from typing import ClassVar, Self

import pyarrow as pa
import pyarrow.compute as pc

from parties.blocks.keys.folding import (
    ascii_letters_and_digits,
    folded,
    only_letters_and_digits,
    with_text,
)
from parties.blocks.keys.rule import WithoutArgument, only_where


@dataclass(frozen=True, slots=True)
class TextRule:
    """Keys are compared exactly as they are written: case, zeros and Unicode form count.

    So do blanks at the ends, unless `trim`.
    """

    trim: bool = False
    kind: ClassVar[str] = "text"
    version: ClassVar[int] = 1
    local: ClassVar[bool] = False
    takes_dates: ClassVar[bool] = False

    @classmethod
    def parse(cls, argument: str) -> Self:
        """`text` or `text:trim`."""
        if argument not in ("", "trim"):
            raise ValueError("text or text:trim")
        return cls(bool(argument))

    @property
    def argument(self) -> str:
        """ "trim" or "" """
        return "trim" if self.trim else ""

    def normalise(self, cells: pa.ChunkedArray) -> pa.ChunkedArray:
        """The cells themselves, or without blanks at their ends."""
        return with_text(pc.utf8_trim_whitespace(cells)) if self.trim else cells


@dataclass(frozen=True, slots=True)
class DigitsRule:
    """Keys are numbers written with zeros in front up to `width` digits: 7, 07 and 007 are one key."""

    width: int
    kind: ClassVar[str] = "digits"
    version: ClassVar[int] = 1
    local: ClassVar[bool] = False
    takes_dates: ClassVar[bool] = False

    @classmethod
    def parse(cls, argument: str) -> Self:
        """The rule of a width between 1 and 64."""
        if not re.fullmatch(r"[1-9][0-9]?", argument) or int(argument) > 64:
            raise ValueError("a width from 1 to 64, as in digits:8")
        return cls(int(argument))

    @property
    def argument(self) -> str:
        """The width."""
        return str(self.width)

    def normalise(self, cells: pa.ChunkedArray) -> pa.ChunkedArray:
        """Zero-padded digits; null for a cell with another character or with more significant digits
        than the width."""
        trimmed = pc.utf8_trim_whitespace(cells)
        significant = pc.utf8_ltrim(trimmed, "0")
        usable = pc.and_(
            pc.match_substring_regex(trimmed, "^[0-9]+$"),
            pc.less_equal(pc.utf8_length(significant), self.width),
        )
        return only_where(usable, pc.utf8_lpad(significant, width=self.width, padding="0"))


@dataclass(frozen=True, slots=True)
class CodeRule(WithoutArgument):
    """Keys are codes of letters and digits, such as postcodes or account numbers with separators.

    Case and every other character are left out: "sw1a 1aa" and "SW1A-1AA" are one key. Zeros count.
    """

    kind: ClassVar[str] = "code"
    version: ClassVar[int] = 1
    local: ClassVar[bool] = False
    takes_dates: ClassVar[bool] = False

    def normalise(self, cells: pa.ChunkedArray) -> pa.ChunkedArray:
        """Upper-case letters and digits in Unicode NFKC; null for a cell without any."""
        return with_text(folded(cells, lambda ascii: ascii_letters_and_digits(pc.utf8_upper(ascii)), _code))


def _code(text: str) -> str:
    upper = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).upper())
    return unicodedata.normalize("NFKC", only_letters_and_digits(upper))
