"""How a CSV file is written: found out where there is one reading, an error where there are several.

Which delimiter it is can be seen from the key columns that the owner named: they must be whole fields of the first
line. Encodings are told by a byte order mark or by being UTF-8, which text in another encoding practically never is by
chance; which of the older ones it is can't be seen, so it has to be said.
"""

import codecs
import csv
import io
from dataclasses import dataclass

from protocols.errors import BlockError

LIKELY_DELIMITERS = (",", ";", "\t", "|")
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, whose mark it begins with
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvFormat:
    """How a CSV file is written; "" stands for what is to be found out.

    Quoting is always with double quotes; a byte order mark is accepted.
    """

    delimiter: str = ""
    encoding: str = ""

    def __post_init__(self) -> None:
        """Raises BlockError for a delimiter that can't be one."""
        if len(self.delimiter) > 1 or (self.delimiter and self.delimiter in '"\r\n '):
            raise BlockError(
                f"delimiter {self.delimiter!r} is not usable",
                remedy="give one character, as in --delimiter ';'",
            )

    def describe(self) -> str:
        """In words, once it is found out."""
        return f"{self.encoding} text separated by {self.delimiter!r}"


STORED = CsvFormat(delimiter=",", encoding="utf-8")
"""How we write CSV files ourselves."""


def decoded(data: bytes, file: str, encoding: str) -> tuple[str, str]:
    """The text without a byte order mark, and its encoding; `encoding` "" means: find it out.

    Raises BlockError when it isn't that encoding, or when nothing shows which it is.
    """
    marked = next((name for mark, name in _MARKS.items() if data.startswith(mark)), "")
    chosen = encoding or marked or "utf-8"
    problem, text = "", ""
    try:
        if marked and not codecs.lookup(chosen).name.startswith(marked):
            problem = f"{file} begins with the byte order mark of {marked}, so it is not {chosen}"
        text = data.decode(chosen)
    except UnicodeDecodeError as error:
        problem = problem or f"{file} is not {chosen}: byte {error.start} does not fit"
    except LookupError:
        problem = f"unknown text encoding {chosen!r}"
    if not problem and "\0" in text:
        problem = f"{file} holds NUL characters, as {chosen}"
    if not problem and not encoding and "\x1b" in text:
        problem = f"{file} holds escape characters, so it may be no {chosen}"
    if problem:
        raise BlockError(
            problem, remedy="give its --encoding (such as cp1252 or utf-16-le), or export it as UTF-8"
        )
    return text.removeprefix("\ufeff"), chosen


def found_delimiter(text: str, file: str, keys: tuple[str, ...]) -> str:
    """The delimiter by which all `keys` are fields of the first line; without keys, the likely one that stands in it.

    Where none fits it is the likeliest, whose error tells most. Raises BlockError where several fit.
    """
    line = text[: min((at for end in "\r\n" if (at := text.find(end)) >= 0), default=len(text))]
    if keys:
        candidates = sorted({mark for mark in line if not mark.isalnum() and mark not in '_" '})
        fitting = [mark for mark in candidates if set(keys) <= set(header_fields(text, mark))]
    else:
        fitting = [mark for mark in LIKELY_DELIMITERS if mark in line]
    if not fitting and set(keys) <= set(header_fields(text, ",")):
        # One column: a mark in a later line shows a line that is too long, unless it's quoted.
        fitting = [mark for mark in LIKELY_DELIMITERS if mark in text] or [","]
    if len(fitting) > 1:
        raise BlockError(
            f"{file} can be read as separated by {' or '.join(map(repr, fitting))}",
            remedy="say which, as in --delimiter ';'",
        )
    return fitting[0] if fitting else likeliest(line)


def header_fields(text: str, delimiter: str) -> list[str]:
    """The fields of the first record without blanks around them; none where its quoting is broken."""
    try:
        first = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True), [])
    except csv.Error:
        return []
    return [field.strip() for field in first]


def likeliest(line: str) -> str:
    """The likely delimiter that occurs most often in the line."""
    return max(LIKELY_DELIMITERS, key=line.count)
