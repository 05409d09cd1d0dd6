"""How a categorical column becomes features, fitted on a party's own training rows. numpy only.

A 0/1 feature for each level that at least `LEAST_ROWS` training rows have, and one for missing where as many had none.
Any other level gives zeros: what a single row says of a level is noise for others (a column of names or remarks would
have a feature for each person), and a model's file needn't hold it. A column that is constant on the training rows
gives no feature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from protocols.errors import BlockError
from vertical.numeric_rule import Floats
from vertical.table import CategoricalColumn, Column

LEAST_ROWS = 2
"""Training rows that a level must have to get a feature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoricalRule:
    """How a categorical column becomes features: one per level in `levels`, then `missing` if set."""

    name: str
    levels: tuple[str, ...]
    missing: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """The column it reads."""
        return (self.name,)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features."""
        named = tuple(f"{self.name} = {level}" for level in self.levels)
        return named + (f"{self.name} missing",) * self.missing

    def apply(self, columns: Sequence[Column]) -> Floats:
        """Features (rows, levels + missing) of the column; levels are matched by name, not by code."""
        (column,) = columns
        if not isinstance(column, CategoricalColumn):
            raise BlockError(f"column {self.name!r}: categorical when the rules were fitted, now numeric")
        width = len(self.features)
        place = {level: index for index, level in enumerate(self.levels)}
        places = [place.get(level, width) for level in column.levels]
        places.append(width - 1 if self.missing else width)  # code -1 picks the last entry
        one_hot = np.eye(width + 1)[:, :width]  # an unknown level: the last row, zeros
        result: Floats = one_hot[np.array(places)[column.codes]]
        return result


def fit_categorical(column: CategoricalColumn) -> CategoricalRule:
    """The rule of a column that holds training rows only."""
    found, counts = np.unique(column.codes, return_counts=True)
    codes = found[counts >= LEAST_ROWS] if len(found) > 1 else found[:0]
    levels = tuple(column.levels[code] for code in codes if code >= 0)
    return CategoricalRule(name=column.name, levels=levels, missing=bool((codes < 0).any()))
