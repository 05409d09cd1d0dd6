"""How a numeric column becomes features, fitted on a party's own training rows. numpy only.

A value is first laid on a scale without heavy tails, then gets mean 0 and deviation 1, and is clipped to +-CLIP.
Ways of `Scaling` (ours):

- "standard" takes the value as it is;
- "auto" replaces it, where the column has heavy tails, by sign(x) log(1 + |x| / unit), where unit is the median size of
  its non-zero values (dates have no zero: for them "auto" is then "robust");
- "quantile" replaces it by the normal score of its rank among the training rows, linear between at most KNOTS of them;
- "robust" takes the value as it is, but centres on the median and divides by the distance of the quartiles.

Beside it stand 0/1 features "at least this much" for a few cuts (ours): with them a linear model can follow any shape,
such as the income of middle age or the capital gain that only some people have. The cuts are quantiles of the training
rows; where more than half of them are equal, of the others; all steps of a column with few values; none with two. A cut
lies halfway below its quantile: it parts the same rows, and a stored rule holds no person's value.

Infinities count as the far end of the scale. A missing value becomes 0 (the centre) and, where training rows had
missing values, sets an indicator. A column or indicator that is constant on the training rows gives no feature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from protocols.errors import BlockError
from vertical.choices import Scaling
from vertical.table import Column, DateColumn, NumericColumn

CLIP = 6.0
"""Bound of a scaled numeric feature, in deviations."""

KNOTS = 256
"""Ranks that a quantile scale remembers: values of so many training people at most stand in the rules."""

_HEAVY_SKEW = 3.0
_HEAVY_KURTOSIS = 20.0  # a normal column has 3, an exponential one 9
_HUGE = 1e150  # larger finite values count as this, so that squares stay finite
_NORMAL_QUARTILES = 2 * NormalDist().inv_cdf(0.75)  # their distance in deviations of a normal column

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class NumericRule:
    """How a numeric column becomes features: `value` and `missing` say which of the two it gives.

    unit: of the logarithm, 0 for none. knots and scores: of the quantile scale, () for none. All tuples are ascending.
    """

    name: str
    value: bool
    missing: bool
    unit: float = 0.0
    knots: tuple[float, ...] = ()
    scores: tuple[float, ...] = ()
    centre: float = 0.0
    spread: float = 1.0
    cuts: tuple[float, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The column it reads."""
        return (self.name,)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features."""
        steps = tuple(f"{self.name} >= {cut:g}" for cut in self.cuts)
        return (self.name,) * self.value + steps + (f"{self.name} missing",) * self.missing

    def apply(self, columns: Sequence[Column]) -> Floats:
        """Features (rows, 0 or more) of the column."""
        (column,) = columns
        if not isinstance(column, NumericColumn):
            raise BlockError(f"column {self.name!r}: numeric when the rules were fitted, now categorical")
        absent = np.isnan(column.values)
        parts = []
        if self.value:
            parts.append(
                np.where(absent, 0.0, standardised(self.lay(column.values), self.centre, self.spread))
            )
        parts += [(column.values >= cut).astype(np.float64) for cut in self.cuts]  # a missing value: 0
        if self.missing:
            parts.append(absent.astype(np.float64))
        return np.stack(parts, axis=1) if parts else np.zeros((len(absent), 0))

    def lay(self, values: Floats) -> Floats:
        """Values (rows,) on the scale without heavy tails."""
        if self.knots:
            return np.interp(values, self.knots, self.scores)
        return squash(values, self.unit)


def fit_numeric(column: NumericColumn, scaling: Scaling, cuts: int) -> NumericRule:
    """The rule of a column that holds training rows only, with at most so many cuts."""
    absent = np.isnan(column.values)
    finite = bounded(column.values[np.isfinite(column.values)])
    missing = bool(absent.any() and not absent.all())
    if finite.size == 0 or finite.min() == finite.max():
        return NumericRule(name=column.name, value=False, missing=missing)
    unit, knots, scores = 0.0, tuple[float, ...](), tuple[float, ...]()
    centre, spread = moments(finite)
    heavy = scaling == Scaling.AUTO and _heavy(finite)
    dates = isinstance(column, DateColumn)
    if heavy and not dates:
        unit = float(np.median(np.abs(finite[finite != 0.0])))
        centre, spread = moments(squash(finite, unit))
    elif scaling == Scaling.QUANTILE:
        knots, scores = _ranks(finite)
        centre, spread = moments(np.interp(finite, knots, scores))
    elif scaling == Scaling.ROBUST or heavy:
        low, centre, high = np.quantile(finite, (0.25, 0.5, 0.75)).tolist()
        spread = (high - low) / _NORMAL_QUARTILES or spread  # half the rows may be equal
    return NumericRule(
        name=column.name,
        value=True,
        missing=missing,
        unit=unit,
        knots=knots,
        scores=scores,
        centre=centre,
        spread=spread,
        cuts=_cuts(finite, cuts),
    )


def bounded(values: Floats) -> Floats:
    """Finite values of any size, cut to where squares stay finite."""
    return np.clip(values, -_HUGE, _HUGE)


def squash(values: Floats, unit: float) -> Floats:
    """Values (rows,) as they are for unit 0, else sign(x) log(1 + |x| / unit)."""
    if unit == 0.0:
        return values
    with np.errstate(over="ignore"):
        result: Floats = np.sign(values) * np.log1p(np.abs(values) / unit)
    return result


def standardised(values: Floats, centre: float, spread: float) -> Floats:
    """Values less the centre, in spreads, clipped to +-CLIP; NaN stays NaN."""
    with np.errstate(over="ignore"):
        return np.clip((values - centre) / spread, -CLIP, CLIP)


def moments(values: Floats) -> tuple[float, float]:
    """Mean and standard deviation of values that aren't all equal; the deviation is above 0."""
    middle = float(values.mean())
    reach = float(np.abs(values - middle).max())  # divided out first: squares of tiny numbers would vanish
    return middle, reach * float(np.std((values - middle) / reach))


