"""Subject keys: from a column of any exact type to normalised text, one row per person, or a clear refusal.

A key is text from the first byte read; no step goes through a floating-point number. How cells become keys
is a *key rule*, with a name and a version (`text@1`, `digits:8@1`) that stands in the request, so that two
parties compare it before any message about keys. A further rule is one class with `kind`, `version`,
`parse` and `normalise`, listed in RULES. Errors and reports hold counts only.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from parties.blocks.counts import plural
from parties.blocks.key_text import key_text
from parties.blocks.missing import KEY_MISSING_TOKENS, missing
from protocols.errors import SubjectKeyError


class Duplicates(StrEnum):
    """What happens to rows that share a key: refuse the block, keep the first row, or keep none of them."""

    ERROR = "error"
    FIRST = "first"
    DROP = "drop"


class KeyRule(Protocol):
    """Turns cells into keys. Equal identifiers mean equal behaviour."""

    kind: ClassVar[str]
    version: ClassVar[int]

    @classmethod
    def parse(cls, argument: str) -> Self:
        """The rule for the text after the colon; ValueError saying what was expected."""
        ...

    @property
    def identifier(self) -> str:
        """`kind@version` or `kind:argument@version`."""
        ...

    def normalise(self, cells: pa.ChunkedArray) -> pa.ChunkedArray:
        """Text in (null where blank), keys out; null where a cell can't be a key under this rule."""
        ...


@dataclass(frozen=True, slots=True)
class TextRule:
    """Keys are compared exactly as they are written: blanks, case, zeros and Unicode form count."""

    kind: ClassVar[str] = "text"
    version: ClassVar[int] = 1

    @classmethod
    def parse(cls, argument: str) -> Self:
        """The one text rule."""
        if argument:
            raise ValueError("no argument")
        return cls()

    @property
    def identifier(self) -> str:
        """`text@1`"""
        return f"{self.kind}@{self.version}"

    def normalise(self, cells: pa.ChunkedArray) -> pa.ChunkedArray:
        """The cells themselves."""
        return cells


@dataclass(frozen=True, slots=True)
class DigitsRule:
    """Keys are numbers written with zeros in front up to `width` digits: 7, 07 and 007 are one key."""

    width: int
    kind: ClassVar[str] = "digits"
    version: ClassVar[int] = 1

    @classmethod
    def parse(cls, argument: str) -> Self:
        """The rule of a width between 1 and 64."""
        if not re.fullmatch(r"[1-9][0-9]?", argument) or int(argument) > 64:
            raise ValueError("a width from 1 to 64, as in digits:8")
        return cls(int(argument))

    @property
    def identifier(self) -> str:
        """`digits:<width>@1`"""
        return f"{self.kind}:{self.width}@{self.version}"

    def normalise(self, cells: pa.ChunkedArray) -> pa.ChunkedArray:
        """Zero-padded digits; null for a cell with another character or with more significant digits
        than the width."""
        trimmed = pc.utf8_trim_whitespace(cells)
        significant = pc.replace_substring_regex(trimmed, pattern="^0+", replacement="")
        usable = pc.and_(
            pc.match_substring_regex(trimmed, "^[0-9]+$"),
            pc.less_equal(pc.utf8_length(significant), self.width),
        )
        padded = pc.utf8_lpad(significant, width=self.width, padding="0")
        return pc.if_else(usable, padded, pa.scalar(None, padded.type))


RULES: tuple[type[KeyRule], ...] = (TextRule, DigitsRule)


