"""Turns a party's typed columns into numbers for its encoders, by rules fitted on its own training rows.

numpy only and without randomness: equal rows give equal rules. The rules stay at the party; they hold level names,
moments and some values of its columns. The modules of the rules say what becomes of which column.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from protocols.errors import BlockError
from vertical.categorical_rule import CategoricalRule, fit_categorical
from vertical.choices import Scaling
from vertical.numeric_rule import NumericRule, fit_numeric
from vertical.pixel_rule import PixelRule, fit_pixels
from vertical.table import Column, NumericColumn, Rows, Table

Rule = NumericRule | CategoricalRule | PixelRule
_KINDS: dict[str, type[Rule]] = {
    "numeric": NumericRule,
    "categorical": CategoricalRule,
    "pixels": PixelRule,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


@dataclass(frozen=True, slots=True)
class Preprocessor:
    """Fitted rules, which together read the table's columns in its order."""

    rules: tuple[Rule, ...]

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features in order."""
        return tuple(feature for rule in self.rules for feature in rule.features)

    def transform(self, table: Table) -> NDArray[np.float32]:
        """Features float32 (rows, f) of a table with the columns of the fit; always finite."""
        expected = tuple(name for rule in self.rules for name in rule.columns)
        if table.names != expected:
            raise BlockError(f"columns {table.names}, but the rules were fitted on {expected}")
        parts, start = [], 0
        for rule in self.rules:
            end = start + len(rule.columns)
            parts.append(rule.apply(table.columns[start:end]).astype(np.float32))
            start = end
        return np.concatenate(parts, axis=1)

    def to_text(self) -> str:
        """The rules as JSON, for the party's own model folder."""
        rules = [{"kind": _NAMES[type(rule)], **asdict(rule)} for rule in self.rules]
        return json.dumps(rules, sort_keys=True, allow_nan=False)

    @classmethod
    def from_text(cls, text: str) -> Preprocessor:
        """The rules of `to_text`; BlockError for any other text."""
        try:
            return cls(tuple(_rule(dict(entry)) for entry in json.loads(text)))
        except (KeyError, TypeError, ValueError):  # their messages would quote the text
            raise BlockError("the preprocessing rules of this model are not readable") from None


def _rule(entry: dict[str, object]) -> Rule:
    kind = _KINDS[str(entry.pop("kind"))]
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}
    return kind(**values)  # type: ignore[arg-type]  # a text of `to_text` has the right types


def fit(
    table: Table,
    rows: Rows,
    scaling: Scaling = Scaling.AUTO,
    image: tuple[int, int] | None = None,
    *,
    cuts: int = 0,
) -> Preprocessor:
    """Rules fitted on `rows`, int64 indices of the party's training rows; no other row is looked at.

    `image` is the height and width of the image that all columns are together, row by row; None if they are none.
    `cuts` is the number of 0/1 features at most beside a numeric column's scaled value.
    """
    if len(rows) == 0:
        raise BlockError("no training rows to fit the preprocessing on")
    training = table.take(rows)
    if image is not None:
        return Preprocessor((fit_pixels(training, image),))
    fitted = Preprocessor(tuple(_fit_column(column, scaling, cuts) for column in training.columns))
    if not fitted.features:
        raise BlockError(
            f"every column is constant on the training rows, or of texts that one row has: {', '.join(table.names)}",
            remedy="add a column in which people differ",
        )
    return fitted


def _fit_column(column: Column, scaling: Scaling, cuts: int) -> Rule:
    if isinstance(column, NumericColumn):
        return fit_numeric(column, scaling, cuts)
    return fit_categorical(column)
