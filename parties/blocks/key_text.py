"""The exact text of a key column of any type, and the outward form of keys that two parties can compare
before they match."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from protocols.errors import SubjectKeyError


def key_text(column: str, cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """The cells as large_string: text as it is, integers as plain digits, null where there is nothing.

    Floating-point and decimal columns pass only when every value is a whole number that the type holds
    exactly. Raises SubjectKeyError naming the column otherwise, and for types without one obvious text
    (truth values, times).
    """
    kind = cells.type
    if pa.types.is_large_string(kind) or pa.types.is_string(kind) or pa.types.is_integer(kind):
        return cells.cast(pa.large_string())
    if pa.types.is_floating(kind):
        return _float_text(column, cells)
    if pa.types.is_decimal(kind):
        return _decimal_text(column, cells)
    raise SubjectKeyError(
        f"column {column!r} has the type {kind}, not text or whole numbers", remedy="export it as text"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFormat:
    """The outward form of a party's keys: only digits or not, one width (0 = several), zeros in front.

    Says nothing of one key.
    """

    digits: bool
    width: int
    leading_zeros: bool

    def describe(self) -> str:
        """In words, as in "digits, fixed width 3, with leading zeros"."""
        if not self.digits:
            return "text"
        width = f"fixed width {self.width}" if self.width else "variable width"
        return f"digits, {width}, {'with' if self.leading_zeros else 'without'} leading zeros"


def key_format(keys: pa.LargeStringArray) -> KeyFormat:
    """The form of the keys (at least one, none null)."""
    if not pc.all(pc.match_substring_regex(keys, "^[0-9]+$")).as_py():
        return KeyFormat(digits=False, width=0, leading_zeros=False)
    span = pc.min_max(pc.utf8_length(keys)).as_py()
    zeros = bool(pc.any(pc.match_substring_regex(keys, "^0[0-9]")).as_py())
    return KeyFormat(digits=True, width=span["max"] if span["min"] == span["max"] else 0, leading_zeros=zeros)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOffer:
    """What a party publishes about its keys: column, rule identifier and form."""

    party: str
    column: str
    rule: str
    form: KeyFormat


def check_agreement(first: KeyOffer, second: KeyOffer) -> None:
    """Raises SubjectKeyError naming both columns when the rules differ, or when the forms show that
    equal people would not match."""
    sides = f"{first.party} column {first.column!r} and {second.party} column {second.column!r}"
    if first.rule != second.rule:
        raise SubjectKeyError(
            f"{sides} have different key rules: {first.rule} and {second.rule}",
            remedy="register both blocks with one --key-rule",
        )
    if _cannot_match(first.form, second.form):
        raise SubjectKeyError(
            f"the formats of {sides} differ: {first.form.describe()} against {second.form.describe()}",
            remedy="register both blocks with --key-rule digits:WIDTH",
        )


def _cannot_match(first: KeyFormat, second: KeyFormat) -> bool:
    if not (first.digits and second.digits):
        return False
    if first.width and second.width:
        return first.width != second.width
    padded = [form.leading_zeros and form.width > 0 for form in (first, second)]
    bare = [not form.leading_zeros and form.width == 0 for form in (first, second)]
    return (padded[0] and bare[1]) or (padded[1] and bare[0])
