"""How a table becomes numbers by rules that all clients share and anybody may read. numpy only.

The rules are agreed on before a run and stand in its request: nothing is fitted on a client's rows, so that no moment,
rank or rare level of one client reaches the others. In text they are a JSON list with an entry per column, in order:

    ["age", 20, 80]             a number: 20 becomes -1, 80 becomes 1, what lies beyond goes on to +-CLIP; missing: 0
    ["sex", ["f", "m"]]         a category: a 0/1 feature for each level; any other level, or a missing one, is all 0
    ["p0..p63", 0, 16]          64 columns of numbers alike
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from protocols.errors import BlockError, ConfigError

CLIP = 3.0
"""Bound of a number on the scale on which its range is -1 to 1."""
Floats: TypeAlias = NDArray[np.float64]
_SPAN = re.compile(r"(.*?)(\d{1,4})\.\.\1(\d{1,4})")
_NUMBERED = re.compile(r"(.*?)(0|[1-9]\d{0,3})")


@dataclass(frozen=True, slots=True)
class NumberRule:
    """A column of numbers, with the range that becomes -1 to 1. ConfigError for an empty one."""

    name: str
    low: float
    high: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.low) and np.isfinite(self.high) and self.low < self.high):
            raise ConfigError(f"features: {self.name!r}: expected a range of two rising numbers")

    @property
    def width(self) -> int:
        """Number of its features."""
        return 1

    def apply(self, values: Floats) -> Floats:
        """Values (n,), NaN where missing -> features (n, 1)."""
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        scaled = np.clip((values - middle) / half, -CLIP, CLIP)
        return np.where(np.isnan(values), 0.0, scaled)[:, None]


@dataclass(frozen=True, slots=True)
class LevelRule:
    """A column of categories, with the levels that have a feature. ConfigError for none, or for one listed twice."""

    name: str
    levels: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.levels or len(set(self.levels)) != len(self.levels):
            raise ConfigError(f"features: {self.name!r}: expected one level or more, each listed once")

    @property
    def width(self) -> int:
        """Number of its features."""
        return len(self.levels)

    def apply(self, codes: NDArray[np.int32], levels: Sequence[str]) -> Floats:
        """Codes (n,) into the client's own `levels`, -1 where missing -> features (n, width)."""
        place = {level: at for at, level in enumerate(self.levels)}
        known = np.array([*(place.get(level, -1) for level in levels), -1], np.int64)[codes]  # -1 is the last
        return np.asarray(known[:, None] == np.arange(self.width), np.float64)


Rule: TypeAlias = NumberRule | LevelRule


def parse_rules(text: str) -> tuple[Rule, ...]:
    """The rules in the text, spans of columns written out; ConfigError saying what is wrong with an entry."""
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError):
        entries = None
    if not isinstance(entries, list) or not entries:
        raise ConfigError(
            "features: expected a JSON list with an entry per column",
            remedy='such as [["age", 20, 80], ["sex", ["f", "m"]]]',
        )
    rules = tuple(rule for entry in entries for rule in _rules(entry))
    names = [rule.name for rule in rules]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"features: column {twice[0]!r} is listed twice")
    return rules


def rules_text(rules: Sequence[Rule]) -> str:
    """The shortest text of the rules: neighbours alike with rising numbers in their names make a span."""
    entries: list[list[object]] = []
    for rule, last in _spans(rules):
        if isinstance(rule, LevelRule):
            entries.append([rule.name, list(rule.levels)])
        else:
            name = rule.name if last == rule.name else f"{rule.name}..{last}"
            entries.append([name, rule.low, rule.high])
    return json.dumps(entries, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def check_columns(rules: Sequence[Rule], columns: Sequence[str]) -> None:
    """BlockError unless the rules read exactly these columns."""
    wanted = {rule.name for rule in rules}
    if lacking := sorted(wanted - set(columns)):
        raise BlockError(f"no column {', '.join(lacking[:5])}, which the features of the request read")
    if unread := sorted(set(columns) - wanted):
        raise BlockError(f"column {', '.join(unread[:5])} is opened, but no feature of the request reads it")


def _rules(entry: object) -> Iterator[Rule]:
    match entry:
        case [str(name), list(levels)] if all(isinstance(level, str) for level in levels):
            yield LevelRule(name, tuple(levels))
        case [str(name), int() | float() as low, int() | float() as high]:
            yield from (NumberRule(each, float(low), float(high)) for each in _names(name))
        case _:
            raise ConfigError(
                "features: an entry is neither a number's name, low, high nor a category's name and list of levels"
            )


def _names(name: str) -> Iterator[str]:
    span = _SPAN.fullmatch(name)
    if span is None:
        yield name
    else:
        yield from (f"{span[1]}{number}" for number in range(int(span[2]), int(span[3]) + 1))


def _spans(rules: Sequence[Rule]) -> Iterator[tuple[Rule, str]]:
    """The first rule of each span, and the name of its last one."""
    first: Rule | None = None
    last = ""
    for rule in rules:
        if first is not None and _continues(first, last, rule):
            last = rule.name
            continue
        if first is not None:
            yield first, last
        first, last = rule, rule.name
    if first is not None:
        yield first, last


def _continues(first: Rule, last: str, rule: Rule) -> bool:
    before, now = _NUMBERED.fullmatch(last), _NUMBERED.fullmatch(rule.name)
    if isinstance(first, LevelRule) or before is None or now is None:
        return False
    return (
        before[1] == now[1] and int(now[2]) == int(before[2]) + 1 and replace(first, name=rule.name) == rule
    )
