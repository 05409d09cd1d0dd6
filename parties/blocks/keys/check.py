"""How good the keys of a file are for exact matching, seen from the owner's own side; counts only.

Exact matching loses a person when the two parties write the key differently. One party alone can't know what the other
writes, but it sees its own defects: rows without a usable key, repeated keys, cells written unlike most of their
column, and keys that would be equal to another one under a stricter rule or without one of the key columns.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from parties.blocks.keys.cells import key_text
from parties.blocks.keys.counting import Codes, coded, combined, merged
from parties.blocks.keys.dates import likely_patterns
from parties.blocks.keys.exact import CodeRule, TextRule
from parties.blocks.keys.folding import flat, folded, without_marks
from parties.blocks.keys.form import KeyFormat
from parties.blocks.keys.reading import Duplicates, KeyPolicy, KeyReport, given_cells, read_keys
from parties.blocks.keys.recipe import KeyRecipe, parse_recipe
from parties.blocks.keys.rule import KeyRule, identifier

TRIED = ("text:trim", "code", "name", "email", "email:gmail,outlook", "date")
"""Rules that are tried in place of each column's own, beside digits of the width that the column needs and dates in
the patterns that it seems to have."""
LEAST_FITTING = 0.5
"""Of a column's cells: a rule that fits fewer isn't offered for it."""
ODD_SHARE = 0.5
"""A way of writing that fewer of the rows have counts as unlike most of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way of writing that the rule tells apart: how many usable rows have it, and how many keys would become equal to
    another one without it."""

    name: str
    rows: int
    merged: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Blank:
    """How many cells of a column count as no key because they are this text ("": because they are empty)."""

    column: str
    text: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Another rule for a column: rows with a usable key, rows whose cell isn't as the rule writes it, and how many
    keys of now would become equal to another one."""

    column: str
    rule: str
    usable: int
    rewritten: int
    merged: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Without:
    """The key without one of its columns: rows with a usable key, and how many keys of now would become equal."""

    column: str
    usable: int
    merged: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCheck:
    """All that is told of a file's keys. `odd` usable rows are written unlike most; `report` keeps the first of rows
    that share a key, whatever the policy."""

    report: KeyReport
    forms: tuple[KeyFormat, ...]
    odd: int
    blanks: tuple[Blank, ...]
    ways: tuple[Way, ...]
    alternatives: tuple[Alternative, ...]
    without: tuple[Without, ...]

    def left_out(self, policy: Duplicates) -> int:
        """Rows that the duplicates policy leaves out; for ERROR those that stand in the way."""
        first = self.report.duplicate_rows_left_out
        return first if policy is Duplicates.FIRST else first + self.report.duplicated_keys


def check_keys(
    columns: Mapping[str, pa.ChunkedArray], recipe: KeyRecipe, missing: tuple[str, ...]
) -> KeyCheck:
    """The check of the key columns, in the order of the recipe's parts. Raises SubjectKeyError as `read_keys` does, but
    not for duplicates."""
    policy = KeyPolicy(duplicates=Duplicates.FIRST, missing=missing)
    keys = read_keys(columns, recipe, policy)
    given = [flat(cells) for cells in given_cells(columns, recipe, policy)]
    parts = [flat(rule.normalise(_one(cells))) for rule, cells in zip(recipe.parts, given, strict=True)]
    codes = [coded(part) for part in parts]
    ways, odd = _ways(recipe, parts, combined(codes))
    return KeyCheck(
        report=keys.report,
        forms=keys.forms,
        odd=odd,
        blanks=tuple(_blanks(columns, recipe, missing)),
        ways=ways,
        alternatives=tuple(_alternatives(tuple(columns), recipe, given, codes)),
        without=tuple(_without(tuple(columns), codes)),
    )


def _blanks(
    columns: Mapping[str, pa.ChunkedArray], recipe: KeyRecipe, missing: tuple[str, ...]
) -> Iterator[Blank]:
    """Each column's cells that count as no key, by what they say: one of the texts in `missing`, or nothing."""
    for (name, column), rule in zip(columns.items(), recipe.parts, strict=True):
        cells = key_text(name, column, dates=rule.takes_dates)
        plain = pc.fill_null(pc.utf8_lower(pc.utf8_trim_whitespace(cells)), "")
        for text in ("", *missing):
            rows = int(pc.sum(pc.equal(plain, text)).as_py() or 0)
            if rows:
                yield Blank(column=name, text=text, rows=rows)


