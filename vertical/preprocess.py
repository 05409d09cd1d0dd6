"""Turns a party's typed columns into numbers for its encoders, by rules fitted on its own training rows.

numpy only and without randomness: equal rows give equal rules. The rules stay at the party; they hold level
names and moments of its columns. Rules by kind of column (ours):

- numeric: infinities count as the far end of the scale; a column with heavy tails is replaced by
  sign(x) log(1 + |x| / unit), where unit is the median size of its non-zero values; then mean 0, deviation 1,
  clipped to +-CLIP. A missing value becomes 0 (the mean) and, where training rows had missing values, sets
  an indicator.
- categorical: a 0/1 feature for each level that training rows have, and one for missing where they had any.
  A level they did not have gives zeros.
- a column (or indicator) that is constant on the training rows gives no feature.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from protocols.errors import BlockError
from vertical.table import CategoricalColumn, Column, NumericColumn, Rows, Table

CLIP = 6.0
"""Bound of a scaled numeric feature, in deviations."""

_HEAVY_SKEW = 3.0
_HEAVY_KURTOSIS = 20.0  # a normal column has 3, an exponential one 9
_HUGE = 1e150  # larger finite values count as this, so that squares stay finite

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class NumericRule:
    """How a numeric column becomes features: `value` and `missing` say which of the two it gives."""

    name: str
    value: bool
    missing: bool
    unit: float  # 0: no logarithm
    mean: float
    deviation: float

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features."""
        return (self.name,) * self.value + (f"{self.name} missing",) * self.missing

    def apply(self, column: Column) -> Floats:
        """Features (rows, 0 to 2) of the column."""
        if not isinstance(column, NumericColumn):
            raise BlockError(f"column {self.name!r}: numeric when the rules were fitted, now categorical")
        absent = np.isnan(column.values)
        parts = []
        if self.value:
            with np.errstate(over="ignore"):
                scaled = (_squash(column.values, self.unit) - self.mean) / self.deviation
            parts.append(np.where(absent, 0.0, np.clip(scaled, -CLIP, CLIP)))
        if self.missing:
            parts.append(absent.astype(np.float64))
        return np.stack(parts, axis=1) if parts else np.zeros((len(absent), 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoricalRule:
    """How a categorical column becomes features: one per level in `levels`, then `missing` if set."""

    name: str
    levels: tuple[str, ...]
    missing: bool

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features."""
        return (
            tuple(f"{self.name} = {level}" for level in self.levels)
            + (f"{self.name} missing",) * self.missing
        )

    def apply(self, column: Column) -> Floats:
        """Features (rows, levels + missing) of the column; levels are matched by name, not by code."""
        if not isinstance(column, CategoricalColumn):
            raise BlockError(f"column {self.name!r}: categorical when the rules were fitted, now numeric")
        width = len(self.features)
        place = {level: index for index, level in enumerate(self.levels)}
        places = [place.get(level, width) for level in column.levels]
        places.append(width - 1 if self.missing else width)  # code -1 picks the last entry
        one_hot = np.eye(width + 1)[:, :width]  # an unknown level: the last row, zeros
        result: Floats = one_hot[np.array(places)[column.codes]]
        return result


Rule = NumericRule | CategoricalRule


@dataclass(frozen=True, slots=True)
class Preprocessor:
    """Fitted rules, one per column in the table's order."""

    rules: tuple[Rule, ...]

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features in order."""
        return tuple(feature for rule in self.rules for feature in rule.features)

    def transform(self, table: Table) -> NDArray[np.float32]:
        """Features float32 (rows, f) of a table with the columns of the fit; always finite."""
        expected = tuple(rule.name for rule in self.rules)
        if table.names != expected:
            raise BlockError(f"columns {table.names}, but the rules were fitted on {expected}")
        parts = [rule.apply(column) for rule, column in zip(self.rules, table.columns, strict=True)]
        return np.concatenate(parts, axis=1).astype(np.float32)

    def to_text(self) -> str:
        """The rules as JSON, for the party's own model folder."""
        return json.dumps([asdict(rule) for rule in self.rules], sort_keys=True, allow_nan=False)

    @classmethod
    def from_text(cls, text: str) -> Preprocessor:
        """The rules of `to_text`."""
        return cls(
            tuple(
                CategoricalRule(**{**entry, "levels": tuple(entry["levels"])})
                if "levels" in entry
                else NumericRule(**entry)
                for entry in json.loads(text)
            )
        )


def fit(table: Table, rows: Rows) -> Preprocessor:
    """Rules fitted on `rows`, int64 indices of the party's training rows; no other row is looked at."""
    if len(rows) == 0:
        raise BlockError("no training rows to fit the preprocessing on")
    training = table.take(rows)
    fitted = Preprocessor(tuple(_fit_column(column) for column in training.columns))
    if not fitted.features:
        raise BlockError(f"every column is constant on the training rows: {', '.join(table.names)}")
    return fitted


def _fit_column(column: Column) -> Rule:
    return _fit_numeric(column) if isinstance(column, NumericColumn) else _fit_categorical(column)


def _fit_numeric(column: NumericColumn) -> NumericRule:
    absent = np.isnan(column.values)
    finite = np.clip(column.values[np.isfinite(column.values)], -_HUGE, _HUGE)
    some_missing = bool(absent.any() and not absent.all())
    if finite.size == 0 or finite.min() == finite.max():
        return NumericRule(
            name=column.name, value=False, missing=some_missing, unit=0.0, mean=0.0, deviation=1.0
        )
    unit = float(np.median(np.abs(finite[finite != 0.0]))) if _heavy(finite) else 0.0
    mean, deviation = _moments(_squash(finite, unit))
    return NumericRule(
        name=column.name, value=True, missing=some_missing, unit=unit, mean=mean, deviation=deviation
    )


def _fit_categorical(column: CategoricalColumn) -> CategoricalRule:
    codes = np.unique(column.codes)
    if len(codes) == 1:
        return CategoricalRule(name=column.name, levels=(), missing=False)
    levels = tuple(column.levels[code] for code in codes if code >= 0)
    return CategoricalRule(name=column.name, levels=levels, missing=bool(codes[0] < 0))


def _squash(values: Floats, unit: float) -> Floats:
    """Values (rows,) as they are for unit 0, else sign(x) log(1 + |x| / unit)."""
    if unit == 0.0:
        return values
    with np.errstate(over="ignore"):
        result: Floats = np.sign(values) * np.log1p(np.abs(values) / unit)
    return result


def _moments(values: Floats) -> tuple[float, float]:
    """Mean and standard deviation of values (rows,) that aren't all equal; the deviation is above 0."""
    middle = float(values.mean())
    reach = float(np.abs(values - middle).max())  # divided out first: squares of tiny numbers would vanish
    return middle, reach * float(np.std((values - middle) / reach))


def _heavy(values: Floats) -> bool:
    """Whether the third or fourth standardised moment says that a few values dominate."""
    middle, deviation = _moments(values)
    z = (values - middle) / deviation
    return bool(abs(np.mean(z**3)) > _HEAVY_SKEW or np.mean(z**4) > _HEAVY_KURTOSIS)
