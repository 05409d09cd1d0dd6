"""The outward form of keys, in words that tell of nobody."""

from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa
import pyarrow.compute as pc


class Having(StrEnum):
    """How many of the keys have something."""

    ALL = "all"
    SOME = "some"
    NONE = "no"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFormat:
    """How the keys of one column look: whether all are digits only, their width in characters (0 = several), whether
    any begins with a zero and a digit, and how many have a lower-case letter, an upper-case letter, and a character
    that is neither letter nor digit.

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


def cannot_match(first: KeyFormat, second: KeyFormat) -> bool:
    """Whether keys of these two forms share none, or so probably none that somebody has to look."""
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


def _having(keys: pa.ChunkedArray | pa.LargeStringArray, pattern: str) -> Having:
    found = pc.match_substring_regex(keys, pattern)
    if pc.all(found).as_py():
        return Having.ALL
    return Having.SOME if pc.any(found).as_py() else Having.NONE