def _heavy(values: Floats) -> bool:
    """Whether the third or fourth standardised moment says that a few values dominate."""
    middle, deviation = moments(values)
    z = (values - middle) / deviation
    return bool(abs(np.mean(z**3)) > _HEAVY_SKEW or np.mean(z**4) > _HEAVY_KURTOSIS)


def _ranks(values: Floats) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Distinct values, ascending, and the normal scores of their mean ranks; of many, KNOTS evenly by rank."""
    distinct, counts = np.unique(values, return_counts=True)
    share = (np.cumsum(counts) - counts / 2) / len(values)  # strictly between 0 and 1
    wanted = np.linspace(share[0], share[-1], KNOTS)
    kept = np.unique(np.searchsorted(share, wanted)) if len(distinct) > KNOTS else np.arange(len(distinct))
    scores = tuple(map(NormalDist().inv_cdf, share[kept].tolist()))
    return tuple(distinct[kept].tolist()), scores


def _cuts(values: Floats, count: int) -> tuple[float, ...]:
    """Ascending bounds that part finite values (rows,), which aren't all equal, in groups of similar size."""
    distinct, sizes = np.unique(values, return_counts=True)
    if count == 0 or len(distinct) == 2:  # two values: the scaled value says it all
        return ()
    if len(distinct) <= count + 1:
        steps = np.arange(1, len(distinct))
    else:
        most = sizes.argmax()
        parted = values if sizes[most] * 2 <= len(values) else values[values != distinct[most]]
        chosen = np.quantile(parted, np.linspace(0.0, 1.0, count, endpoint=False), method="lower")
        steps = np.searchsorted(distinct, np.unique(chosen[chosen > distinct[0]]))
    return tuple(np.unique(distinct[steps - 1] / 2 + distinct[steps] / 2).tolist())
