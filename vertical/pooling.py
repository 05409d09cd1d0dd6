"""Fits the experts that need no training together, and the weight of every expert, on held-out people.

All at the active party. Shapes: n aligned, a active-only training rows, k classes, w components.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vertical.ensemble import HEAD_EXPERTS, NETWORK_EXPERT, NETWORK_SITUATIONS, expert_names
from vertical.experts import ExpertRows, HeldOut, LinearExperts, fit_linear_experts
from vertical.folds import Fold, aligned_folds, fold_numbers
from vertical.linear import Floats, Integers
from vertical.losses import class_weights
from vertical.messages import Choice
from vertical.mixture import Mixture, fit_mixture, fixed_mixture
from vertical.own_training import OwnExpert
from vertical.predict import Situation
from vertical.search import Search

OWN_FOLDS = 5
"""Folds from which the linear experts choose their penalty when the run itself has none."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExpertPool:
    """One situation's mixture, with the held-out logits (n, k) by expert and labels (n,), -1 where unknown, behind it.

    The first `aligned` rows are aligned people, the others active-only ones. Without held-out people there are no rows,
    and the weights are those stated in advance: equal ones, or with `folds` off that of the joint head alone.
    """

    mixture: Mixture
    logits: Mapping[str, Floats]
    labels: Integers
    aligned: int = 0


def fit_linear(search: Search, components: NDArray[np.float32]) -> tuple[LinearExperts, HeldOut]:
    """The linear experts, from own features and the passive party's components (n, w) of the aligned training rows."""
    config, features, labels = search.run.config, search.features, search.labels
    n, a, classes = len(features.aligned), len(features.alone), len(labels.classes)
    folds = aligned_folds(search.run.public_seed, n, config.folds)
    weights = class_weights(labels.training(), classes).numpy() if config.class_balance else None
    return fit_linear_experts(
        ExpertRows(
            active_aligned=features.aligned.numpy().astype(np.float64),
            active_alone=features.alone.numpy().astype(np.float64),
            passive_aligned=components.astype(np.float64),
            labels_aligned=labels.aligned.numpy(),
            labels_alone=labels.alone.numpy(),
            folds_aligned=_numbers(folds, n),
            folds_alone=_numbers(search.own, a),
            classes=classes,
            class_weights=None if weights is None else weights.astype(np.float64),
        )
    )


def fit_pools(
    search: Search, choice: Choice, linear: HeldOut, network: OwnExpert | None
) -> dict[Situation, ExpertPool]:
    """The pool of each situation, for the chosen candidate and number of steps; without folds no `network` is asked."""
    n = len(search.labels.aligned)
    held = np.concatenate(
        [np.arange(n), n + search.own_held]
    )  # of the active-only rows those that folds hold out
    experts = {situation: dict(linear[situation]) for situation in Situation}
    alone = experts[Situation.ACTIVE_ONLY]
    experts[Situation.ACTIVE_ONLY] = {name: logits[held] for name, logits in alone.items()}
    if network is not None:
        for situation in NETWORK_SITUATIONS:
            rows = len(search.truth(situation))
            experts[situation][NETWORK_EXPERT] = network.held_out[:rows]
    return {situation: _pool(search, choice, situation, experts[situation]) for situation in Situation}


def _pool(search: Search, choice: Choice, situation: Situation, others: Mapping[str, Floats]) -> ExpertPool:
    """The pool of the heads and the `others`."""
    config, truth = search.run.config, search.truth(situation)
    found = search.found.get((choice.candidate, choice.steps))
    if config.folds == 0:
        return ExpertPool(mixture=fixed_mixture({"joint": 1.0}), logits={}, labels=truth[:0])
    names = expert_names(situation, components=config.linear_views > 0)
    prior = dict.fromkeys(names, 1.0)
    if found is None:
        return ExpertPool(mixture=fixed_mixture(prior), logits={}, labels=truth[:0])
    heads = {name: found.logits(situation, head) for name, head in HEAD_EXPERTS[situation].items()}
    said = np.isfinite(heads["joint"]).all(axis=1)  # a rest that doesn't divide into folds was never held out
    logits = {name: values[said] for name, values in {**heads, **others}.items()}
    return ExpertPool(
        mixture=fit_mixture(logits, truth[said], prior),
        logits=logits,
        labels=truth[said],
        aligned=int(np.count_nonzero(said[: len(search.features.aligned)])),
    )


def _numbers(folds: tuple[Fold, ...], rows: int) -> Integers:
    """The fold of each row, the search's or, without one, an own."""
    return fold_numbers(folds, rows) if folds else np.arange(rows, dtype=np.int64) % OWN_FOLDS
