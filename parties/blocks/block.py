"""A feature block read from a file: subject keys, typed columns, split and label of one party, checked
before anything is stored."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from parties.blocks.columns import CellRules, ColumnKind, typed_column
from parties.blocks.csv_format import CsvFormat
from parties.blocks.csv_text import read_csv
from parties.blocks.frames import frame_table
from parties.blocks.keys.agreement import KeyOffer
from parties.blocks.keys.reading import Duplicates, KeyPolicy, SubjectKeys, read_keys
from parties.blocks.keys.recipe import KeyRecipe, parse_recipe
from parties.blocks.labels import class_codes, split_codes
from parties.blocks.missing import KEY_MISSING_TOKENS
from parties.blocks.parquet_file import plain_table, read_parquet
from parties.blocks.schema import SMALLEST_GROUP, BlockSchema, public_column, published_rows, split_shares
from protocols.errors import BlockError
from vertical.table import Split, Table

_NAMED = 20  # columns of a file whose names are told when another one was meant
UNUSABLE_SHARE = 0.05
"""Of a file's rows: when more have a key that doesn't fit the rule, the rule is wrong rather than the rows."""
BLOCK_NAME = r"[a-z0-9][a-z0-9_-]{0,63}"
CSV_SUFFIXES = (".csv", ".txt", ".tsv")
PARQUET_SUFFIXES = (".parquet", ".pq")


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSpec:
    """What the owner says of a file: names of the block and of its special columns, and how cells are read.

    `subject_key` is a column or, for a rule of several parts, several with commas between. `kinds` overrides the
    inferred kind of columns; columns in `ignore` are left out. `label` and `split` may be "": without a split column
    every row is a training row. `key_missing` are the texts that mean "no key"; they and the duplicates policy are
    published. `allow_unusable` leaves out any number of rows whose key doesn't fit the rule, and not only a few.
    """

    name: str
    subject_key: str
    label: str = ""
    split: str = ""
    key_rule: str = "text"
    duplicates: Duplicates = Duplicates.ERROR
    key_missing: tuple[str, ...] = KEY_MISSING_TOKENS
    allow_unusable: bool = False
    kinds: Mapping[str, ColumnKind] = field(default_factory=dict)
    ignore: tuple[str, ...] = ()
    cells: CellRules = field(default_factory=CellRules)
    csv: CsvFormat = field(default_factory=CsvFormat)

    def __post_init__(self) -> None:
        """Raises BlockError (or SubjectKeyError for the rule) naming the setting that is wrong."""
        if not re.fullmatch(BLOCK_NAME, self.name):
            raise BlockError(
                f"block name {self.name!r} is not usable",
                remedy="use up to 64 lower-case letters, digits, '-' and '_'",
            )
        keys = self.key_columns
        KeyPolicy(duplicates=self.duplicates, missing=self.key_missing)  # raises for what can't be
        if not all(isinstance(kind, ColumnKind) for kind in self.kinds.values()):
            raise BlockError(f"kinds: expected {' or '.join(ColumnKind)} for each column")
        special = [*keys, *(name for name in (self.label, self.split) if name)]
        if not self.subject_key or len(set(special)) < len(special):
            raise BlockError(
                "subject key, label and split must be different columns", remedy="name them again"
            )
        for name in (*self.ignore, *self.kinds):
            if name in special:
                raise BlockError(f"column {name!r} is subject key, label or split, not a feature")

    @property
    def recipe(self) -> KeyRecipe:
        """The key rule."""
        return parse_recipe(self.key_rule)

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns of the subject key, in the order of the rule's parts."""
        return self.recipe.columns(self.subject_key)

    @property
    def policy(self) -> KeyPolicy:
        """What is decided of keys beside the rule."""
        share = 1.0 if self.allow_unusable else UNUSABLE_SHARE
        return KeyPolicy(duplicates=self.duplicates, missing=self.key_missing, unusable_share=share)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeatureBlock:
    """One party's rows, in memory: row i of every part is the person of key i. Rows without a usable key are left out.

    The spec says how a CSV file was found to be written. split uint8 (rows,); labels int64 (rows,), -1 where missing,
    into `classes`; None and () without a label column.
    """

    spec: BlockSpec
    keys: SubjectKeys
    table: Table
    split: NDArray[np.uint8]
    labels: NDArray[np.int64] | None
    classes: tuple[str, ...]

    def key_offer(self, party: str) -> KeyOffer:
        """What `check_agreement` compares with another party's."""
        recipe = self.spec.recipe
        return KeyOffer(
            party=party, column=self.spec.subject_key, rule=recipe.identifier, forms=self.keys.forms
        )

    @property
    def source(self) -> str:
        """How the source was written, in words; "" unless it was a CSV file."""
        return self.spec.csv.describe() if self.spec.csv.encoding else ""

    def __repr__(self) -> str:
        """Name and counts: cells must not get into a log by way of a repr."""
        return f"FeatureBlock({self.spec.name!r}, {self.keys.report!r}, columns={self.table.names!r})"


