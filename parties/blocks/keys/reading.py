"""Subject keys: from columns of any exact type to one normalised text per person, or a clear refusal.

A key is text from the first byte read. How cells become keys is a *key recipe* (`recipe.py`), with names and versions
that stand in the request, so that two parties compare it before any message about keys. Errors and reports hold counts
only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from parties.blocks.counts import plural
from parties.blocks.keys.cells import key_text
from parties.blocks.keys.folding import flat
from parties.blocks.keys.form import KeyFormat, key_format
from parties.blocks.keys.recipe import KeyRecipe, joined
from parties.blocks.missing import KEY_MISSING_TOKENS, check_tokens, present
from protocols.errors import SubjectKeyError


class Duplicates(StrEnum):
    """What happens to rows that share a key: refuse the block, keep the first row, or keep none of them."""

    ERROR = "error"
    FIRST = "first"
    DROP = "drop"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPolicy:
    """What the owner decides beside the rule: repeated keys, the texts (lower case) that mean "no key", and the share
    of the rows that may have a key which doesn't fit the rule."""

    duplicates: Duplicates = Duplicates.ERROR
    missing: tuple[str, ...] = KEY_MISSING_TOKENS
    unusable_share: float = 1.0

    def __post_init__(self) -> None:
        """Raises SubjectKeyError for a duplicates policy or a token that can't be."""
        if not isinstance(self.duplicates, Duplicates):
            raise SubjectKeyError(f"duplicates: expected one of {', '.join(Duplicates)}")
        check_tokens(self.missing, SubjectKeyError)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartReport:
    """What became of the cells of one key column, in counts.

    `spaced` cells begin or end with a blank (exact rules keep it).
    """

    column: str
    blank: int
    unusable: int
    spaced: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyReport:
    """What became of the rows of a file, in counts; each row is usable, blank, unusable or left out as a duplicate.

    A row is blank where any of its key columns is, and unusable where none is and one doesn't fit its rule.
    """

    rows: int
    usable: int
    blank: int
    unusable: int
    duplicated_keys: int
    duplicate_rows_left_out: int
    parts: tuple[PartReport, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SubjectKeys:
    """The usable keys: texts (large_string, no null, distinct) of the file's rows `rows` int64, ascending; and the
    outward form of each part."""

    texts: pa.LargeStringArray
    rows: NDArray[np.int64]
    forms: tuple[KeyFormat, ...]
    report: KeyReport

    def __repr__(self) -> str:
        """Counts only: keys must not get into a log by way of a repr."""
        return f"SubjectKeys({self.report!r})"


def given_cells(
    columns: Mapping[str, pa.ChunkedArray], recipe: KeyRecipe, policy: KeyPolicy
) -> list[pa.ChunkedArray]:
    """The key columns as large_string, null where blank, in their order.

    Raises SubjectKeyError naming a column of an inexact type, or one whose text shows that the keys went through a
    floating-point number.
    """
    cells = []
    for (name, column), rule in zip(columns.items(), recipe.parts, strict=True):
        given = present(key_text(name, column, dates=rule.takes_dates), policy.missing)
        _refuse_former_floats(name, given)
        cells.append(given)
    return cells


def read_keys(
    columns: Mapping[str, pa.ChunkedArray], recipe: KeyRecipe, policy: KeyPolicy | None = None
) -> SubjectKeys:
    """The usable, distinct keys of the key columns, which are in the order of the recipe's parts.

    Raises SubjectKeyError naming columns and counts for duplicates (by default), for columns without any
    usable key or with too many unusable ones, and for what `given_cells` refuses.
    """
    policy = policy or KeyPolicy()
    given = given_cells(columns, recipe, policy)
    parts = [flat(part) for part in recipe.parts_of(given)]
    keys = flat(joined([pa.chunked_array([part]) for part in parts]))
    rows = np.flatnonzero(np.asarray(keys.is_valid())).astype(np.int64)
    counted = [
        _part_report(name, cells, part) for name, cells, part in zip(columns, given, parts, strict=True)
    ]
    blank = int(np.count_nonzero(np.logical_or.reduce([np.asarray(cells.is_null()) for cells in given])))
    unusable = len(keys) - blank - len(rows)
    _refuse_unfit(counted, recipe, usable=len(rows), unusable=unusable, rows=len(keys), policy=policy)
    kept, duplicated, left_out = _distinct(_named(counted), keys.drop_null(), policy.duplicates)
    chosen = pa.array(rows[kept])
    report = KeyReport(
        rows=len(keys),
        usable=len(kept),
        blank=blank,
        unusable=unusable,
        duplicated_keys=duplicated,
        duplicate_rows_left_out=left_out,
        parts=tuple(counted),
    )
    return SubjectKeys(
        texts=keys.take(chosen),
        rows=rows[kept],
        forms=tuple(key_format(part.take(chosen)) for part in parts),
        report=report,
    )


def _part_report(column: str, given: pa.ChunkedArray, part: pa.LargeStringArray) -> PartReport:
    return PartReport(
        column=column,
        blank=given.null_count,
        unusable=part.null_count - given.null_count,
        spaced=_matching(given, r"^\s|\s$"),
    )


def _named(parts: Sequence[PartReport]) -> str:
    """ "column 'a' has" or "columns 'a', 'b' have" """
    if len(parts) == 1:
        return f"column {parts[0].column!r} has"
    return f"columns {', '.join(repr(part.column) for part in parts)} have"


def _refuse_unfit(
    parts: Sequence[PartReport],
    recipe: KeyRecipe,
    *,
    usable: int,
    unusable: int,
    rows: int,
    policy: KeyPolicy,
) -> None:
    of_each = ""
    if len(parts) > 1:
        of_each = " (" + ", ".join(f"{p.column}: {p.blank} blank, {p.unusable} unfit" for p in parts) + ")"
    if not usable:
        raise SubjectKeyError(
            f"{_named(parts)} no usable key in {plural(rows, 'row')} under rule {recipe.identifier}{of_each}",
            remedy="check --key and --key-rule",
        )
    if unusable > policy.unusable_share * rows:
        raise SubjectKeyError(
            f"{_named(parts)} {unusable} of {rows} keys that don't fit the rule {recipe.identifier}{of_each}",
            remedy="give another --key-rule; --allow-unusable leaves these rows out",
        )


def _distinct(
    named: str, keys: pa.LargeStringArray, policy: Duplicates
) -> tuple[NDArray[np.int64], int, int]:
    """Positions to keep, the number of duplicated keys, and the number of rows left out for it."""
    codes = np.asarray(keys.dictionary_encode().indices)
    counts = np.bincount(codes)
    repeated = counts[codes] > 1
    duplicated = int(np.count_nonzero(counts > 1))
    if duplicated and policy is Duplicates.ERROR:
        raise SubjectKeyError(
            f"{named} {plural(duplicated, 'duplicated key')} in {plural(int(repeated.sum()), 'row')}",
            remedy="one row per person is needed: correct the file, or give --duplicates first or drop",
        )
    if policy is Duplicates.FIRST:
        keep = np.sort(np.unique(codes, return_index=True)[1])
    else:
        keep = np.flatnonzero(~repeated)
    if not len(keep):
        raise SubjectKeyError(
            f"{named} no key that isn't duplicated, so --duplicates drop leaves no row",
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
