"""From a file to a registered block: read, describe, make or check the mock, store.

Nothing is stored when a step fails.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from parties.blocks.block import BlockSpec, FeatureBlock, describe_block, read_block, read_source
from parties.blocks.csv_format import CsvFormat
from parties.blocks.keys.reading import KeyReport
from parties.blocks.mock import CANONICAL, checked_mock, free_prefix, make_mock
from parties.blocks.schema import SMALLEST_GROUP, BlockSchema
from parties.blocks.store import Store

MOCK_ROWS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The public schema of the stored block, and the owner's private counts: what became of the file's rows, and how
    many classes, whose names are published, have fewer than k people."""

    schema: BlockSchema
    source: str
    keys: KeyReport
    rare_classes: int


def register(
    store: Store,
    path: Path,
    spec: BlockSpec,
    *,
    generator: np.random.Generator,
    mock: Path | None = None,
    replace: bool = False,
    k: int = SMALLEST_GROUP,
) -> Registration:
    """Registers the file as a block; its mock twin is read from `mock` (CSV or parquet), or made from the schema.

    Raises BlockError or SubjectKeyError, naming line, column or counts.
    """
    block = read_block(path, spec)
    schema = store.add(block, _mock(block, mock, spec.csv, generator, k), replace=replace, k=k)
    return Registration(
        schema=schema, source=block.source, keys=block.keys.report, rare_classes=rare_classes(block, k)
    )


def rare_classes(block: FeatureBlock, k: int = SMALLEST_GROUP) -> int:
    """How many classes of the block have fewer than k people; 0 without a label column."""
    if block.labels is None:
        return 0
    people = np.bincount(block.labels[block.labels >= 0], minlength=len(block.classes))
    return int(np.count_nonzero(people < k))


def _mock(
    block: FeatureBlock, path: Path | None, form: CsvFormat, generator: np.random.Generator, k: int
) -> pd.DataFrame:
    if path is not None:
        return checked_mock(block, read_source(path, keys=(), form=form)[0])
    return made_mock(block, generator, k)


def made_mock(block: FeatureBlock, generator: np.random.Generator, k: int = SMALLEST_GROUP) -> pd.DataFrame:
    """A mock twin that is drawn from what is published of the block."""
    schema = describe_block(block, k)
    made = make_mock(schema, rows=MOCK_ROWS, generator=generator, prefix=free_prefix(block))
    return checked_mock(block, made, CANONICAL)
