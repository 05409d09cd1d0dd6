"""FedNova: Wang et al., "Tackling the objective inconsistency problem", arXiv 2007.07481, for local SGD.

Clients that make more local steps pull the mean towards their own optimum. So each change is divided by its client's
number of steps, and the mean of these goes the size-weighted mean number of steps:

    w <- w + tau_eff sum_k p_k (w_k - w) / tau_k,    tau_eff = sum_k p_k tau_k,    p_k = n_k / n

A proximal term mu shrinks what earlier steps contribute by (1 - lr mu) each; the paper's normaliser is then
tau_k = (1 - (1 - lr mu)^K) / (lr mu) for K steps. Equal numbers of steps give the size-weighted mean. Buffers are
averaged by size.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from horizontal.average import Array, Arrays, Contribution, UpdateError, weighted_mean
from horizontal.fedavg import size_weighted_mean

STEPS = "steps"
"""The name of the number of local steps among a client's extras: int64 without dimensions."""


def effective_steps(steps: int, shrink: float) -> float:
    """tau of K steps of SGD whose proximal term shrinks by `shrink` = lr mu a step."""
    return float(steps) if shrink == 0 else (1 - (1 - shrink) ** steps) / shrink


def check_steps(contribution: Contribution) -> None:
    """UpdateError naming a client that has rows but made no step."""
    steps = int(contribution.extras[STEPS])
    if contribution.examples > 0 and steps < 1:
        raise UpdateError(f"{contribution.client}: expected at least 1 local step, came {steps}")


def normalised_mean(
    received: Arrays, contributions: Sequence[Contribution], parameters: Sequence[str], *, shrink: float
) -> dict[str, Array]:
    """The next model, of contributions that passed `check_steps`. Raises as `size_weighted_mean`."""
    mean = size_weighted_mean(contributions)
    trained = [contribution for contribution in contributions if contribution.examples > 0]
    tau = np.array([effective_steps(int(c.extras[STEPS]), shrink) for c in trained])
    share = np.array([c.examples for c in trained]) / sum(c.examples for c in trained)
    effective = float(share @ tau)
    # w + tau_eff sum_k p_k/tau_k (w_k - w): of the weights p_k tau_eff/tau_k, whose sum need not be 1.
    parts = share * effective / tau
    pull = float(parts.sum())
    direction = weighted_mean(trained, list(parts))
    for name in parameters:
        start = received[name].astype(np.float64)
        mean[name] = (start + pull * (direction[name].astype(np.float64) - start)).astype(
            received[name].dtype
        )
    return mean
