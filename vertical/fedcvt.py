"""One FedCVT step as a pure, differentiable function of tensors; it never sees a message or a party's features.

Shapes: n aligned, a active-only, p passive-only rows of this step, k classes.
FedCVT (arXiv 2008.10838).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vertical.choices import PseudoWeighting
from vertical.config import FedCVTConfig
from vertical.encoders import Representation
from vertical.heads import HeadLogits, Heads
from vertical.losses import cross_entropy, difference, similarity
from vertical.views import Memory, fill_active, fill_passive, with_live_rows
from vertical.vote import Vote, vote


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepViews:
    """What the encoders gave for one step's rows; any group may have zero rows.

    active_aligned, passive_aligned: n rows, the same people. active_alone: a rows. passive_alone: p rows.
    rows int64 (n,): positions of the aligned rows among all aligned training rows.
    """

    active_aligned: Representation
    active_alone: Representation
    passive_aligned: Representation
    passive_alone: Representation
    rows: Tensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepLabels:
    """Class codes of the active party's rows: aligned int64 (n,), alone int64 (a,), -1 where missing."""

    aligned: Tensor
    alone: Tensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Objective:
    """The joint loss of a step.

    total: differentiable scalar. terms: the value of each unweighted term. accepted of candidates: pseudo
    labels that trained in this step. passive_vote: the vote on the p passive-only rows.
    """

    total: Tensor
    terms: dict[str, float]
    accepted: int
    candidates: int
    passive_vote: Vote


def objective(
    config: FedCVTConfig,
    heads: Heads,
    views: StepViews,
    memory: Memory,
    labels: StepLabels,
    *,
    step: int,
    class_weights: Tensor | None = None,
    temperatures: Tensor | None = None,
) -> Objective:
    """The joint loss of `step` (from 0).

    `CE_AB + CE_A + CE_B + l1 L_diff^AB + l2 L_diff^A + l3 L_diff^B + l4 L_sim^A + l5 L_sim^B`

    Rows without a true label (passive-only ones, and rows of the active party whose label is missing (ours))
    are the candidates of the vote; accepted ones train the joint head, from step `pseudo_from` on.
    `temperatures` (3, 3), by situation and head, calibrate the vote and nothing else.
    Empty groups give the baselines: without alone rows f^AB is the aligned-only model; without aligned rows
    and fill f^A is the active party alone.
    """
    keys = memory
    if config.live_keys:
        keys = with_live_rows(memory, views.active_aligned, views.passive_aligned, views.rows)
    active, passive = _complete_views(config, views, keys)  # n + a + p rows, as everything below
    logits = heads(active, passive)
    groups = _Groups.of(config, views, labels)
    ramp = pseudo_weight(config, step)
    ballot = vote(_calibrated(logits, views, temperatures), config.thresholds)
    ballot = Vote(ballot.label, ballot.accepted & groups.candidates & (ramp > 0.0))
    terms = _classification(config, logits, groups, ballot, ramp, class_weights)
    terms |= _agreement(config, views, keys)
    factors = config.term_weights
    total = torch.stack([factors.get(name, 1.0) * term for name, term in terms.items()]).sum()
    alone = slice(len(groups.true) - views.passive_alone.rows, None)
    return Objective(
        total=total,
        terms={name: float(term.detach()) for name, term in terms.items()},
        accepted=int(ballot.accepted.sum()),
        candidates=int(groups.candidates.sum()),
        passive_vote=Vote(ballot.label[alone], ballot.accepted[alone]),
    )


def _calibrated(logits: HeadLogits, views: StepViews, temperatures: Tensor | None) -> HeadLogits:
    """The logits of the aligned, active-only and passive-only rows, each divided by its situation's temperature."""
    if temperatures is None:
        return logits
    sizes = (views.rows.shape[0], views.active_alone.rows, views.passive_alone.rows)
    return logits.divided(temperatures.repeat_interleave(torch.tensor(sizes), dim=0))


