"""How columns that are the pixels of an image become features, fitted on a party's own training rows. numpy only.

All pixels get one common mean and deviation, so that neighbours stay comparable, and a pixel that is constant keeps its
place: the convolutions of an image encoder need the geometry. Values are clipped to +-CLIP, infinities count as the far
end. A missing pixel becomes 0 (the mean); it has no indicator, which would be no pixel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from protocols.errors import BlockError
from vertical.numeric_rule import Floats, bounded, moments, standardised
from vertical.table import Column, NumericColumn, Table


@dataclass(frozen=True, slots=True, kw_only=True)
class PixelRule:
    """One scale for all the columns of an image, `names` row by row."""

    names: tuple[str, ...]
    centre: float
    spread: float

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        return self.names

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features: of each pixel."""
        return self.names

    def apply(self, columns: Sequence[Column]) -> Floats:
        """Features (rows, pixels)."""
        values = standardised(_values(columns), self.centre, self.spread)
        return np.where(np.isnan(values), 0.0, values)


def fit_pixels(training: Table, image: tuple[int, int]) -> PixelRule:
    """The rule of a table that holds training rows only; BlockError if its columns aren't `image`, height and width."""
    height, width = image
    if len(training.columns) != height * width:
        raise BlockError(
            f"{len(training.columns)} columns are no image of {height}x{width} = {height * width} pixels",
            remedy="ask for all its columns, row by row, or leave image_active or image_passive empty",
        )
    values = _values(training.columns)
    finite = bounded(values[np.isfinite(values)])
    if finite.size == 0 or finite.min() == finite.max():
        raise BlockError("every pixel has the same value on the training rows")
    centre, spread = moments(finite)
    return PixelRule(names=training.names, centre=centre, spread=spread)


def _values(columns: Sequence[Column]) -> Floats:
    numeric = [column.values for column in columns if isinstance(column, NumericColumn)]
    if len(numeric) < len(columns):
        count = len(columns) - len(numeric)
        raise BlockError(f"{count} of {len(columns)} columns of an image are categorical, pixels are numbers")
    return np.stack(numeric, axis=1)
