"""The vote as a computation of its own: whom it labels, and the counts that the analyst gets."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from protocols.disclosure import releasable
from protocols.errors import DataMissingError
from tests.vertical.uses import CLASSES, parties, trained, use
from vertical.use_vote import REJECTED, columns_of, counts
from vertical.vote import Vote

LOW = {"threshold_joint": 0.3, "threshold_active": 0.3, "threshold_passive": 0.3}


def unlabelled(**sizes):
    """Data of which every third of the active party's rows has no label."""
    active, passive = parties(**sizes)
    labels = active.labels.copy()
    labels[::3] = -1
    return type(active)(
        keys=active.keys, table=active.table, split=active.split, labels=labels, classes=active.classes
    ), passive


def test_passive_only_people_get_the_labels_of_the_three_classifiers():
    active, passive = parties()
    left, right = use("vote", (active, passive), **LOW)
    part, other = trained()
    rows = right.artifacts["rows.passive_only"]
    shown = part.shown(other.show(passive.table.take(rows)), "views")
    expected = part.with_thresholds((0.3, 0.3, 0.3)).predictor(filling=True).vote(None, shown)
    assert np.array_equal(left.artifacts["pseudo_label.passive_only"], expected.label)
    assert np.array_equal(left.artifacts["pseudo_accepted.passive_only"], expected.accepted)
    assert expected.accepted.any()
    assert set(left.report["pseudo_labels"]) == {"passive_only"}


def test_own_people_without_a_label_are_voted_on_when_asked():
    active, passive = unlabelled()
    left, _ = use("vote", (active, passive), unlabelled=True, **LOW)
    found = left.artifacts
    both, single = found["rows.aligned"], found["rows.active_only"]
    assert (active.labels[both] == -1).all()
    assert (active.labels[single] == -1).all()
    assert len(both) + len(single) == int((active.labels == -1).sum())
    assert {active.keys[row] for row in both} <= set(passive.keys)
    part, other = trained()
    places = {key: row for row, key in enumerate(passive.keys)}
    shown = other.show(passive.table.take(np.array([places[active.keys[row]] for row in both])))
    voter = part.with_thresholds((0.3, 0.3, 0.3)).predictor(filling=True)
    expected = voter.vote(part.views(active.table.take(both)), part.shown(shown, "views"))
    assert np.array_equal(found["pseudo_label.aligned"], expected.label)
    assert left.report["pseudo_labels"]["aligned"]["people"] == len(both)


def test_which_people_have_no_label_does_not_show_in_what_is_sent():
    seen = []
    for data in (parties(), unlabelled()):
        trace = []
        use("vote", data, observe=lambda *m, t=trace: t.append((m[0], type(m[2]).__name__)), unlabelled=True)
        seen.append(trace)
    assert seen[0] == seen[1]


def test_counts_follow_the_disclosure_rules():
    vote = Vote(torch.tensor([0] * 20 + [1] * 12 + [2] * 8), torch.tensor([True] * 32 + [False] * 8))
    report = counts(vote, CLASSES)
    assert report == {"people": 40, "classes": {"low": 20, "middle": 12, "high": 0, REJECTED: 8}}
    released = releasable({"x": report}, 10)["x"]["classes"]
    assert released["low"] == 20
    assert all("suppressed" in released[name] for name in ("middle", "high", REJECTED))


def test_a_class_may_be_called_like_the_rejected_ones():
    vote = Vote(torch.tensor([0, 1]), torch.tensor([True, False]))
    assert counts(vote, (REJECTED, "b"))["classes"] == {REJECTED: 1, "b": 0, REJECTED + "*": 1}


@pytest.mark.parametrize("passive_only", [0, 1])
def test_nobody_and_one_person(passive_only):
    left, _ = use(
        "vote", unlabelled(aligned=1, test=0, active_only=1, passive_only=passive_only), unlabelled=True
    )
    assert left.report["pseudo_labels"]["passive_only"]["people"] == passive_only
    assert left.artifacts["pseudo_label.passive_only"].shape == (passive_only,)


def test_a_vote_on_own_people_needs_the_block_s_labels():
    active, passive = parties()
    blind = type(active)(keys=active.keys, table=active.table, split=active.split)
    with pytest.raises(DataMissingError, match="has no labels"):
        use("vote", (blind, passive), unlabelled=True)
    assert use("vote", (blind, passive))[0].report == use("vote", (active, passive))[0].report


def test_own_rows_are_read_back_with_the_names_of_their_labels():
    left, _ = use("vote", unlabelled(), unlabelled=True, **LOW)
    rows, columns = columns_of(left.artifacts)
    found = left.artifacts
    assert rows == [*found["rows.aligned"].tolist(), *found["rows.active_only"].tolist()]
    codes = [*found["pseudo_label.aligned"].tolist(), *found["pseudo_label.active_only"].tolist()]
    assert columns["label"] == [CLASSES[code] for code in codes]
    assert columns["group"] == ["aligned"] * len(found["rows.aligned"]) + ["active_only"] * len(
        found["rows.active_only"]
    )
    assert set(columns["accepted"]) == {"yes", "no"}
    assert columns_of(use("vote")[0].artifacts) is None