def parse_rule(text: str) -> KeyRule:
    """The rule named `kind`, `kind:argument`, or either with `@version`; SubjectKeyError for one we
    don't have."""
    found = re.fullmatch(r"([a-z][a-z-]*)(?::([^@]+))?(?:@([0-9]+))?", text)
    known = {rule.kind: rule for rule in RULES}
    if found is None or found[1] not in known:
        raise SubjectKeyError(f"unknown key rule {text!r}", remedy=f"known rules: {', '.join(sorted(known))}")
    rule = known[found[1]]
    if found[3] is not None and int(found[3]) != rule.version:
        raise SubjectKeyError(
            f"key rule {text!r}: this software has version {rule.version} of it",
            remedy="use the same release of fedaccord at all parties",
        )
    try:
        return rule.parse(found[2] or "")
    except ValueError as error:
        raise SubjectKeyError(f"key rule {text!r}: expected {error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyReport:
    """What became of the rows of a file, in counts.

    `spaced` keys begin or end with a blank (exact rules keep it).
    """

    rows: int
    usable: int
    blank: int
    unusable: int
    duplicated_keys: int
    duplicate_rows_left_out: int
    spaced: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SubjectKeys:
    """The usable keys: texts (large_string, no null, distinct) of the file's rows `rows` int64,
    ascending."""

    texts: pa.LargeStringArray
    rows: NDArray[np.int64]
    report: KeyReport

    def __repr__(self) -> str:
        """Counts only: keys must not get into a log by way of a repr."""
        return f"SubjectKeys({self.report!r})"


def read_keys(
    column: str,
    cells: pa.ChunkedArray,
    rule: KeyRule,
    *,
    duplicates: Duplicates = Duplicates.ERROR,
    unusable_share: float = 1.0,
) -> SubjectKeys:
    """The usable, distinct keys of the column; `unusable_share` of the rows may have a key that doesn't fit the rule.

    Raises SubjectKeyError naming column and counts for duplicates (by default), for a column without any
    usable key or with more unusable ones, and for text that shows that the keys went through a floating-point number.
    """
    text = key_text(column, cells)
    blank = missing(text, KEY_MISSING_TOKENS)
    given = pc.if_else(blank, pa.scalar(None, pa.large_string()), text)
    _refuse_former_floats(column, given)
    keys = pa.chunked_array([rule.normalise(given).combine_chunks()], pa.large_string()).combine_chunks()
    rows = np.flatnonzero(np.asarray(keys.is_valid())).astype(np.int64)
    if not len(rows):
        raise SubjectKeyError(
            f"column {column!r} has no usable key in {len(keys)} rows under rule {rule.identifier}",
            remedy="check --key and --key-rule",
        )
    blanks = int(pc.sum(blank).as_py() or 0)
    unusable = len(keys) - blanks - len(rows)
    if unusable > unusable_share * len(keys):
        raise SubjectKeyError(
            f"column {column!r}: {unusable} of {len(keys)} keys don't fit the rule {rule.identifier}",
            remedy="give another --key-rule; --allow-unusable leaves these rows out",
        )
    kept, duplicated, left_out = _distinct(column, keys.drop_null(), duplicates)
    report = KeyReport(
        rows=len(keys),
        usable=len(kept),
        blank=blanks,
        unusable=unusable,
        duplicated_keys=duplicated,
        duplicate_rows_left_out=left_out,
        spaced=_matching(given, r"^\s|\s$"),
    )
    return SubjectKeys(texts=keys.take(pa.array(rows[kept])), rows=rows[kept], report=report)


def _distinct(
    column: str, keys: pa.LargeStringArray, policy: Duplicates
) -> tuple[NDArray[np.int64], int, int]:
    """Positions to keep, the number of duplicated keys, and the number of rows left out for it."""
    codes = np.asarray(keys.dictionary_encode().indices)
    counts = np.bincount(codes)
    repeated = counts[codes] > 1
    duplicated = int(np.count_nonzero(counts > 1))
    if duplicated and policy is Duplicates.ERROR:
        raise SubjectKeyError(
            f"column {column!r} has {plural(duplicated, 'duplicated key')} in {plural(int(repeated.sum()), 'row')}",
            remedy="one row per person is needed: correct the file, or give --duplicates first or drop",
        )
    if policy is Duplicates.FIRST:
        keep = np.sort(np.unique(codes, return_index=True)[1])
    else:
        keep = np.flatnonzero(~repeated)
    if not len(keep):
        raise SubjectKeyError(
            f"column {column!r}: every key is duplicated, so --duplicates drop leaves no row",
            remedy="correct the file",
        )
    return keep.astype(np.int64), duplicated, len(keys) - len(keep)


def _refuse_former_floats(column: str, given: pa.ChunkedArray) -> None:
    """Keys such as 7.0 or 9.00719925474099E+15 were numbers in some program before they were exported."""
    valid = len(given) - given.null_count
    point_zero = _matching(given, r"^\s*-?[0-9]+\.0+\s*$")
    exponent = _matching(given, r"^\s*-?[0-9]([.,][0-9]+)?[eE]\+[0-9]+\s*$")
    if exponent or (valid and point_zero == valid):
        how = "use an exponent (such as 1E+15)" if exponent else "end in .0"
        some = f"{plural(exponent or point_zero, 'key')} of {valid}"
        raise SubjectKeyError(
            f"column {column!r}: {some} {how}: they were made from numbers",
            remedy="export the column as text from its source; digits may already be lost",
        )


def _matching(cells: pa.ChunkedArray, pattern: str) -> int:
    return int(pc.sum(pc.match_substring_regex(cells, pattern)).as_py() or 0)
