"""What a datasite says, made fit to be shown: it may be faulty or hostile, and a terminal obeys control characters."""

from collections.abc import Mapping

from parties.control.socket import Answer

LONGEST = 500
MOST = 50
"""Characters of a text, and items of a list or table, that are shown of what a datasite says."""
MOCK_FIELD = "mock"
"""The field, true, by which a report of a rehearsal says that it is about nobody; a released report has none."""
MOCK_MARK = "MOCK"
_READ_BY_US = ("approval", "result")
"""Verified, or written as JSON text (which escapes such characters), not shown as they are."""


def is_mock(report: object) -> bool:
    """Whether the report, or the document of reports, is a rehearsal's."""
    return isinstance(report, Mapping) and report.get(MOCK_FIELD) is True


def printable(text: str, limit: int = LONGEST) -> str:
    """The text on one line, a blank in place of each control or direction character, "..." in place of what is beyond
    the limit."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * limit]).split())
    return line if len(line) <= limit else line[:limit] + "..."


def printable_answer(answer: Mapping[str, object]) -> Answer:
    """A datasite's answer with every text in it printable."""
    return {
        printable(str(name)): value if name in _READ_BY_US else _printable_value(value)
        for name, value in answer.items()
    }


def _printable_value(value: object) -> object:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list | tuple):
        return [_printable_value(each) for each in value[:MOST]]
    if isinstance(value, Mapping):
        return {printable(str(name)): _printable_value(each) for name, each in list(value.items())[:MOST]}
    if isinstance(value, int) and abs(value) >= 2**63:
        return "(a number too large)"
    return value if isinstance(value, int | float) or value is None else printable(str(value))
