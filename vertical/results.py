"""What the active party's program leaves: scores, curves, counts for its report; parameters and memory as artifacts.

Shapes: t aligned test rows, q passive-only rows, k classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from protocols.program import Json
from vertical.active_side import ActiveSide, Labels
from vertical.arrays import parameters, to_array
from vertical.encoders import Representation
from vertical.ensemble import OWN_EXPERT, Ensemble, Known, hidden
from vertical.groups import Groups
from vertical.metrics import Scores, evaluate
from vertical.own_network import OwnNetwork
from vertical.predict import Situation
from vertical.table import Rows
from vertical.training import Features
from vertical.vote import Vote

Artifacts = dict[str, NDArray[np.generic]]
BASELINES = {
    "aligned_only": Situation.BOTH,
    "stack": Situation.BOTH,
    "active_alone": Situation.ACTIVE_ONLY,
    "passive_alone": Situation.PASSIVE_ONLY,
}
"""The linear experts, and the situation in which each is reported as a method of its own."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Baselines:
    """What the networks without the other party or without unaligned people add to the outcome."""

    methods: Mapping[str, Json] = field(default_factory=dict)
    curves: Mapping[str, Json] = field(default_factory=dict)
    artifacts: Artifacts = field(default_factory=dict)


def method_scores(ensemble: Ensemble, own: Known, other: Known, labels: Labels) -> dict[str, Json]:
    """Metrics by method and situation on the test rows, of whom both parties know something.

    `fedcvt` is the mixture of all experts, `joint` f^AB alone. The linear experts are the baselines, each in the
    situation that is its own; without components (no columns of the `other` party) there is only the active one.
    """
    found: dict[str, dict[str, Json]] = {"fedcvt": {}}
    for situation in Situation:
        logits = ensemble.expert_logits(*hidden(situation, own, other))
        mixed = ensemble.mixtures[situation].log_probabilities(logits)
        baselines = [name for name, at in BASELINES.items() if at == situation]
        names = ["joint", *(name for name in baselines if other.columns.shape[1] or name == OWN_EXPERT)]
        for name, values in {"fedcvt": mixed, **{name: logits[name] for name in names}}.items():
            found.setdefault(name, {})[situation.value] = scores(values, labels)
    return dict(found)


@torch.no_grad()
def aligned_network_scores(side: ActiveSide, passive: Representation) -> Json:
    """Metrics of the aligned-only network, which can only use both views."""
    logits = side.model.heads.joint_logits(side.test_views(), passive)
    return {Situation.BOTH.value: scores(to_array(logits), side.labels)}


def active_network_scores(network: OwnNetwork, features: Features, labels: Labels) -> Json:
    """Metrics of the active party's own network."""
    return {Situation.ACTIVE_ONLY.value: scores(network.logits(features.test), labels)}


def scores(logits: Scores, labels: Labels) -> Json:
    """Metrics of logits (t, k) of the test rows, with the people they stand on, as the disclosure rules read them.

    Those are the ones with a label, among all test people whose number is released too.
    """
    truth = labels.test.numpy()
    entry = evaluate(logits, truth)
    return {
        "people": entry.rows,
        "within": len(truth),
        "classes": {name: int(np.count_nonzero(truth == code)) for code, name in enumerate(labels.classes)},
        "auc": entry.auc,
        "accuracy": entry.accuracy,
        "balanced_accuracy": entry.balanced_accuracy,
        "majority_rate": entry.majority_rate,
        "reasons": list(entry.reasons),
        "warnings": list(entry.warnings),
    }


def loss_curve(losses: Sequence[float], people: int, people_per_step: int) -> Json:
    """The loss of every step, with the people behind it; a release has means of intervals only."""
    return {"values": list(losses), "people": people, "people_per_value": people_per_step}


def group_sizes(groups: Groups, passive_only: int | None) -> Json:
    """Number of people in each group; the passive party's own only if it told.

    Groups that don't overlap and no total: a sum or difference of two of these tells of no third, smaller group.
    """
    counts: dict[str, Json] = {
        "aligned_train": len(groups.aligned_train),
        "aligned_test": len(groups.aligned_test),
        "active_only": len(groups.alone),
    }
    return counts if passive_only is None else {**counts, "passive_only": passive_only}


def pseudo_report(votes: Mapping[str, Vote], groups: Groups) -> Json:
    """How many people of each group were voted on and accepted; those of the passive-only ones at the top.

    Of this party's own groups only people without a label were: the rest are those with one. Nobody may be in a vote
    twice: the disclosure rules take its rows for people.
    """
    within: dict[str, Json] = {"aligned": len(groups.aligned_train), "active_only": len(groups.alone)}
    counts = {
        group: {
            "people": len(vote.label),
            "accepted": int(vote.accepted.sum()),
            **({"within": within[group]} if group in within else {}),
        }
        for group, vote in votes.items()
    }
    return {**counts.pop("passive_only"), **counts}


def vote_artifacts(votes: Mapping[str, Vote]) -> Artifacts:
    """Final pseudo labels by group: class codes int64 (q,) and accepted bool (q,).

    Those of the passive-only people, in the passive party's order, have no group in their names; those of this party's
    own people without a label stand in the order of their rows in the group.
    """
    found: Artifacts = {}
    for group, vote in votes.items():
        name = "" if group == "passive_only" else f".{group}"
        found[f"pseudo_label{name}"] = vote.label.numpy()
        found[f"pseudo_accepted{name}"] = vote.accepted.numpy()
    return found


def alignment_artifacts(groups: Groups) -> Artifacts:
    """What a party keeps of the alignment for itself: how many people are common, by split and in all.

    None of it is released: beside the groups' sizes, these totals would tell the size of small groups.
    """
    counts = {"common": groups.common, "split_differs": groups.split_differs, **groups.per_split}
    return {f"people.{name}": np.array(count, np.int64) for name, count in counts.items()}


def told_people(groups: Groups, labels: Labels) -> dict[str, Rows]:
    """Own rows behind the report's numbers: of each group, and of those in it with a label and without one."""
    found: dict[str, Rows] = {}
    for name, rows, codes in (
        ("aligned_train", groups.aligned_train, labels.aligned),
        ("aligned_test", groups.aligned_test, labels.test),
        ("active_only", groups.alone, labels.alone),
    ):
        known = (codes >= 0).numpy()
        found[f"people.{name}"] = rows
        if not known.all():
            found[f"people.{name}.labelled"] = rows[known]
            found[f"people.{name}.unlabelled"] = rows[~known]
    return found


def row_artifacts(groups: Groups) -> Artifacts:
    """Own rows of each group."""
    return {
        "rows.aligned_train": groups.aligned_train,
        "rows.aligned_test": groups.aligned_test,
        "rows.active_only": groups.alone,
    }


def model_artifacts(side: ActiveSide) -> Artifacts:
    """Every parameter of one training, under its name."""
    return parameters(side.name, side.model)
