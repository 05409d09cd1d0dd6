"""Logistic regression with a ridge penalty, its strength chosen on held-out rows; numpy and scipy in float64.

The linear experts of the active party are made of it. Shapes: n rows, f features, k classes.

With x the centred features, y the class and o a given offset, the fit minimises

    sum_i v_i CE(y_i, o_i + x_i W + b) + (1 / k) sum_c CE(c, b) + |W|^2 / (2 C)

over W (f, k) and b (k,), for a strength C. Two classes have one logit: column 0 of W and b is zero. The middle
term (ours) is one row at the centre, spread over the classes: it keeps b finite when a class has no row, or when
there are no rows at all. The minimum is unique (b up to a constant for k > 2), so the result depends on no start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

STRENGTHS = tuple(10.0**power for power in (-4.0, -3.0, -2.0, -1.5, -1.0, -0.5, 0.0, 1.0))
"""Values of C to choose from, the strongest penalty first."""

_ITERATIONS = 500
_SLOPE = 1e-6  # largest entry of the mean loss's gradient at which a fit is done
_ROUGH = 1e-4  # the same while strengths are compared: losses then differ in the fourth digit
_PATIENCE = 2  # strengths in a row without a lower loss that end the comparison: weak penalties take longest


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinearModel:
    """Logits that are linear in the features: centre (f,), weights (f, k), bias (k,)."""

    centre: Floats
    weights: Floats
    bias: Floats

    def logits(self, features: Floats, offsets: Floats | None = None) -> Floats:
        """Logits (m, k) of features (m, f), on top of offsets (m, k)."""
        own: Floats = (features - self.centre) @ self.weights + self.bias
        return own if offsets is None else own + offsets

    def pack(self, prefix: str) -> dict[str, NDArray[np.generic]]:
        """The model as arrays by dotted name."""
        return {f"{prefix}.{name}": getattr(self, name) for name in ("centre", "weights", "bias")}

    @classmethod
    def unpack(cls, prefix: str, state: Mapping[str, NDArray[np.generic]]) -> LinearModel:
        """The model of `pack`; ValueError for arrays that don't fit together."""
        names = ("centre", "weights", "bias")
        model = cls(**{name: state[f"{prefix}.{name}"].astype(np.float64) for name in names})
        if model.weights.shape != (*model.centre.shape, *model.bias.shape):
            raise ValueError("weights of other features or classes")
        return model


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChosenModel:
    """A model whose strength was chosen on held-out rows.

    losses: mean held-out cross-entropy of each strength tried, NaN without a labelled held-out row.
    held_out (n, k): logits of each row from the model fitted without its fold, at the chosen strength.
    """

    model: LinearModel
    strength: float
    losses: tuple[float, ...]
    held_out: Floats


def choose(
    features: Floats,
    labels: Integers,
    classes: int,
    folds: Integers,
    *,
    strengths: Sequence[float] = STRENGTHS,
    class_weights: Floats | None = None,
    offsets: Floats | None = None,
) -> ChosenModel:
    """The model at the strength with the least held-out loss (the smallest C of equal ones), fitted on all rows.

    Features (n, f) and class codes (n,); rows with code -1 don't count. folds (n,): each row is predicted by the fit
    without the rows of its fold. `strengths` rise. class_weights (k,): v_i by class, 1 by default. offsets (n, k): o_i.
    The centre is that of all rows given: it knows no label.
    """
    problem = _Problem.of(features, labels, classes, class_weights, offsets)
    names = np.unique(folds)
    solutions = [problem.start() for _ in names]
    tried: list[Floats] = []
    losses: list[float] = []
    for strength in strengths:
        logits = np.zeros((len(labels), classes))
        for index, fold in enumerate(names):
            solutions[index] = problem.minimise(
                problem.known & (folds != fold), strength, solutions[index], slope=_ROUGH
            )
            logits[folds == fold] = problem.logits(solutions[index])[folds == fold]
        tried.append(logits)
        losses.append(mean_loss(logits, labels))
        if len(losses) - 1 - int(np.argmin(losses)) == _PATIENCE:
            break
    best = int(np.argmin(losses))
    theta = problem.start()
    for strength in strengths[: best + 1]:
        theta = problem.minimise(problem.known, strength, theta)
    return ChosenModel(
        model=problem.model(theta), strength=strengths[best], losses=tuple(losses), held_out=tried[best]
    )


