"""Small pieces of Markdown, and the shortening that keeps long values off the page."""

import re
from collections.abc import Iterable, Sequence

_LONG_HEX = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52,}\b")
_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT(\d\d:\d\d:\d\d)\.\d+Z")


def fence(text: str, kind: str = "text") -> str:
    """A code block."""
    lines = (line.rstrip() for line in text.strip("\n").splitlines())
    return "\n".join([f"```{kind}", *lines, "```"])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a bar in a cell is escaped."""
    lines = [tuple(head), ("---",) * len(head), *(tuple(row) for row in rows)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def details(summary: str, content: str) -> str:
    """What a reader unfolds."""
    return f"<details>\n<summary>{summary}</summary>\n\n{content}\n\n</details>"


def short_values(text: str) -> str:
    """The text with long hexadecimal values cut to their first 12 digits."""
    return _LONG_HEX.sub(r"\1…", text)


def short_times(text: str) -> str:
    """The text with times cut to the second of the day."""
    return _TIME.sub(r"\1", text)


def fill(template: str, parts: dict[str, str]) -> str:
    """The template with every `{{name}}` replaced. ValueError unless each place has a part, and each part one place."""
    places = re.findall(r"\{\{(\w+)\}\}", template)
    if sorted(places) != sorted(parts):
        raise ValueError(
            f"template and parts differ in {sorted(set(places) ^ set(parts)) or 'a repeated place'}"
        )
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)
