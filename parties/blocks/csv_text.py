"""Strict reading of CSV files: every cell stays text, and a line that doesn't fit the header stops the whole file.

The usual readers guess here (numbers through float, short lines filled up, blank lines skipped); each guess
has once joined the wrong people. Errors name the file, the line and the counts, never what a cell holds.
"""

import csv
import io
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from parties.blocks.counts import plural
from parties.blocks.csv_format import CsvFormat, decoded, found_delimiter, likeliest
from protocols.errors import BlockError

if TYPE_CHECKING:
    import _csv  # the only home of the reader's type

CHUNK_ROWS = 50_000


def read_csv(path: Path, *, keys: tuple[str, ...], form: CsvFormat) -> tuple[pa.Table, CsvFormat]:
    """All columns of the file as large_string, blanks around header names removed; and how the file is written.

    `keys` are the columns that the owner named as subject key: only when the header has them do we trust the
    first line to be a header and name other columns in errors (none: the file is not private, and any
    header will do). Raises BlockError naming the line for a ragged line or broken quoting.
    """
    text, encoding = decoded(_bytes(path), path.name, form.encoding)
    delimiter = form.delimiter or found_delimiter(text, path.name, keys)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows = _numbered_rows(reader, path.name)
    _, header = next(rows, (0, []))
    names = [name.strip() for name in header]
    if not names:
        raise BlockError(f"{path.name} is empty", remedy="the first line must hold the column names")
    for key in keys:
        if key not in names:
            raise _no_key_column(path.name, key, header)
    check_names(names)
    chunks: list[list[pa.Array]] = [[] for _ in names]
    full = _full_rows(rows, len(names))
    while chunk := list(islice(full, CHUNK_ROWS)):
        for parts, cells in zip(chunks, zip(*chunk, strict=True), strict=True):
            parts.append(pa.array(cells, pa.large_string()))
    table = pa.table([pa.chunked_array(parts, pa.large_string()) for parts in chunks], names=names)
    return table, CsvFormat(delimiter=delimiter, encoding=encoding)


def check_names(names: list[str]) -> None:
    """Raises BlockError naming a column that occurs twice, has no name, or has one that can't be shown."""
    for position, name in enumerate(names, start=1):
        if not name:
            raise BlockError(f"column {position} has no name", remedy="name every column in the header")
        if not name.isprintable() or len(name) > 128:
            raise BlockError(
                f"the name of column {position} is not printable text of up to 128 characters",
                remedy="rename it",
            )
        if names.count(name) > 1:
            raise BlockError(f"column {name!r} occurs {names.count(name)} times", remedy="rename one of them")


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BlockError(
            f"{path.name} cannot be read: {error.strerror}", remedy="check the path and its rights"
        ) from None


def _numbered_rows(reader: "_csv._reader", file: str) -> Iterator[tuple[int, list[str]]]:
    """Each record with the number of the line on which it begins; BlockError where the quoting is
    broken."""
    while True:
        line = reader.line_num + 1
        row: list[str] | None
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error:
            row = None  # raised below, so that no part of the cell hangs on to the error
        if row is None:
            raise BlockError(
                f"{file}, line {line}: the quoting is broken or a field is too long",
                remedy="every opened quote must be closed, and quotes inside a field doubled",
            )
        yield line, row


def _full_rows(rows: Iterator[tuple[int, list[str]]], width: int) -> Iterator[list[str]]:
    """The rows, all `width` fields wide. Empty lines at the end of the file are no rows; in a one-column file an
    empty line before the last row is a blank cell."""
    empty: list[int] = []
    for line, row in rows:
        if not row:
            empty.append(line)
            continue
        if empty:
            if width > 1:
                raise _ragged(empty[0], 0, width)
            yield from ([""] for _ in empty)
            empty.clear()
        if len(row) != width:
            raise _ragged(line, len(row), width)
        yield row


def _ragged(line: int, fields: int, width: int) -> BlockError:
    return BlockError(
        f"line {line}: {plural(fields, 'field')}, header has {width}",
        remedy="correct the line; nothing was stored",
    )


def _no_key_column(file: str, key: str, header: list[str]) -> BlockError:
    remedy = "the first line must hold the column names, the subject key's among them"
    if len(header) == 1 and (likely := likeliest(header[0])) in header[0]:
        remedy = f"the file seems to be separated by {likely!r}: give --delimiter {likely!r}"
    elif "," in key:
        remedy = "for a key of several columns give a --key-rule of as many parts, as in name+date"
    return BlockError(
        f"{file} has no column {key!r}; its first line has {plural(len(header), 'field')}", remedy=remedy
    )