def _ways(recipe: KeyRecipe, parts: Sequence[pa.LargeStringArray], now: Codes) -> tuple[tuple[Way, ...], int]:
    """The ways of writing that occur and that the part's rule tells apart, all of them together, and how many rows are
    odd. `now` are the codes of the whole keys."""
    found: list[Way] = []
    odd = np.zeros(len(now), bool)
    every = list(parts)
    for name, fold in _WAYS.items():
        told = [name in _told_apart(rule) for rule in recipe.parts]
        plain = [fold(part) if apart else part for part, apart in zip(parts, told, strict=True)]
        every = [fold(part) if apart else part for part, apart in zip(every, told, strict=True)]
        way, rows = _way(name, parts, plain, now)
        if way.rows:
            found.append(way)
        if way.rows < ODD_SHARE * np.count_nonzero(now >= 0):
            odd |= rows
    if len(found) > 1:
        found.append(_way("any of these", parts, every, now)[0])
    return tuple(found), int(odd.sum())


def _way(
    name: str, parts: Sequence[pa.LargeStringArray], plain: Sequence[pa.LargeStringArray], now: Codes
) -> tuple[Way, NDArray[np.bool_]]:
    """The way's counts, and the usable rows that have it: those in which a part differs from its plain form."""
    rows = np.zeros(len(now), bool)
    for part, same in zip(parts, plain, strict=True):
        rows |= _differ(part, same)
    rows &= now >= 0
    count = int(rows.sum())
    equal = merged(now, combined([coded(part) for part in plain])) if count else 0
    return Way(name=name, rows=count, merged=equal), rows


def _told_apart(rule: KeyRule) -> Sequence[str]:
    """The ways of writing that the rule leaves as they are and that may be defects."""
    if isinstance(rule, TextRule):
        return tuple(_WAYS)
    return ("zeros in front",) if isinstance(rule, CodeRule) else ()


def _alternatives(
    columns: Sequence[str], recipe: KeyRecipe, given: Sequence[pa.LargeStringArray], codes: Sequence[Codes]
) -> Iterator[Alternative]:
    """Each column under each other rule that fits and would change something, the other columns as they are."""
    now = combined(codes)
    for place, (column, cells) in enumerate(zip(columns, given, strict=True)):
        for rule in _tried(cells):
            if rule == recipe.parts[place]:
                continue
            made = flat(rule.normalise(_one(cells)))
            if len(made) - made.null_count < max(1, LEAST_FITTING * (len(cells) - cells.null_count)):
                continue
            then = combined([*codes[:place], coded(made), *codes[place + 1 :]])
            rewritten = int(np.count_nonzero(_differ(cells, made) & (then >= 0)))
            usable = int(np.count_nonzero(then >= 0))
            if rewritten or usable != np.count_nonzero(now >= 0):
                yield Alternative(
                    column=column,
                    rule=identifier(rule),
                    usable=usable,
                    rewritten=rewritten,
                    merged=merged(now, then),
                )


def _tried(cells: pa.LargeStringArray) -> Iterator[KeyRule]:
    numbers = cells.filter(pc.fill_null(pc.match_substring_regex(cells, "^[0-9]+$"), False))
    width = pc.max(pc.utf8_length(pc.utf8_ltrim(numbers, "0"))).as_py() or 0
    digits = [f"digits:{width}"] if 1 <= width <= 64 else []
    for text in (*TRIED, *digits, *(f"date:{pattern}" for pattern in likely_patterns(_one(cells)))):
        yield parse_recipe(text).parts[0]


def _without(columns: Sequence[str], codes: Sequence[Codes]) -> Iterator[Without]:
    now = combined(codes)
    for place, column in enumerate(columns):
        if len(codes) > 1:
            then = combined([*codes[:place], *codes[place + 1 :]])
            yield Without(column=column, usable=int(np.count_nonzero(then >= 0)), merged=merged(now, then))


def _differ(one: pa.LargeStringArray, other: pa.LargeStringArray) -> NDArray[np.bool_]:
    """Rows in which the texts differ; a null never does."""
    if one is other:
        return np.zeros(len(one), bool)
    return np.asarray(pc.fill_null(pc.not_equal(one, other), False), dtype=np.bool_)


def _one(cells: pa.LargeStringArray) -> pa.ChunkedArray:
    return pa.chunked_array([cells])


def _dropped(pattern: str) -> Callable[[pa.LargeStringArray], pa.LargeStringArray]:
    return lambda cells: pc.replace_substring_regex(cells, pattern=pattern, replacement="")


_WAYS: Mapping[str, Callable[[pa.LargeStringArray], pa.LargeStringArray]] = {
    "blanks": _dropped(r"[\s\pZ]"),
    "letter case": lambda cells: flat(folded(_one(cells), pc.utf8_lower, str.casefold)),
    "accents": lambda cells: flat(folded(_one(cells), lambda plain: plain, without_marks)),
    "punctuation": _dropped(r"[^\s\pZ\pL\pM\pN]"),
    "zeros in front": lambda cells: pc.replace_substring_regex(cells, pattern="^0+(.)", replacement=r"\1"),
}
"""Ways of writing, each as what makes a column of cells equal in it."""
