"""Votes on the labels of people without one, with a trained model's three classifiers: two programs.

Messages in order (A active, P passive): 1 to 3 of `vertical.use`; of 3 `CommonShown` only with `unlabelled`.

A keeps, as artifacts of the run, class codes and whether they were accepted: of P's others by their position in P's
order, and with `unlabelled` of its own people without a label, by its row numbers. A learns which of its own keys are
common, how many others P has, and the representations of all whom P shows, from which features can partly be inferred;
P which of its own keys are common and how many keys A offered. Which of A's people have no label isn't told: P shows
all common ones. The analyst gets numbers of people per class.

Shapes: q passive-only people, m people of one group, k classes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from protocols.errors import DataMissingError
from protocols.program import Json, Outcome, Program, Progress
from vertical.arrays import Arrays, as_text
from vertical.model import ActivePart, PassivePart
from vertical.roles import ACTIVE, PASSIVE
from vertical.table import PartyData, Rows
from vertical.use import (
    UseRun,
    agree_on_model,
    align_active,
    align_passive,
    check_part,
    receive_common,
    receive_others,
    show_alone,
    show_common,
    shown_report,
)
from vertical.use_config import VoteConfig
from vertical.vote import Vote

OWN_GROUPS = ("aligned", "active_only")
CLASSES = "classes"
REJECTED = "no label"
"""In the report's counts by class: how many candidates got no label."""


def active_program(data: PartyData, part: ActivePart, config: VoteConfig, run: UseRun) -> Program[Outcome]:
    """The run as the party with labels sees it. Raises ModelError when the model doesn't fit or its memory is gone."""
    check_part(part, config)
    labels = _labels(data) if config.unlabelled else None
    voter = part.with_thresholds(config.thresholds).predictor(filling=True)
    yield from agree_on_model(part.tag, PASSIVE)
    people = yield from align_active(data, config, run)
    votes, rows = dict[str, Vote](), dict[str, Rows]()
    run.observe(Progress("vote", 0, 1))
    if labels is not None:
        common = part.shown((yield from receive_common(people, config)), "views")
        at = np.flatnonzero(labels[people.common] < 0)
        rows["aligned"], rows["active_only"] = people.common[at], people.alone[labels[people.alone] < 0]
        own = part.views(data.table.take(rows["aligned"]))
        votes["aligned"] = voter.vote(own, common.take(torch.tensor(at)))
        votes["active_only"] = voter.vote(part.views(data.table.take(rows["active_only"])), None)
    shown = part.shown((yield from receive_others(config)), "views")
    votes["passive_only"] = voter.vote(None, shown)
    run.observe(Progress("vote", 1, 1))
    report: dict[str, Json] = {
        "pseudo_labels": {group: counts(vote, part.classes) for group, vote in votes.items()}
    }
    unlabelled = {f"people.{group}.unlabelled": at for group, at in rows.items()}
    return Outcome(report, _artifacts(votes, rows, part.classes), {**people.told(), **unlabelled})


def passive_program(data: PartyData, part: PassivePart, config: VoteConfig, run: UseRun) -> Program[Outcome]:
    """The run as the party without labels sees it; leaves the order in which it showed its people."""
    check_part(part, config)
    yield from agree_on_model(part.tag, ACTIVE)
    people = yield from align_passive(data, config, run)
    run.observe(Progress("show", 0, 1))
    if config.unlabelled:
        yield from show_common(part.show, data, people, config)
    yield from show_alone(part.show, data, people, config)
    run.observe(Progress("show", 1, 1))
    return Outcome(shown_report(people), {"rows.passive_only": people.alone}, people.told())


def counts(vote: Vote, classes: Sequence[str]) -> Json:
    """Numbers of people by accepted class, and of those that got no label, as the disclosure rules read them."""
    accepted = vote.label[vote.accepted]
    by_class = {name: int((accepted == code).sum()) for code, name in enumerate(classes)}
    rejected = REJECTED
    while rejected in by_class:
        rejected += "*"
    return {"people": len(vote.label), "classes": {**by_class, rejected: len(vote.label) - len(accepted)}}


def columns_of(artifacts: Arrays) -> tuple[list[int], dict[str, list[str | float]]] | None:
    """Own row numbers of the active party's people who were voted on, with group, label and whether it was accepted.

    None when there was no vote on own people.
    """
    groups = [group for group in OWN_GROUPS if f"rows.{group}" in artifacts]
    if not groups:
        return None
    classes = json.loads(artifacts[CLASSES].tobytes())
    rows: list[int] = []
    columns: dict[str, list[str | float]] = {"group": [], "label": [], "accepted": []}
    for group in groups:
        rows += artifacts[f"rows.{group}"].tolist()
        labels = artifacts[f"pseudo_label.{group}"].tolist()
        columns["group"] += [group] * len(labels)
        columns["label"] += [classes[code] for code in labels]
        columns["accepted"] += [
            "yes" if accepted else "no" for accepted in artifacts[f"pseudo_accepted.{group}"].tolist()
        ]
    return rows, columns


def _artifacts(
    votes: Mapping[str, Vote], rows: Mapping[str, Rows], classes: Sequence[str]
) -> dict[str, NDArray[np.generic]]:
    found: dict[str, NDArray[np.generic]] = {f"rows.{group}": at for group, at in rows.items()}
    found[CLASSES] = as_text(json.dumps(classes))
    for group, vote in votes.items():
        found[f"pseudo_label.{group}"] = vote.label.numpy()
        found[f"pseudo_accepted.{group}"] = vote.accepted.numpy()
    return found


def _labels(data: PartyData) -> NDArray[np.int64]:
    if data.labels is None:
        raise DataMissingError(
            "the active party's block has no labels, so none of its people can be without one",
            remedy="name the label's column when adding the block, or ask without `unlabelled`",
        )
    return data.labels
