"""The outward form of keys, in words that tell of nobody, by which two parties can see that nothing would match."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

import pyarrow as pa
import pyarrow.compute as pc

from parties.blocks.keys.recipe import parse_recipe
from protocols.errors import SubjectKeyError


class Having(StrEnum):
    """How many of the keys have something."""

    ALL = "all"
    SOME = "some"
    NONE = "no"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFormat:
    """How the keys of one column look: their width (0 = several), zeros in front of plain numbers, and how many have
    a digit's only company, a lower-case letter, an upper-case letter, another character.

    Says nothing of one key.
    """

    digits: bool
    width: int
    leading_zeros: bool
    lower: Having
    upper: Having
    marks: Having

    def describe(self) -> str:
        """In words, as in "digits, fixed width 3, with leading zeros"."""
        width = f"fixed width {self.width}" if self.width else "variable width"
        if self.digits:
            return f"digits, {width}, {'with' if self.leading_zeros else 'without'} leading zeros"
        facts = (
            (self.lower, "lower-case letters"),
            (self.upper, "upper-case letters"),
            (self.marks, "other characters"),
        )
        return f"text, {width}, " + ", ".join(f"{what} in {having}" for having, what in facts)


def key_format(keys: pa.ChunkedArray | pa.LargeStringArray) -> KeyFormat:
    """The form of the keys (at least one, none null)."""
    span = pc.min_max(pc.utf8_length(keys)).as_py()
    return KeyFormat(
        digits=_having(keys, "^[0-9]+$") is Having.ALL,
        width=span["max"] if span["min"] == span["max"] else 0,
        leading_zeros=_having(keys, "^0[0-9]") is not Having.NONE,
        lower=_having(keys, r"\p{Ll}"),
        upper=_having(keys, r"\p{Lu}"),
        marks=_having(keys, r"[^\pL\pM\pN]"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOffer:
    """What a party publishes about its keys: key columns as named, rule identifier, and the form of each part."""

    party: str
    column: str
    rule: str
    forms: tuple[KeyFormat, ...]


def check_rules(sides: Sequence[tuple[str, str]]) -> None:
    """Raises SubjectKeyError, naming what differs, when two of the (side, rule) make different keys of one person.

    How each party's own cells are read (the region of telephone numbers, the order of day and month) may differ.
    """
    for (first, one), (second, other) in combinations(sides, 2):
        if parse_recipe(one).common_form != parse_recipe(other).common_form:
            raise SubjectKeyError(
                f"{first} and {second} have different key rules: {one} and {other}",
                remedy="register both blocks with one --key-rule",
            )


def check_agreement(first: KeyOffer, second: KeyOffer) -> None:
    """Raises SubjectKeyError naming both columns when the rules differ, or when the forms show that
    equal people would not match."""
    sides = [f"{side.party} column {side.column!r}" for side in (first, second)]
    check_rules(((sides[0], first.rule), (sides[1], second.rule)))
    for part, (one, other) in enumerate(zip(first.forms, second.forms, strict=True), start=1):
        if _cannot_match(one, other):
            which = f" in part {part}" if len(first.forms) > 1 else ""
            raise SubjectKeyError(
                f"the formats of {' and '.join(sides)} differ{which}: {one.describe()} against {other.describe()}",
                remedy=_remedy(one, other),
            )


def _cannot_match(first: KeyFormat, second: KeyFormat) -> bool:
    if first.width and second.width and first.width != second.width:
        return True
    opposite = {Having.ALL, Having.NONE}
    if any({getattr(first, what), getattr(second, what)} == opposite for what in ("lower", "upper", "marks")):
        return True
    if not (first.digits and second.digits):
        return False
    # Not certain, but where one side writes zeros in front and the other never does, somebody has lost them.
    padded = [form.leading_zeros and form.width > 0 for form in (first, second)]
    bare = [not form.leading_zeros and form.width == 0 for form in (first, second)]
    return (padded[0] and bare[1]) or (padded[1] and bare[0])


def _remedy(first: KeyFormat, second: KeyFormat) -> str:
    if first.digits and second.digits:
        return "register both blocks with --key-rule digits:WIDTH"
    return "register both blocks with a rule that makes them equal (docs/keys.md), or see if these are the same keys"


def _having(keys: pa.ChunkedArray | pa.LargeStringArray, pattern: str) -> Having:
    found = pc.match_substring_regex(keys, pattern)
    if pc.all(found).as_py():
        return Having.ALL
    return Having.SOME if pc.any(found).as_py() else Having.NONE
