"""A block without some of its people: read from the store, cut, described anew, and stored as the next version.

The store then deletes the content of the version before. Levels and classes that only those people had go with them,
and the mock is drawn again from the new schema. What an owner's source file holds is not touched.
"""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from parties.blocks.block import BlockSpec, FeatureBlock
from parties.blocks.counts import plural
from parties.blocks.keys.form import key_format
from parties.blocks.keys.reading import Duplicates, KeyPolicy, KeyReport, SubjectKeys, read_keys
from parties.blocks.keys.recipe import KeyRecipe, parse_recipe, separated
from parties.blocks.registration import made_mock
from parties.blocks.schema import BlockSchema
from parties.blocks.store import Store
from protocols.errors import BlockError, SubjectKeyError
from vertical.table import CategoricalColumn, Column, PartyData, Rows, Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """The new version's schema, the version before, and how many of the given keys were in it, and weren't."""

    schema: BlockSchema
    before: int
    people: int
    absent: int


def erase_people(store: Store, name: str, key_file: Path, generator: np.random.Generator) -> Erasure:
    """Stores the block without the people whose keys are in the file, one a line (several parts: as in a CSV line).

    Raises BlockError when none of them is in the block or nobody would remain, SubjectKeyError when a line is no key by
    the block's rule, BlockError when somebody else has changed the block meanwhile: whoever was taken out by that would
    be back. Then nothing has changed. No error names a key.
    """
    schema = store.describe(name)
    keys = _given(key_file, schema)
    data = store.open(schema.commitment, schema.names, schema.label)
    held = pa.array([key.decode() for key in data.keys], pa.large_string())
    gone = np.asarray(pc.is_in(held, value_set=keys))
    people = int(gone.sum())
    if not people:
        raise BlockError(
            f"none of the {plural(len(keys), 'key')} is in block {name!r} version {schema.version}",
            remedy="keys are compared by the block's rule; nothing was changed",
        )
    if people == len(held):
        raise BlockError(f"block {name!r} would have nobody left", remedy="nothing was changed")
    rest = _without(data, held, np.flatnonzero(~gone), gone, schema)
    stored = store.add(rest, made_mock(rest, generator), replace=True, made_from=schema.version)
    return Erasure(schema=stored, before=schema.version, people=people, absent=len(keys) - people)


def _given(path: Path, schema: BlockSchema) -> pa.LargeStringArray:
    """The distinct keys of the file under the block's rule."""
    try:
        lines = [line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except OSError as error:
        raise BlockError(f"key file {path.name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BlockError(f"key file {path.name} is not UTF-8 text") from error
    names = schema.key_columns
    rows = [[line] for line in lines] if len(names) == 1 else list(csv.reader(lines))
    unfit = sum(1 for row in rows if len(row) != len(names))
    if unfit or not rows:
        raise SubjectKeyError(
            f"key file {path.name}: {plural(unfit, 'line')} of {len(rows)} don't have {plural(len(names), 'part')}"
            if rows
            else f"key file {path.name} is empty",
            remedy=f"write one key a line: {', '.join(names)}",
        )
    columns = {
        name: pa.chunked_array([pa.array([row[i] for row in rows], pa.large_string())])
        for i, name in enumerate(names)
    }
    policy = KeyPolicy(duplicates=Duplicates.FIRST, missing=schema.key_missing)
    read = read_keys(columns, parse_recipe(schema.key_rule), policy)
    left_out = read.report.blank + read.report.unusable
    if left_out:
        raise SubjectKeyError(
            f"key file {path.name}: {plural(left_out, 'line')} of {len(rows)} is no key by the rule {schema.key_rule}",
            remedy="write them as in the source of the block; nothing was changed",
        )
    return read.texts


def _without(
    data: PartyData, held: pa.LargeStringArray, kept: Rows, gone: NDArray[np.bool_], schema: BlockSchema
) -> FeatureBlock:
    """The block with only the rows `kept`, as if its file had never had the others."""
    texts = held.take(pa.array(kept))
    spec = BlockSpec(
        name=schema.block,
        subject_key=schema.subject_key,
        label=schema.label,
        split=schema.split_column,
        key_rule=schema.key_rule,
        duplicates=schema.duplicates,
        key_missing=schema.key_missing,
    )
    labels, classes = _labels(data, kept, gone)
    return FeatureBlock(
        spec=spec,
        keys=_keys(texts, spec.recipe),
        table=Table(tuple(_column(column, kept) for column in data.table.columns)),
        split=data.split[kept],
        labels=labels,
        classes=classes,
    )


def _keys(texts: pa.LargeStringArray, recipe: KeyRecipe) -> SubjectKeys:
    count = len(texts)
    return SubjectKeys(
        texts=texts,
        rows=np.arange(count, dtype=np.int64),
        forms=tuple(key_format(part) for part in separated(texts, len(recipe.parts))),
        report=KeyReport(
            rows=count,
            usable=count,
            blank=0,
            unusable=0,
            duplicated_keys=0,
            duplicate_rows_left_out=0,
            parts=(),
        ),
    )


def _column(column: Column, kept: Rows) -> Column:
    """The column's kept rows; a level that nobody has any more goes."""
    taken = column.take(kept)
    if not isinstance(taken, CategoricalColumn):
        return taken
    used = np.unique(taken.codes[taken.codes >= 0])
    return CategoricalColumn(
        name=taken.name,
        codes=_coded(taken.codes, used).astype(np.int32),
        levels=tuple(taken.levels[code] for code in used),
    )


def _labels(
    data: PartyData, kept: Rows, gone: NDArray[np.bool_]
) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
    """Labels and classes without a class that only the erased people had; one that no row had before stays."""
    if data.labels is None:
        return None, ()
    lost = set(data.labels[gone].tolist()) - set(data.labels[kept].tolist())
    used = np.array([code for code in range(len(data.classes)) if code not in lost], dtype=np.int64)
    return _coded(data.labels[kept], used), tuple(data.classes[code] for code in used)


def _coded(codes: NDArray[np.integer[Any]], used: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Codes counted anew among the used ones, -1 where missing."""
    return np.where(codes < 0, -1, np.searchsorted(used, codes)).astype(np.int64)
