"""What a run releases as numbers of people can't be added or subtracted to the size of a small group."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.disclosure import releasable
from tests.vertical.runs import SMALL, run, two_parties
from vertical.groups import Groups
from vertical.results import pseudo_report
from vertical.table import Split
from vertical.vote import Vote

K = 10
sizes = st.integers(0, 40)


def counts(value):
    """Every released number of people in a report: whole numbers, wherever they stand."""
    if isinstance(value, dict):
        return [number for name, inner in value.items() if name != "points" for number in counts(inner)]
    return [value] if type(value) is int else []


DISJOINT = {"aligned_train", "aligned_test", "active_only", "passive_only"}
"""Groups that share nobody: with no total beside them, no difference of two is a third group."""


@settings(max_examples=6, deadline=None)
@given(
    st.fixed_dictionaries({"test": sizes, "active_only": sizes, "passive_only": sizes}), st.integers(4, 40)
)
def test_only_sizes_of_disjoint_groups_are_released(groups, aligned):
    outcomes = run(*two_parties(aligned=aligned, **groups), SMALL)
    for outcome in outcomes:
        released = releasable(outcome.report, K)
        assert released["groups"].keys() <= DISJOINT
        assert all(number >= K for number in counts(released["groups"]))
        assert not released.keys() - {"groups", "methods", "experts", "pseudo_labels", "loss"}


@pytest.mark.parametrize(("aligned", "active_only", "told"), [(40, 4, 40), (20, 44, 44), (20, 0, 20)])
def test_held_out_scores_stand_on_one_group_so_that_no_difference_tells_of_the_other(
    aligned, active_only, told
):
    """With both groups together, 44 less 40 people would be the 4 others, and accuracies would tell theirs."""
    config = replace(SMALL, folds=2, linear_views=2, steps=12)
    left, _ = run(*two_parties(aligned=aligned, active_only=active_only), config)
    found = left.report["experts"]
    assert {situation: entry["people"] for situation, entry in found.items()} == {
        "both": aligned,
        "active_only": told,
        "passive_only": aligned,
    }
    for entry in found.values():
        assert sum(entry["classes"].values()) == entry["people"]
        accuracy = entry["experts"]["joint"]["accuracy"] * entry["people"]
        assert accuracy == pytest.approx(round(accuracy))  # a share of these people and no others
    search = left.report["search"]
    assert search["people"] == min(size for size in (aligned, active_only) if size)
    shown = releasable(left.report, 5)["search"]["loss"]["given"]["12 steps"]
    assert isinstance(shown, float) is (active_only != 4)


@pytest.mark.parametrize(("unlabelled", "told"), [(0, True), (4, False), (20, True), (36, False)])
def test_people_without_a_label_are_not_counted_by_subtraction(unlabelled, told):
    """40 aligned people, 4 of them without a label: "36 were held out" would tell of the 4, and "36 voted on" too."""
    config = replace(SMALL, folds=2, linear_views=2, steps=12, final_vote=True)
    left, _ = run(*two_parties(aligned=40, missing_labels=unlabelled), config)
    shown = releasable(left.report, K)
    assert shown["groups"]["aligned_train"] == 40
    both, voted = shown["experts"]["both"], shown["pseudo_labels"].get("aligned", {"people": {}})
    assert isinstance(both["people"], int) is told
    assert isinstance(voted["people"], int) is (unlabelled == 20)
    left_over = [40 - number for number in [*counts(both), *counts(voted)]]
    assert all(rest == 0 or rest >= K for rest in left_over)


def test_test_people_without_a_label_are_not_counted_by_subtraction():
    active, passive = two_parties(test=20)
    assert active.labels is not None
    active.labels[np.flatnonzero(active.split == Split.TEST)[:3]] = -1
    left, _ = run(active, passive, SMALL)
    shown = releasable(left.report, K)
    assert shown["groups"]["aligned_test"] == 20
    for method in shown["methods"].values():
        for entry in method.values():
            assert not counts({name: entry[name] for name in ("people", "classes")})
            assert entry["accuracy"]["suppressed"] == "metric"


@pytest.mark.parametrize(("accepted", "candidates"), [(500, 503), (3, 503), (503, 503), (0, 503), (250, 503)])
def test_accepted_pseudo_labels_follow_the_complement_rule(accepted, candidates):
    nobody = np.zeros(0, np.int64)
    groups = Groups(
        aligned_train=nobody,
        aligned_test=nobody,
        alone=nobody,
        common=0,
        split_differs=0,
        per_split={},
        tag="",
    )
    vote = Vote(torch.zeros(candidates, dtype=torch.int64), torch.arange(candidates) < accepted)
    shown = releasable({"pseudo_labels": pseudo_report({"passive_only": vote}, groups)}, K)["pseudo_labels"]
    numbers = counts(shown)
    for one, other in combinations(numbers, 2):
        assert abs(one - other) == 0 or abs(one - other) >= K
    assert all(number == 0 or number >= K for number in numbers)
