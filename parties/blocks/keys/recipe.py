"""The whole key rule of a block: one rule for each key column, and how the parts become one key.

A rule is written `kind`, `kind:argument`, or either with `@version`; the rules of several columns are joined with `+`:
`name+name+date+digits:4`. The identifier, which stands in schema and request, always has the versions.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from parties.blocks.keys.dates import DateRule
from parties.blocks.keys.exact import CodeRule, DigitsRule, TextRule
from parties.blocks.keys.people import EmailRule, NameRule
from parties.blocks.keys.phones import PhoneRule
from parties.blocks.keys.rule import KeyRule, common_form, identifier
from protocols.errors import SubjectKeyError

RULES: tuple[type[KeyRule], ...] = (TextRule, DigitsRule, CodeRule, NameRule, EmailRule, PhoneRule, DateRule)
COMPOSITE = "composite@1"
"""How parts are joined; a change of `joined` raises the version."""
MAX_PARTS = 8


@dataclass(frozen=True, slots=True)
class KeyRecipe:
    """The rules of a key's parts, one for each key column, in the order of the columns."""

    parts: tuple[KeyRule, ...]

    @property
    def identifier(self) -> str:
        """`text@1`, or `composite@1(name@1+date@1)` for several parts; `parse_recipe` reads it."""
        return _whole(identifier(rule) for rule in self.parts)

    @property
    def common_form(self) -> str:
        """What both parties' rules must have in common for equal people to get equal keys."""
        return _whole(common_form(rule) for rule in self.parts)

    def columns(self, subject_key: str) -> tuple[str, ...]:
        """The key columns in the owner's text: the text itself for a rule of one part, else names between commas.

        Raises SubjectKeyError when there are more or fewer of them than parts.
        """
        if len(self.parts) == 1:
            return (subject_key,)
        names = tuple(name.strip() for name in subject_key.split(","))
        if len(names) != len(self.parts) or len(set(names)) < len(names) or not all(names):
            raise SubjectKeyError(
                f"the key rule {self.identifier} has {len(self.parts)} parts; {subject_key!r} are not as many"
                " different columns",
                remedy="name one column for each part, with commas between, as in --key 'surname,birth_date'",
            )
        return names

    def parts_of(self, cells: Sequence[pa.ChunkedArray]) -> list[pa.ChunkedArray]:
        """Each column's cells (large_string, null where blank) under its rule; null where unusable."""
        return [rule.normalise(column) for rule, column in zip(self.parts, cells, strict=True)]


def joined(parts: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    """One key for each row; null where a part is null.

    A single part is the key. Several are written one after another, each after its number of bytes and a colon, so
    that no two different rows of parts give one key: ("ab", "c") is 2:ab1:c.
    """
    if len(parts) == 1:
        return parts[0]
    texts: list[pa.ChunkedArray | pa.Scalar] = []
    for part in parts:
        texts += [pc.binary_length(part).cast(pa.large_string()), pa.scalar(":", pa.large_string()), part]
    return pc.binary_join_element_wise(*texts, pa.scalar("", pa.large_string()))


def separated(keys: pa.LargeStringArray, parts: int) -> list[pa.LargeStringArray]:
    """The parts that `joined` made these keys of."""
    if parts == 1:
        return [keys]
    rows = [_split(key.encode(), parts) for key in keys.to_pylist()]
    return [pa.array([row[i] for row in rows], pa.large_string()) for i in range(parts)]


def _split(key: bytes, parts: int) -> list[str]:
    found, start = [], 0
    for _ in range(parts):
        colon = key.index(b":", start)
        end = colon + 1 + int(key[start:colon])
        found.append(key[colon + 1 : end].decode())
        start = end
    return found


def parse_recipe(text: str) -> KeyRecipe:
    """The recipe in the owner's or the identifier's form; SubjectKeyError for a rule we don't have."""
    inner = re.fullmatch(rf"{re.escape(COMPOSITE)}\((.*)\)", text)
    words = (inner[1] if inner else text).split("+")
    if len(words) > MAX_PARTS:
        raise SubjectKeyError(f"the key rule has {len(words)} parts", remedy=f"give at most {MAX_PARTS}")
    return KeyRecipe(tuple(_parse(word.strip()) for word in words))


def _parse(text: str) -> KeyRule:
    found = re.fullmatch(r"([a-z][a-z-]*)(?::([^@]+))?(?:@([0-9]+))?", text)
    known = {rule.kind: rule for rule in RULES}
    if found is None or found[1] not in known:
        raise SubjectKeyError(f"unknown key rule {text!r}", remedy=f"known rules: {', '.join(known)}")
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


def _whole(parts: Iterable[str]) -> str:
    texts = list(parts)
    return texts[0] if len(texts) == 1 else f"{COMPOSITE}({'+'.join(texts)})"
