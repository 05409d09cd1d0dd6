"""What a reader is shown of one thing, as sections of facts; a terminal and a web page show the same sections.

A new kind of fact is one record here, its text in `_lines`, and its markup in the console's `facts.html`.
"""

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

WIDTH = 100
"""Characters of a line on a terminal."""
_NAME = 13  # columns of a fact's name on a terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A name and what is the case."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A heading with items that belong to it; `listed` items are read one by one, the others as one text."""

    title: str
    items: tuple[str, ...]
    listed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One kind of message of the release manifest: at most `repetitions`, each of at most `size`."""

    sender: str
    receiver: str
    kind: str
    repetitions: int
    size: str
    shapes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A field that differs from what it is compared with."""

    field: str
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """Named values, many of them, of which few are looked at."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A sentence."""

    text: str


Content = Fact | Group | Message | Change | Values | Note


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Facts under one title."""

    title: str
    contents: tuple[Content, ...]


def section(title: str, contents: Iterable[Content]) -> Section:
    """A section of these facts."""
    return Section(title=title, contents=tuple(contents))


def facts_text(sections: Iterable[Section]) -> str:
    """The sections for a terminal, each under its title in capitals, none of its lines cut."""
    lines: list[str] = []
    for each in sections:
        lines += [
            "",
            each.title.upper(),
            *(_wrapped(line) for content in each.contents for line in content_lines(content)),
        ]
    return "\n".join(lines[1:])


def content_lines(content: Content) -> list[str]:
    """The lines of one fact, unwrapped; an item that belongs to the line before begins with blanks."""
    match content:
        case Fact():
            return [f"{content.name:<{_NAME - 1}} {content.text}"]
        case Group():
            mark = "    - " if content.listed else "    "
            return [f"{content.title}:", *(mark + item for item in content.items)]
        case Message():
            return [
                f"{content.sender} -> {content.receiver}  {content.kind}: up to {content.repetitions} messages of "
                f"{content.size} ({content.shapes})"
            ]
        case Change():
            return [f"    {content.field}: {content.old} -> {content.new}"]
        case Values():
            return [", ".join(f"{name}={value}" for name, value in content.pairs)]
        case Note():
            return [content.text]


def _wrapped(line: str) -> str:
    indent = len(line) - len(line.lstrip())
    return (
        textwrap.fill(
            line, WIDTH, subsequent_indent=" " * (indent + 4), break_long_words=False, drop_whitespace=True
        )
        or line
    )