def mean_loss(logits: Floats, labels: Integers) -> float:
    """Mean cross-entropy of logits (n, k) on the rows with a label; NaN if there are none."""
    known = labels >= 0
    if not known.any():
        return float("nan")
    chosen = np.take_along_axis(logits[known], labels[known, None], axis=1)[:, 0]
    return float(np.mean(logsumexp(logits[known], axis=1) - chosen))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Problem:
    """One regression in coordinates (n, r) that are quick to fit in.

    The penalty is the same in any rotation of the columns, so with f > n the n columns of a rotation that holds
    all rows are enough: back (f, r) turns weights in them into weights of the features.
    A solution theta is (r + 1, c): weights and bias of the c free logits (1 for two classes, else k).
    """

    coordinates: Floats
    back: Floats
    centre: Floats
    truth: Floats  # (n, k) rows of the identity, any where the label is unknown
    known: NDArray[np.bool_]
    row_weights: Floats
    offsets: Floats

    @classmethod
    def of(
        cls,
        features: Floats,
        labels: Integers,
        classes: int,
        class_weights: Floats | None,
        offsets: Floats | None,
    ) -> _Problem:
        n, f = features.shape
        centre: Floats = features.mean(axis=0) if n else np.zeros(f)
        coordinates, back = features - centre, np.eye(f)
        if f > n:
            back = np.linalg.svd(coordinates, full_matrices=False)[2].T.astype(np.float64)  # (f, n)
            coordinates = coordinates @ back
        return cls(
            coordinates=coordinates,
            back=back,
            centre=centre,
            truth=np.eye(classes)[labels],
            known=labels >= 0,
            row_weights=np.ones(n) if class_weights is None else class_weights[labels],
            offsets=np.zeros((n, classes)) if offsets is None else offsets,
        )

    @property
    def classes(self) -> int:
        return self.truth.shape[1]

    @property
    def free(self) -> slice:
        """The free logits: of one or two classes the first is zero."""
        return slice(1 if self.classes <= 2 else 0, None)

    def start(self) -> Floats:
        """The solution without any row."""
        return np.zeros((self.coordinates.shape[1] + 1, self.classes - self.free.start))

    def minimise(
        self, rows: NDArray[np.bool_], strength: float, start: Floats, *, slope: float = _SLOPE
    ) -> Floats:
        """The solution on `rows`, searched from `start` until the mean loss has no slope above `slope`."""
        k = self.classes
        x = np.vstack([self.coordinates[rows], np.zeros((k, self.coordinates.shape[1]))])
        truth = np.vstack(
            [self.truth[rows], np.eye(k)]
        )  # k last rows: the one at the centre, spread over the classes
        weights = np.append(self.row_weights[rows], np.full(k, 1.0 / k))
        offsets = np.vstack([self.offsets[rows], np.zeros((k, k))])

        def loss(flat: Floats) -> tuple[float, Floats]:
            theta = flat.reshape(start.shape)
            logits = offsets + self._all_logits(x @ theta[:-1] + theta[-1])
            total, chance = _log_sum_and_softmax(logits)
            value = weights @ (total - (truth * logits).sum(axis=1)) + (theta[:-1] ** 2).sum() / (
                2 * strength
            )
            residual = weights[:, None] * (chance - truth)[:, self.free]
            gradient = np.vstack([x.T @ residual + theta[:-1] / strength, residual.sum(axis=0)])
            return float(value) / len(x), gradient.ravel() / len(x)

        if start.size == 0:
            return start
        options = {"maxiter": _ITERATIONS, "gtol": slope, "ftol": 1e-12}
        found = minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options=options)
        solution: Floats = found.x.reshape(start.shape)
        return solution

    def logits(self, theta: Floats) -> Floats:
        """Logits (n, k) of all rows."""
        return self.offsets + self._all_logits(self.coordinates @ theta[:-1] + theta[-1])

    def model(self, theta: Floats) -> LinearModel:
        """The solution in terms of the features."""
        full = self._all_logits(theta)
        return LinearModel(centre=self.centre, weights=self.back @ full[:-1], bias=full[-1])

    def _all_logits(self, free: Floats) -> Floats:
        return np.hstack([np.zeros((len(free), self.free.start)), free])


def _log_sum_and_softmax(logits: Floats) -> tuple[Floats, Floats]:
    """log sum exp (m,) and softmax (m, k) of logits (m, k)."""
    top = logits.max(axis=1)
    chance = np.exp(logits - top[:, None])
    total = chance.sum(axis=1)
    chance /= total[:, None]
    return top + np.log(total), chance