def pseudo_weight(config: FedCVTConfig, step: int) -> float:
    """Weight in [0, 1] of pseudo labels at `step`: 0 before `pseudo_from`, then growing for `pseudo_ramp`."""
    if not config.pseudo or step < config.pseudo_from:
        return 0.0
    return min(1.0, (step - config.pseudo_from + 1) / (config.pseudo_ramp + 1))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Groups:
    """Which rows train what: true class codes (-1 unknown) and bool masks, all (n + a + p,)."""

    true: Tensor
    joint: Tensor  # true label and both views, one perhaps filled: f^AB
    active: Tensor  # true label: f^A
    passive: Tensor  # true label and the passive party's own view: f^B
    candidates: Tensor  # no label: up for the vote
    passive_view: Tensor  # the passive party's own view is there

    @classmethod
    def of(cls, config: FedCVTConfig, views: StepViews, labels: StepLabels) -> _Groups:
        n, a, p = views.rows.shape[0], views.active_alone.rows, views.passive_alone.rows
        true = torch.cat([labels.aligned, labels.alone, labels.aligned.new_full((p,), -1)])
        row = torch.arange(n + a + p, device=true.device)
        aligned, known = row < n, true >= 0
        usable = aligned | config.fill
        return cls(
            true=true,
            joint=known & usable,
            active=known,
            passive=known & aligned,
            candidates=~known & usable,
            passive_view=aligned | (row >= n + a),
        )


def _complete_views(
    config: FedCVTConfig, views: StepViews, keys: Memory
) -> tuple[Representation, Representation]:
    """Active and passive views of all n + a + p rows, the absent ones filled (zero when the fill is off)."""
    if config.fill:
        passive = fill_passive(views.active_alone, keys, temperature=config.temperature)
        active = fill_active(views.passive_alone, keys, temperature=config.temperature)
    else:
        passive = views.passive_aligned.zeros(views.active_alone.rows)
        active = views.active_aligned.zeros(views.passive_alone.rows)
    return (
        Representation.stack([views.active_aligned, views.active_alone, active]),
        Representation.stack([views.passive_aligned, passive, views.passive_alone]),
    )


def _classification(
    config: FedCVTConfig,
    logits: HeadLogits,
    groups: _Groups,
    ballot: Vote,
    ramp: float,
    class_weights: Tensor | None,
) -> dict[str, Tensor]:
    """The cross-entropies on true labels by head, and on accepted pseudo labels of f^AB and of f^B."""

    def mean(scores: Tensor, codes: Tensor, chosen: Tensor) -> Tensor:
        picked = codes[chosen]
        weights = None if class_weights is None else class_weights[picked]
        return cross_entropy(scores[chosen], picked, weights=weights, smoothing=config.label_smoothing)

    def pair(scores: Tensor, known: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
        accepted = ballot.accepted & candidates
        keep, pseudo = _pseudo_factors(
            config, ramp, int(known.sum()), int(accepted.sum()), int(candidates.sum())
        )
        return keep * mean(scores, groups.true, known), pseudo * mean(scores, ballot.label, accepted)

    joint, pseudo = pair(logits.joint, groups.joint, groups.candidates)
    passive_candidates = groups.candidates & groups.passive_view & config.pseudo_passive
    passive, pseudo_passive = pair(logits.passive, groups.passive, passive_candidates)
    return {
        "joint": joint,
        "active": mean(logits.active, groups.true, groups.active),
        "passive": passive,
        "pseudo": pseudo,
        "pseudo_passive": pseudo_passive,
    }


def _pseudo_factors(
    config: FedCVTConfig, ramp: float, known: int, accepted: int, candidates: int
) -> tuple[float, float]:
    """Factors of the mean loss of truly labelled rows and of accepted rows; see PseudoWeighting."""
    if accepted == 0:
        return 1.0, 0.0
    if config.pseudo_weighting == PseudoWeighting.SHARE:
        return 1.0, ramp * accepted / candidates
    total = known + ramp * accepted
    return known / total, ramp * accepted / total


def _agreement(config: FedCVTConfig, views: StepViews, keys: Memory) -> dict[str, Tensor]:
    """Representation terms: common views agree, fills hit the true view, unique and common views differ."""
    active, passive = views.active_aligned, views.passive_aligned
    fill_a = fill_active(passive, keys, temperature=config.temperature, rows=views.rows)
    fill_b = fill_passive(active, keys, temperature=config.temperature, rows=views.rows)
    all_active = Representation.stack([active, views.active_alone])
    all_passive = Representation.stack([passive, views.passive_alone])
    return {
        "diff_common": difference(active.common, passive.common),
        "diff_active": difference(fill_a.joined(), active.joined()),
        "diff_passive": difference(fill_b.joined(), passive.joined()),
        "sim_active": similarity(all_active.unique, all_active.common),
        "sim_passive": similarity(all_passive.unique, all_passive.common),
    }
