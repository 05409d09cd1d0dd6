"""What of the page must be the same each time it is made: titles, kinds of log entries in order, every message."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

_TITLE = re.compile(r"#{1,3} (.+)|<summary>([^:]+).*</summary>")
_ENTRY = re.compile(r"\s*\d+ \d\d:\d\d:\d\d (\w+) ")
_MESSAGE = re.compile(r"\s*\d+\s+\w+ -> \w+\s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """The fixed parts of a page; `titles` are headings and the names of what is folded,
    `entries` the kinds of log lines by the title that they stand under."""

    titles: tuple[str, ...]
    entries: Mapping[str, tuple[str, ...]]
    messages: tuple[str, ...]


def structure(page: str) -> Structure:
    """The fixed parts of the page."""
    titles: list[str] = []
    entries: dict[str, list[str]] = {}
    messages: list[str] = []
    in_block = False
    for line in page.splitlines():
        if line.startswith("```"):
            in_block = not in_block
        elif not in_block:
            found = _TITLE.match(line)
            titles += [found[1] or found[2]] if found else []
        elif found := _ENTRY.match(line):
            entries.setdefault(titles[-1], []).append(found[1])
        elif _MESSAGE.match(line):
            messages.append(line)
    return Structure(
        titles=tuple(titles),
        entries={title: tuple(kinds) for title, kinds in entries.items()},
        messages=tuple(messages),
    )


def differences(committed: str, made: str) -> tuple[str, ...]:
    """In words, where the two pages differ in structure; empty when they don't."""
    old, new = structure(committed), structure(made)
    found = _compare("title", old.titles, new.titles)
    for title in dict.fromkeys((*old.entries, *new.entries)):
        found += _compare(f"{title}: entry", old.entries.get(title, ()), new.entries.get(title, ()))
    return tuple(found + _compare("message", old.messages, new.messages))


def _compare(what: str, old: Sequence[str], new: Sequence[str]) -> list[str]:
    """The first place where the two sequences part."""
    for number, (before, now) in enumerate(zip_longest(old, new, fillvalue="nothing"), start=1):
        if before != now:
            return [f"{what} {number}: the page has {before!r}, the run gave {now!r}"]
    return []