def read_block(path: Path, spec: BlockSpec) -> FeatureBlock:
    """The block of a CSV or parquet file (told by its suffix).

    Raises BlockError or SubjectKeyError naming line, column and counts.
    """
    table, form = read_source(path, keys=spec.key_columns, form=spec.csv)
    return block_from_table(table, replace(spec, csv=form))


def read_source(path: Path, *, keys: tuple[str, ...], form: CsvFormat) -> tuple[pa.Table, CsvFormat]:
    """The untyped cells of a CSV or parquet file, and how a CSV file is written; `keys` are the columns that its
    header must have (none: no matter)."""
    suffix = path.suffix.lower()
    if suffix in CSV_SUFFIXES:
        return read_csv(path, keys=keys, form=form)
    if suffix in PARQUET_SUFFIXES:
        return read_parquet(path, keys=keys), form
    raise BlockError(
        f"{path.name}: unknown kind of file", remedy=f"use {', '.join(CSV_SUFFIXES + PARQUET_SUFFIXES)}"
    )


def block_from_table(source: pa.Table, spec: BlockSpec) -> FeatureBlock:
    """The block of a pyarrow table that is already in memory."""
    source = plain_table(source.drop_columns([name for name in spec.ignore if name in source.column_names]))
    features = _feature_names(source, spec)
    if not source.num_rows:
        raise BlockError("the file has a header and no rows", remedy="nothing was stored")
    columns = {name: source.column(name) for name in spec.key_columns}
    keys = read_keys(columns, spec.recipe, spec.policy)
    # Rows that are left out must not leave their levels behind, so columns are typed after the choice of rows.
    kept = source.take(pa.array(keys.rows))
    typed = [typed_column(name, kept.column(name), spec.kinds.get(name), spec.cells) for name in features]
    split = np.full(kept.num_rows, Split.TRAIN, np.uint8)
    if spec.split:
        split = split_codes(spec.split, kept.column(spec.split))
    labels: NDArray[np.int64] | None = None
    classes: tuple[str, ...] = ()
    if spec.label:
        # Classes come from every labelled row of the file, before rows are left out or parties are aligned.
        codes, classes = class_codes(spec.label, source.column(spec.label), spec.cells)
        labels = codes[keys.rows]
    return FeatureBlock(
        spec=spec, keys=keys, table=Table(tuple(typed)), split=split, labels=labels, classes=classes
    )


def block_from_frame(frame: pd.DataFrame, spec: BlockSpec) -> FeatureBlock:
    """The block of a data frame: key columns of any dtype give the keys that a file with the same values gives."""
    return block_from_table(frame_table(frame, spec.key_columns), spec)


def describe_block(block: FeatureBlock, k: int = SMALLEST_GROUP) -> BlockSchema:
    """The block's public schema, still without version and commitment."""
    spec = block.spec
    return BlockSchema(
        block=spec.name,
        version=0,
        commitment="",
        rows=published_rows(block.table.rows, k),
        subject_key=spec.subject_key,
        key_rule=spec.recipe.identifier,
        key_formats=block.keys.forms,
        key_missing=spec.key_missing,
        duplicates=spec.duplicates,
        columns=tuple(public_column(column, k) for column in block.table.columns),
        label=spec.label,
        classes=block.classes,
        split_column=spec.split,
        splits=split_shares(block.split),
    )


def _feature_names(source: pa.Table, spec: BlockSpec) -> list[str]:
    """The columns that are neither key, label, split nor ignored; BlockError naming a column that the
    settings name and the file lacks."""
    named = (*spec.key_columns, spec.label, spec.split, *spec.kinds)
    for name in named:
        if name and name not in source.column_names:
            there = ", ".join(source.column_names[:_NAMED]) + ", ..." * (len(source.column_names) > _NAMED)
            raise BlockError(f"block {spec.name}: the file has no column {name!r}", remedy=f"it has {there}")
    special = {*spec.key_columns, spec.label, spec.split}
    features = [name for name in source.column_names if name not in special]
    if not features:
        raise BlockError("the file has no feature column besides key, label and split")
    for name in features:
        if re.fullmatch(r"__index_level_[0-9]+__|Unnamed: [0-9]+", name):
            raise BlockError(
                f"column {name!r} is the row index of a data frame, not a feature",
                remedy=f"write the file without its index, or give --ignore {name!r}",
            )
    return features
