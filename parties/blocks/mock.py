"""Mock twins: tables of the same shape as a block that hold nobody, for trying a computation out before it is approved.

A mock row is drawn from the public schema only (listed levels, coarse quantiles), each column by itself,
under a key that is visibly not one: MOCK-000001. An owner may supply a mock of his own. Either is checked
against the private rows together with the key, since a common combination of a few columns without a key
honestly occurs in both.
"""

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from parties.blocks.block import FeatureBlock
from parties.blocks.columns import CellRules, ColumnKind, present_text, typed_column
from parties.blocks.counts import plural
from parties.blocks.csv_text import check_names
from parties.blocks.dates import date_text
from parties.blocks.frames import frame_table
from parties.blocks.keys.cells import key_text
from parties.blocks.keys.folding import ascii_letters_and_digits
from parties.blocks.keys.recipe import joined
from parties.blocks.labels import split_codes
from parties.blocks.missing import present
from parties.blocks.parquet_file import plain_table
from parties.blocks.schema import LARGEST, BlockSchema, PublicColumn, coarse
from protocols.errors import BlockError
from vertical.table import CategoricalColumn, Column, DateColumn, NumericColumn, Split, Table

PREFIX = "MOCK-"
OTHER_LEVEL = "(other)"
CANONICAL = CellRules(missing=())
"""How the cells of a made or published mock are written."""

_GOLDEN = 0.6180339887498949


def make_mock(
    schema: BlockSchema, *, rows: int, generator: np.random.Generator, prefix: str = PREFIX
) -> pd.DataFrame:
    """A mock of so many rows in the schema's columns, every cell text, "" where missing."""
    keys = [f"{prefix}{row:06d}" for row in range(1, rows + 1)]
    cells: dict[str, list[str]] = dict.fromkeys(schema.key_columns, keys)
    for column in schema.columns:
        drawn = _draw(column, rows, generator)
        absent = generator.random(rows) < column.missing_share
        cells[column.name] = ["" if gone else cell for gone, cell in zip(absent, drawn, strict=True)]
    if schema.label:
        cells[schema.label] = [str(name) for name in generator.choice(np.array(schema.classes, object), rows)]
    if schema.split_column:
        split = even_split(schema, np.arange(rows))
        cells[schema.split_column] = [Split(code).name.lower() for code in split]
    return pd.DataFrame(cells, dtype=object)


def free_prefix(block: FeatureBlock) -> str:
    """A key prefix for mocks that no key of the block has, by its letters: rules leave case and hyphens out."""
    letters = ascii_letters_and_digits(pc.utf8_lower(block.keys.texts))
    prefix = PREFIX
    while pc.any(pc.match_substring(letters, prefix.replace("-", "").lower())).as_py():
        prefix += "X-"
    return prefix


def checked_mock(
    block: FeatureBlock, mock: pd.DataFrame | pa.Table, rules: CellRules | None = None
) -> pd.DataFrame:
    """The mock in canonical text (columns in the block's order, decimal points, "" for missing), fit to be published.

    Its cells are read by `rules`, by default the block's own. Raises BlockError naming missing and extra
    columns, or counting cells that don't fit, private rows, or private keys in it.
    """
    source = _arrow(mock)
    names = list(source.column_names)
    check_names(names)
    spec = block.spec
    cells_rules = rules or spec.cells
    expected = [*spec.key_columns, *block.table.names, *(name for name in (spec.label, spec.split) if name)]
    _check_columns(expected, names)
    source = plain_table(source.select(expected))
    if not source.num_rows:
        raise BlockError("the mock has no rows", remedy="give it some, or leave out --mock")
    keys = {
        name: key_text(name, source.column(name), dates=rule.takes_dates)
        for name, rule in zip(spec.key_columns, spec.recipe.parts, strict=True)
    }
    columns = [_mock_column(like, source.column(like.name), cells_rules) for like in block.table.columns]
    labels: NDArray[np.int64] | None = None
    split: NDArray[np.uint8] | None = None
    if spec.label:
        labels = _mock_labels(spec.label, source.column(spec.label), block.classes, cells_rules)
    if spec.split:
        split = split_codes(spec.split, source.column(spec.split))
    _refuse_private(block, keys, columns, labels, split)
    cells: dict[str, list[str]] = {name: pc.fill_null(text, "").to_pylist() for name, text in keys.items()}
    cells |= {column.name: _cell_texts(column) for column in columns}
    if labels is not None:
        cells[spec.label] = ["" if code < 0 else block.classes[code] for code in labels]
    if split is not None:
        cells[spec.split] = [Split(code).name.lower() for code in split]
    return pd.DataFrame(cells, dtype=object)


def mock_table(schema: BlockSchema, mock: pd.DataFrame | pa.Table) -> tuple[Table, NDArray[np.int64] | None]:
    """Typed columns and label codes of a published mock (canonical text)."""
    source = _arrow(mock)
    _check_columns(list(schema.all_names), list(source.column_names))
    source = plain_table(source)
    columns = [typed_column(c.name, source.column(c.name), c.kind, CANONICAL) for c in schema.columns]
    if not schema.label:
        return Table(tuple(columns)), None
    labels = _mock_labels(schema.label, source.column(schema.label), schema.classes, CANONICAL)
    return Table(tuple(columns)), labels


