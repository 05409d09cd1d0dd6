"""Pools the experts of one situation into one prediction that is about as good as the best of them.

A linear opinion pool of calibrated experts, p = sum_m w_m softmax(logits_m / T_m), with T_m and w from held-out
rows. numpy in float64. Shapes: n held-out rows, m rows to predict, k classes, e experts.

The weights maximise the held-out likelihood under a Dirichlet prior (stacking of densities) worth `PRIOR_ROWS` rows.
Its mean is the weight stated in advance times how plausible it is, by a paired test on the same rows, that the expert
is as good as the best one (ours). Where the likelihood is flat, as with a rare class, it's this that keeps a worse
expert from spoiling the pool; where it isn't, it decides alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from vertical.calibration import fit_temperature, log_probabilities
from vertical.linear import Floats, Integers

PRIOR_ROWS = 3.0
"""How many rows the prior of the weights is worth.

Compared on validation people of the benchmarks' data sets, 1 to 100 rows: more than 3 hold back an expert that is far
ahead when aligned people are few (the network on 50 aligned digits), fewer give up some of what pooling wins.
"""

_ROUNDS = 1000
_STEP = 1e-8  # change of every weight at which the search is done


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mixture:
    """The experts' names, and the temperature (e,) and weight (e,) of each; weights sum to 1."""

    names: tuple[str, ...]
    temperatures: Floats
    weights: Floats

    def by_name(self) -> dict[str, float]:
        """The weights by expert."""
        return dict(zip(self.names, self.weights.tolist(), strict=True))

    def log_probabilities(self, logits: Mapping[str, Floats]) -> Floats:
        """Log-probabilities (m, k) from every expert's logits (m, k)."""
        parts = [
            np.log(weight) + log_probabilities(logits[name], temperature)
            for name, temperature, weight in zip(self.names, self.temperatures, self.weights, strict=True)
            if weight > 0.0
        ]
        result: Floats = np.logaddexp.reduce(np.stack(parts), axis=0)
        return result

    def pack(self, prefix: str) -> dict[str, NDArray[np.generic]]:
        """The mixture as arrays by dotted name."""
        return {
            f"{prefix}.names": np.frombuffer(json.dumps(self.names).encode(), dtype=np.uint8),
            f"{prefix}.temperatures": self.temperatures,
            f"{prefix}.weights": self.weights,
        }

    @classmethod
    def unpack(cls, prefix: str, state: Mapping[str, NDArray[np.generic]]) -> Mixture:
        """The mixture of `pack`; ValueError for what can't be one."""
        mixture = cls(
            names=tuple(json.loads(state[f"{prefix}.names"].tobytes().decode())),
            temperatures=state[f"{prefix}.temperatures"].astype(np.float64),
            weights=state[f"{prefix}.weights"].astype(np.float64),
        )
        if not mixture.temperatures.shape == mixture.weights.shape == (len(mixture.names),):
            raise ValueError("not one temperature and weight for each expert")
        if not (np.all(mixture.temperatures > 0) and np.all(mixture.weights >= 0)):
            raise ValueError("a temperature or a weight below 0")
        if not np.isclose(mixture.weights.sum(), 1.0):
            raise ValueError("the weights don't sum to 1")
        return mixture


def fixed_mixture(prior: Mapping[str, float]) -> Mixture:
    """The mixture without held-out rows: the weights stated in advance, scaled to sum 1, and no temperature."""
    weights = np.array(list(prior.values()), dtype=np.float64)
    return Mixture(names=tuple(prior), temperatures=np.ones(len(prior)), weights=weights / weights.sum())


def fit_mixture(
    held_out: Mapping[str, Floats],
    labels: Integers,
    prior: Mapping[str, float],
    *,
    prior_rows: float = PRIOR_ROWS,
) -> Mixture:
    """The mixture for the experts' held-out logits (n, k) and class codes (n,), -1 where unknown.

    `prior` names the experts and their weights stated in advance.
    """
    stated = fixed_mixture(prior)
    known = labels >= 0
    temperatures = np.array([fit_temperature(held_out[name], labels) for name in stated.names])
    chances = [
        log_probabilities(held_out[name][known], temperature)[np.arange(known.sum()), labels[known]]
        for name, temperature in zip(stated.names, temperatures, strict=True)
    ]
    told = np.stack(chances, axis=1)
    mean = stated.weights * plausibility(told)
    weights = pool_weights(told, mean / mean.sum(), prior_rows)
    return Mixture(names=stated.names, temperatures=temperatures, weights=weights)


def pool_weights(chances: Floats, prior: Floats, prior_rows: float) -> Floats:
    """The w (e,) on the simplex that maximises sum_i log sum_m w_m e^chances_im + prior_rows * sum_m prior_m log w_m.

    chances (n, e): the log-probability that each expert gave to the class that came true; prior (e,), of sum 1.
    By expectation maximisation (Dempster, Laird, Rubin 1977); the problem is concave. Without rows, the prior.
    """
    if len(chances) == 0:
        return prior
    likelihood = np.exp(chances - chances.max(axis=1, keepdims=True))
    weights = np.full(len(prior), 1.0 / len(prior))
    for _ in range(_ROUNDS):
        share = weights * likelihood
        share /= share.sum(axis=1, keepdims=True)
        new: Floats = (share.sum(axis=0) + prior_rows * prior) / (len(chances) + prior_rows)
        step, weights = np.abs(new - weights).max(), new
        if step < _STEP:
            break
    return weights


def plausibility(chances: Floats) -> Floats:
    """How plausible it is that each expert (e,) is as good as the best one on these rows, in [0, 1]; the best has 1.

    chances (n, e) as for `pool_weights`. Two-sided p-value of a paired normal test of equal mean log-probability.
    """
    n = len(chances)
    if n < 2:
        return np.ones(chances.shape[1])
    gaps = chances[:, [chances.mean(axis=0).argmax()]] - chances
    error = gaps.std(axis=0, ddof=1) / np.sqrt(n)
    with np.errstate(divide="ignore", invalid="ignore"):
        result: Floats = np.where(
            error > 0.0, 2.0 * ndtr(-gaps.mean(axis=0) / error), gaps.mean(axis=0) <= 0.0
        )
    return result
