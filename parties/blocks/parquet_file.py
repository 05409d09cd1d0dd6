"""Reading of parquet files into the same table that CSV reading gives; types that have no exact text or
number are refused."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from parties.blocks.csv_text import check_names
from protocols.errors import BlockError


def read_parquet(path: Path, *, keys: tuple[str, ...]) -> pa.Table:
    """The file's columns: text as large_string, dictionaries decoded, numbers, booleans and times in their own type.

    Raises BlockError for an unreadable file, a missing key column or a nested type (naming the column).
    """
    table: pa.Table | None = None
    try:
        table = pq.ParquetFile(path).read()
        table.validate(full=True)
    except FileNotFoundError:
        raise BlockError(f"{path.name} does not exist", remedy="check the path") from None
    except (pa.ArrowException, OSError):
        table = None
    if table is None:
        raise BlockError(
            f"{path.name} is not a sound parquet file", remedy="write it again, with text as UTF-8"
        )
    for key in keys:
        if key not in table.column_names:
            raise BlockError(
                f"{path.name} has no column {key!r}", remedy="give the subject key's column as --key"
            )
    return plain_table(table)


def plain_table(table: pa.Table) -> pa.Table:
    """The table with text as large_string and dictionaries decoded; BlockError naming a column of a
    nested type."""
    check_names(list(table.column_names))
    columns = {name: _plain(name, table.column(name)) for name in table.column_names}
    return pa.table(columns)


def _plain(name: str, cells: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    kind = cells.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        cells = _decoded(name, cells)
        kind = cells.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind):
        return cells.cast(pa.large_string())
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if number or pa.types.is_boolean(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return cells
    raise BlockError(
        f"column {name!r} has the type {kind}, which is neither text, number, truth value nor time",
        remedy="convert or remove it before registering",
    )


def _decoded(name: str, cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """Bytes as the text that they are in UTF-8."""
    text: pa.ChunkedArray | None
    try:
        text = cells.cast(pa.large_binary()).cast(pa.large_string())
    except pa.ArrowInvalid:
        text = None
    if text is None:
        raise BlockError(f"column {name!r} holds bytes that are no UTF-8 text", remedy="export it as text")
    return text
