"""The public description of a feature block: what the analyst and the syft dataset see before anything is approved.

It is made of names, kinds and coarse numbers only. A level is listed when at least k people share it, a
quantile when at least k people lie beyond it, numbers keep two significant digits, days are multiples of 100, shares
of 0.05, and the number of rows is rounded up. Class names are listed whole, because the classifier's outputs
need them; how often a class occurs isn't told.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from parties.blocks.columns import ColumnKind
from parties.blocks.counts import plural
from parties.blocks.keys.agreement import KeyOffer
from parties.blocks.keys.form import KeyFormat
from parties.blocks.keys.reading import Duplicates
from parties.blocks.keys.recipe import parse_recipe
from protocols.entries import BlockEntry
from protocols.errors import BlockError
from protocols.records import decode_record, encode_record
from vertical.table import CategoricalColumn, Column, DateColumn, NumericColumn, Split

SMALLEST_GROUP = 10
"""k: no published number describes fewer people."""

LARGEST = 1e300
"""Published numbers lie between -this and this: differences and rounded values of larger ones overflow."""

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicQuantile:
    """One coarse point of a numeric column's distribution."""

    share: float
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicColumn:
    """A feature column: its levels shared by k people or more (and whether there are others), or its
    coarse quantiles, in days since 1970-01-01 for dates. whole_numbers: no fractions, of dates no time of day."""

    name: str
    kind: ColumnKind
    dtype: str
    levels: tuple[str, ...]
    other_levels: bool
    quantiles: tuple[PublicQuantile, ...]
    whole_numbers: bool
    missing_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitShare:
    """A split and its share of the rows, rounded."""

    split: str
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSchema:
    """The public document of one version of a block. `label` and `split_column` are "" where there is none.

    `key_formats` are the outward forms of the key's parts, `key_missing` the texts that mean "no key".

    Before the store has taken the block in, version is 0 and commitment "".
    """

    block: str
    version: int
    commitment: str
    rows: int
    subject_key: str
    key_rule: str
    key_formats: tuple[KeyFormat, ...]
    key_missing: tuple[str, ...]
    duplicates: Duplicates
    columns: tuple[PublicColumn, ...]
    label: str
    classes: tuple[str, ...]
    split_column: str
    splits: tuple[SplitShare, ...]

    def __post_init__(self) -> None:
        """Raises SubjectKeyError or BlockError where key columns, rule and formats don't belong together."""
        if len(self.key_formats) != len(self.key_columns):
            raise BlockError(
                f"key_formats: {len(self.key_formats)} for {plural(len(self.key_columns), 'key column')}"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the feature columns in order."""
        return tuple(column.name for column in self.columns)

    @property
    def all_names(self) -> tuple[str, ...]:
        """Every column that a file or mock of this block has: key columns, features, label, split."""
        extra = tuple(name for name in (self.label, self.split_column) if name)
        return (*self.key_columns, *self.names, *extra)

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns of the subject key."""
        return parse_recipe(self.key_rule).columns(self.subject_key)

    def key_offer(self, party: str) -> KeyOffer:
        """What `check_agreement` compares with another party's."""
        return KeyOffer(party=party, column=self.subject_key, rule=self.key_rule, forms=self.key_formats)


def only(schema: BlockSchema, columns: Sequence[str]) -> BlockSchema:
    """The schema with these feature columns only, in this order."""
    by_name = {column.name: column for column in schema.columns}
    return replace(schema, columns=tuple(by_name[name] for name in columns))


def check_entry(entry: BlockEntry, schema: BlockSchema) -> None:
    """BlockError naming a field in which a request describes the block otherwise than it is.

    A request may leave the label out: then it isn't opened.
    """
    for field in ("version", "label", "rows", "subject_key", "key_rule", "key_missing", "duplicates"):
        asked, is_so = getattr(entry, field), getattr(schema, field)
        if asked != is_so and (field, asked) != ("label", ""):
            raise BlockError(
                f"block {schema.block!r}: the request says {field} {asked!r}, the block has {is_so!r}",
                remedy="ask with a new request, made from what the datasite publishes",
            )


def schema_text(schema: BlockSchema) -> str:
    """The schema as canonical JSON."""
    return encode_record(schema).decode()


def parse_schema(text: str) -> BlockSchema:
    """The schema of this JSON text; BlockError naming a field that is unknown, missing or mistyped."""
    return decode_record(text.encode(), BlockSchema, BlockError)


def published_rows(rows: int, k: int = SMALLEST_GROUP) -> int:
    """The row count rounded up to two significant digits (to the next ten below 100), at least k."""
    unit = int(10 ** max(1, len(str(rows)) - 2))
    return max(k, -(-rows // unit) * unit)


def coarse(value: float, digits: int = 2) -> float:
    """The value rounded to so many significant digits."""
    return float(f"{value:.{digits}g}") + 0.0


def coarse_days(days: float) -> float:
    """Days since 1970-01-01 rounded to a multiple of 100: as coarse in any year."""
    return 100.0 * round(days / 100)


def rounded_share(part: int, whole: int) -> float:
    """part / whole as a multiple of 0.05."""
    return round(round(20 * part / whole) / 20, 2) if whole else 0.0


def public_column(column: Column, k: int = SMALLEST_GROUP) -> PublicColumn:
    """What may be told of a column."""
    if isinstance(column, CategoricalColumn):
        return _public_levels(column, k)
    return _public_numbers(column, k)


def split_shares(split: NDArray[np.uint8]) -> tuple[SplitShare, ...]:
    """The shares of train, validation and test."""
    counts = np.bincount(split, minlength=len(Split))
    return tuple(
        SplitShare(split=kind.name.lower(), share=rounded_share(int(counts[kind]), len(split)))
        for kind in Split
    )


def _public_levels(column: CategoricalColumn, k: int) -> PublicColumn:
    counts = np.bincount(column.codes + 1, minlength=len(column.levels) + 1)
    absent, counts = int(counts[0]), counts[1:]
    shown = [
        level
        for level, count in zip(column.levels, counts, strict=True)
        if count >= k and level.isprintable()
    ]
    return PublicColumn(
        name=column.name,
        kind=ColumnKind.CATEGORICAL,
        dtype="text",
        levels=tuple(shown),
        other_levels=len(shown) < len(column.levels),
        quantiles=(),
        whole_numbers=False,
        missing_share=_missing_share(absent, len(column.codes), k),
    )


def _public_numbers(column: NumericColumn, k: int) -> PublicColumn:
    values = column.values[~np.isnan(column.values)]
    shares = [share for share in QUANTILES if len(values) * min(share, 1 - share) >= k]
    points = np.quantile(np.clip(values, -LARGEST, LARGEST), shares).tolist() if shares else []
    dates = isinstance(column, DateColumn)
    return PublicColumn(
        name=column.name,
        kind=ColumnKind.DATE if dates else ColumnKind.NUMERIC,
        dtype="date" if dates else "float64",
        levels=(),
        other_levels=False,
        quantiles=tuple(
            PublicQuantile(share=share, value=coarse_days(float(point)) if dates else coarse(float(point)))
            for share, point in zip(shares, points, strict=True)
            if math.isfinite(point)
        ),
        whole_numbers=bool(len(values) and np.all(values == np.trunc(values))),
        missing_share=_missing_share(len(column.values) - len(values), len(column.values), k),
    )


def _missing_share(absent: int, rows: int, k: int) -> float:
    return rounded_share(absent, rows) if absent >= k else 0.0
