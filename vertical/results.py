"""What the active party's program leaves: scores, curves, counts for its report; parameters and memory as artifacts.

Shapes: t aligned test rows, q passive-only rows, k classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from protocols.program import Json
from vertical.active_side import ActiveSide, Labels
from vertical.encoders import Representation
from vertical.groups import Groups
from vertical.metrics import evaluate
from vertical.predict import Predictor, Situation
from vertical.training import parameters, to_array
from vertical.vote import Vote

Artifacts = dict[str, NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class PseudoCount:
    """Pseudo labels: how many rows were candidates, and how many of them were accepted."""

    accepted: int
    candidates: int

    def report(self) -> dict[str, Json]:
        """As a report has it: accepted ones of so many people."""
        return {"people": self.candidates, "accepted": self.accepted}

    def plus(self, accepted: int, candidates: int) -> PseudoCount:
        """The sum with another step's count."""
        return PseudoCount(self.accepted + accepted, self.candidates + candidates)


def situation_scores(
    predictor: Predictor, own: Representation, passive: Representation, labels: Labels
) -> Json:
    """Metrics by situation on the test rows, whose views of both parties are known."""
    return {
        situation.value: scores(predictor.hide(situation, own, passive).joint, labels)
        for situation in Situation
    }


@torch.no_grad()
def aligned_only_scores(side: ActiveSide, passive: Representation) -> Json:
    """Metrics of the aligned-only network, which can only use both views."""
    logits = side.model.heads.joint_logits(side.test_views(), passive)
    return {Situation.BOTH.value: scores(logits, side.labels)}


@torch.no_grad()
def active_alone_scores(side: ActiveSide) -> Json:
    """Metrics of f^A trained without the passive party."""
    logits = side.model.heads.active_logits(side.test_views())
    return {Situation.ACTIVE_ONLY.value: scores(logits, side.labels)}


def scores(logits: Tensor, labels: Labels) -> Json:
    """Metrics of logits (t, k) of the test rows, with the people they stand on, as the disclosure rules read them."""
    truth = labels.test.numpy()
    entry = evaluate(to_array(logits), truth)
    return {
        "people": entry.rows,
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


def vote_artifacts(votes: Vote) -> Artifacts:
    """The final pseudo labels in the passive party's order: class codes int64 (q,) and accepted bool (q,)."""
    return {"pseudo_label": votes.label.numpy(), "pseudo_accepted": votes.accepted.numpy()}


def alignment_artifacts(groups: Groups) -> Artifacts:
    """What a party keeps of the alignment for itself: how many people are common, by split and in all.

    None of it is released: beside the groups' sizes, these totals would tell the size of small groups.
    """
    counts = {"common": groups.common, "split_differs": groups.split_differs, **groups.per_split}
    return {f"people.{name}": np.array(count, np.int64) for name, count in counts.items()}


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