def even_split(schema: BlockSchema, positions: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Split codes in the schema's shares, evenly mixed: any run of positions holds each share to within about one row.

    They depend on the position alone, so that two rehearsing parties with equal shares agree on the split
    of a common mock person.
    """
    shares = np.array([part.share for part in schema.splits])
    edges = np.cumsum(shares) / shares.sum() if shares.sum() else np.ones(len(Split))
    spread = ((positions + 0.5) * _GOLDEN) % 1.0
    return np.searchsorted(edges[:-1], spread, side="right").astype(np.uint8)


def _draw(column: PublicColumn, rows: int, generator: np.random.Generator) -> list[str]:
    if column.kind is ColumnKind.CATEGORICAL:
        levels = [*column.levels, *([OTHER_LEVEL] if column.other_levels else [])] or [""]
        return [levels[i] for i in generator.integers(0, len(levels), rows)]
    shares = [point.share for point in column.quantiles] or [0.0, 1.0]
    values = [point.value for point in column.quantiles] or [0.0, 9.0]
    drawn = np.interp(generator.random(rows), shares, np.clip(values, -LARGEST, LARGEST))
    if column.kind is ColumnKind.DATE:
        return [date_text(round(value) if column.whole_numbers else float(value)) for value in drawn]
    if column.whole_numbers:
        return [str(round(value)) for value in drawn]
    return [repr(coarse(float(value), 3)) for value in drawn]


def _check_columns(expected: list[str], names: list[str]) -> None:
    absent = [name for name in expected if name not in names]
    extra = [name for name in names if name not in expected]
    if absent or extra:
        parts = [
            f"{what} {', '.join(listed)}"
            for what, listed in (("missing", absent), ("extra", _shown(extra)))
            if listed
        ]
        raise BlockError(
            f"the mock's columns differ from the block's: {'; '.join(parts)}",
            remedy="give the mock the same columns",
        )


def _shown(names: list[str]) -> list[str]:
    """The names that look like names; a file without a header has cells in their place."""
    words = [name for name in names if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_. -]*", name)]
    others = len(names) - len(words)
    return [*words, *([f"{others} that are no words"] if others else [])]


def _mock_column(like: Column, cells: pa.ChunkedArray, rules: CellRules) -> Column:
    kind = ColumnKind.NUMERIC if isinstance(like, NumericColumn) else ColumnKind.CATEGORICAL
    if isinstance(like, DateColumn):
        kind = ColumnKind.DATE
    try:
        return typed_column(like.name, cells, kind, rules)
    except BlockError as error:
        raise BlockError(f"in the mock, {error}", remedy=error.remedy) from None


def _arrow(mock: pd.DataFrame | pa.Table) -> pa.Table:
    return mock if isinstance(mock, pa.Table) else frame_table(mock)


def _mock_labels(
    name: str, cells: pa.ChunkedArray, classes: tuple[str, ...], rules: CellRules
) -> NDArray[np.int64]:
    text = present_text(cells, rules.missing)
    codes = pc.index_in(text, value_set=pa.array(classes, pa.large_string()), skip_nulls=True)
    strange = codes.null_count - text.null_count
    if strange:
        raise BlockError(
            f"mock label column {name!r}: {strange} cells are none of the block's {len(classes)} classes",
            remedy="use the block's classes",
        )
    return np.asarray(pc.fill_null(codes, -1).to_numpy(), dtype=np.int64)


def _refuse_private(
    block: FeatureBlock,
    keys: dict[str, pa.ChunkedArray],
    columns: list[Column],
    labels: NDArray[np.int64] | None,
    split: NDArray[np.uint8] | None,
) -> None:
    """Raises BlockError when the mock holds a row of the block (compared with the key), or a key of it."""
    given = [present(text, block.spec.key_missing) for text in keys.values()]
    normal = joined(block.spec.recipe.parts_of(given))
    found = pc.fill_null(pc.index_in(normal, value_set=block.keys.texts, skip_nulls=True), -1).to_numpy()
    mine = np.flatnonzero(found >= 0)
    if not len(mine):
        return
    theirs = found[mine].astype(np.int64)
    equal = np.ones(len(mine), bool)
    for column, like in zip(columns, block.table.columns, strict=True):
        equal &= _equal_cells(column.take(mine), like.take(theirs))
    for part, own in ((labels, block.labels), (split, block.split)):
        if part is not None and own is not None:
            equal &= part[mine] == own[theirs]
    remedy = "leave out --mock, and it is made from the schema, or invent rows with keys that nobody has"
    if equal.any():
        raise BlockError(f"mock holds {plural(int(equal.sum()), 'private row')}", remedy=remedy)
    raise BlockError(f"mock holds {plural(len(mine), 'private key')}", remedy=remedy)


def _equal_cells(first: Column, second: Column) -> NDArray[np.bool_]:
    if isinstance(first, NumericColumn) and isinstance(second, NumericColumn):
        both_missing = np.isnan(first.values) & np.isnan(second.values)
        return np.asarray((first.values == second.values) | both_missing, dtype=np.bool_)
    return np.array([a == b for a, b in zip(_cell_texts(first), _cell_texts(second), strict=True)], bool)


def _cell_texts(column: Column) -> list[str]:
    """Canonical text of each cell, "" where missing."""
    if isinstance(column, CategoricalColumn):
        texts = (*column.levels, "")
        return [texts[code] for code in column.codes]
    if isinstance(column, DateColumn):
        return [date_text(float(value)) for value in column.values]
    return ["" if np.isnan(value) else _number_text(float(value)) for value in column.values]


def _number_text(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
