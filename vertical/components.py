"""Principal components of one party's scaled features: all that linear experts need of the passive party.

They know no label. Shapes: m rows, f features, r components.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vertical.linear import Floats

Numbers: TypeAlias = NDArray[np.float32] | Floats

_RANK = 1e-6  # a deviation below this share of the largest counts as zero
_ROUNDING = 1e-12  # so does one below this share of the largest entry


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Components:
    """A fitted projection: centre (f,), axes (f, r) with orthonormal columns, the one of most variance first."""

    centre: Floats
    axes: Floats

    @property
    def width(self) -> int:
        """Number r of components."""
        return self.axes.shape[1]

    def transform(self, features: Numbers) -> Floats:
        """Components (m, r) of features (m, f), in the units of the features."""
        result: Floats = (features.astype(np.float64) - self.centre) @ self.axes
        return result

    def padded(self, features: NDArray[np.float32], width: int) -> NDArray[np.float32]:
        """Components (m, width) as they are sent: zero columns beyond those there are."""
        result = np.zeros((len(features), width), np.float32)
        result[:, : self.width] = self.transform(features)
        return result

    def pack(self, prefix: str) -> dict[str, NDArray[np.generic]]:
        """The projection as arrays by dotted name."""
        return {f"{prefix}.centre": self.centre, f"{prefix}.axes": self.axes}

    @classmethod
    def unpack(cls, prefix: str, state: Mapping[str, NDArray[np.generic]]) -> Components:
        """The projection of `pack`."""
        return cls(
            centre=state[f"{prefix}.centre"].astype(np.float64),
            axes=state[f"{prefix}.axes"].astype(np.float64),
        )


def fit_components(features: Numbers, most: int) -> Components:
    """The leading components of features (m, f), at most `most`, fewer where the rank is lower.

    Each axis has its largest entry (the first of equal ones) above zero, so that equal rows give equal signs.
    """
    wide = features.astype(np.float64)
    m, f = wide.shape
    centre = wide.mean(axis=0) if m else np.zeros(f)
    spread, axes = _axes(wide - centre)
    rounding = _ROUNDING * np.abs(wide).max(initial=0.0) * np.sqrt(m)
    keep = spread > max(_RANK * spread.max(initial=0.0), rounding)
    axes = axes[:, keep][:, :most]
    if axes.size == 0:
        return Components(centre=centre, axes=np.zeros((f, 0)))
    largest = np.abs(axes).argmax(axis=0)
    signs = np.where(np.take_along_axis(axes, largest[None], axis=0) < 0.0, -1.0, 1.0)
    return Components(centre=centre, axes=axes * signs)


def _axes(centred: Floats) -> tuple[Floats, Floats]:
    """Singular values (r,), falling, and right singular vectors (f, r) of rows (m, f)."""
    m, f = centred.shape
    if m == 0 or f == 0:
        return np.zeros(0), np.zeros((f, 0))
    if m > 4 * f:  # the (f, f) triangle of a QR factorisation has the same ones
        centred = np.asarray(np.linalg.qr(centred, mode="r"), dtype=np.float64)
    spread, axes = np.linalg.svd(centred, full_matrices=False)[1:]
    return spread.astype(np.float64), axes.T.astype(np.float64)
