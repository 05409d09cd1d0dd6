"""Experts and their pool inside whole runs: what is held out, what is weighed, what is reported."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from protocols.disclosure import releasable
from tests.vertical.runs import SMALL, run, two_parties
from vertical.encoders import Representation
from vertical.ensemble import Known, expert_names, hidden
from vertical.linear import mean_loss
from vertical.messages import LinearViews
from vertical.metrics import calibration_error
from vertical.model import ActivePart, PassivePart
from vertical.predict import Situation
from vertical.use_messages import EXPERTS

SEARCH = replace(SMALL, folds=2, linear_views=4, steps=30)


@pytest.fixture(scope="module")
def searched():
    parties = two_parties(aligned=60, test=30)
    return parties, run(*parties, SEARCH)


def test_every_expert_has_a_name_in_the_protocol_of_predictions():
    named = [name for situation in Situation for name in expert_names(situation, components=True)]
    assert set(named) == set(EXPERTS)


def test_the_report_has_weights_scores_and_the_best_of_each_situation(searched):
    _, (left, _) = searched
    found = left.report["experts"]
    assert list(found) == ["both", "active_only", "passive_only"]
    for situation, entry in found.items():
        names = set(expert_names(Situation(situation), components=True))
        assert entry["experts"].keys() == names
        assert sum(expert["weight"] for expert in entry["experts"].values()) == pytest.approx(1.0)
        losses = {name: expert["loss"] for name, expert in entry["experts"].items()}
        assert entry["best"] == min(losses, key=losses.get)
        assert f"of {len(names)} experts" in entry["why"]
        # Two folds hold out all 60 aligned people, and 30 others of the active party, who are the smaller group.
        assert entry["people"] == sum(entry["classes"].values()) == 60
    search = left.report["search"]
    assert search["settings"] == {"candidates": ["given"], "folds": 2, "steps": 30, "trainings": 2}
    assert search["chosen"] in ("given, 24 of 30 steps", "given, 30 of 30 steps")
    assert set(search["loss"]["given"]) == {"24 steps", "30 steps"}
    json.dumps(left.report, allow_nan=False)


def test_the_mixture_is_about_as_good_on_held_out_people_as_the_best_expert(searched):
    """Any weights are at least as good as the worst expert, as the logarithm is concave: that would say nothing."""
    _, (left, _) = searched
    for entry in left.report["experts"].values():
        losses = sorted(expert["loss"] for expert in entry["experts"].values())
        assert entry["mixture"]["loss"] < losses[0] + 0.1 * (losses[-1] - losses[0])


def test_the_analyst_gets_experts_only_where_enough_people_stand_behind_them(searched):
    _, (left, _) = searched
    shown = releasable(left.report, 10)
    assert shown["search"]["settings"]["trainings"] == 2
    assert isinstance(shown["experts"]["both"]["experts"]["joint"]["weight"], float)
    few, _ = run(*two_parties(aligned=8), SEARCH)
    hidden_ones = releasable(few.report, 10)["experts"]["both"]
    assert hidden_ones["experts"]["joint"]["weight"]["suppressed"] == "metric"
    assert hidden_ones["people"]["suppressed"] == "<10"


def test_the_released_scores_are_those_of_the_parts_on_the_test_people(searched):
    (active, passive), (left, right) = searched
    part, peer = ActivePart.unpack(left.artifacts), PassivePart.unpack(right.artifacts)
    own = part.known(active.table.take(left.artifacts["rows.aligned_test"]))
    other = part.told(peer.show_all(passive.table.take(right.artifacts["rows.aligned_test"])), "views")
    truth = active.labels[left.artifacts["rows.aligned_test"]]
    for situation in Situation:
        made = part.predict(*hidden(situation, own, other))
        released = left.report["methods"]["fedcvt"][situation.value]
        assert np.mean(made.probabilities.argmax(axis=1) == truth) == released["accuracy"]
        np.testing.assert_allclose(made.probabilities.sum(axis=1), 1.0, atol=1e-6)
        assert made.weights == pytest.approx(part.mixtures[situation].by_name())


def test_a_prediction_is_the_weighted_mean_of_its_experts(searched):
    """p = sum_m w_m softmax(logits_m / T_m), row by row."""
    (active, passive), (left, right) = searched
    part, peer = ActivePart.unpack(left.artifacts), PassivePart.unpack(right.artifacts)
    own = part.known(active.table.take(np.arange(3)))
    other = part.told(peer.show_all(passive.table.take(np.arange(3))), "views")
    logits = part.ensemble(filling=True).expert_logits(own, other)
    mixture = part.mixtures[Situation.BOTH]
    for row in range(3):
        expected = np.zeros(2)
        for name, temperature, weight in zip(
            mixture.names, mixture.temperatures, mixture.weights, strict=True
        ):
            scaled = np.exp(logits[name][row] / temperature)
            expected += weight * scaled / scaled.sum()
        np.testing.assert_allclose(part.predict(own, other).probabilities[row], expected, atol=1e-6)


def test_without_folds_the_joint_head_speaks_alone():
    left, right = run(*two_parties(), replace(SMALL, linear_views=4))
    assert left.report["experts"]["both"]["settings"] == {"weights": {"joint": 1.0}}
    assert left.report["methods"]["fedcvt"] == left.report["methods"]["joint"]
    assert "search" not in left.report
    assert "aligned_only" in left.report["methods"]
    assert ActivePart.unpack(left.artifacts).tag == PassivePart.unpack(right.artifacts).tag


def test_with_a_single_aligned_person_the_stated_weights_are_equal():
    left, _ = run(*two_parties(aligned=1), SEARCH)
    found = left.report["experts"]["both"]
    names = ("joint", "active_network", "aligned_only", "stack", "active_alone", "passive_alone")
    assert found["settings"] == {"weights": pytest.approx(dict.fromkeys(names, 1 / 6))}
    assert found["why"] == "nobody was held out: weights as stated in advance"
    assert releasable(left.report, 10)["experts"]["both"] == found  # they follow from the request


def test_without_components_only_the_experts_that_need_none_are_weighed():
    left, _ = run(*two_parties(), replace(SEARCH, linear_views=0))
    found = left.report["experts"]
    assert {situation: set(entry["experts"]) for situation, entry in found.items()} == {
        "both": {"joint", "active_network", "active_alone"},
        "active_only": {"joint", "active_head", "active_network", "active_alone"},
        "passive_only": {"joint", "passive_head"},
    }
    assert {name.split(".")[2] for name in left.artifacts if name.startswith("fedcvt.linear")} == {
        "active_alone"
    }
    assert {"stack", "aligned_only", "passive_alone"}.isdisjoint(left.report["methods"])


def test_the_components_of_both_groups_are_sent_once_and_know_no_label():
    active, passive = two_parties()
    sent, config = [], replace(SEARCH, cuts=0)
    for labels in (active.labels, 1 - active.labels):
        seen = []
        run(
            replace(active, labels=labels), passive, config, observe=lambda s, t, m, seen=seen: seen.append(m)
        )
        sent.append([message for message in seen if isinstance(message, LinearViews)])
    assert sent[0] == sent[1]
    assert sum(len(message.components) for message in sent[0]) == 40 + 12
    # Two features have two components; the other two columns are zero.
    assert all(not message.components[:, 2:].any() for message in sent[0])
    assert all(message.components[:, :2].all() for message in sent[0])


def test_no_held_out_score_knows_the_labels_it_is_measured_with():
    """With labels drawn at random no expert can be right more often than chance allows on people it hasn't seen."""
    active, passive = two_parties(aligned=120, active_only=40, passive_only=10, seed=3)
    drawn = np.random.default_rng(8).integers(0, 2, len(active.labels))
    left, _ = run(replace(active, labels=drawn), passive, replace(SEARCH, learning_rate=0.1))
    for entry in left.report["experts"].values():
        for name, expert in entry["experts"].items():
            assert expert["loss"] > 0.66, name  # ln 2 is 0.693
            assert expert["accuracy"] < 0.65, name


def test_people_without_a_label_are_voted_on_in_both_groups():
    config = replace(SMALL, folds=2, threshold_joint=0.4, threshold_active=0.4, threshold_passive=0.4)
    active, passive = two_parties()
    labels = active.labels.copy()
    people = np.array([int(key[-5:]) for key in active.keys])
    labels[
        (people < 6) | (people >= 75)
    ] = -1  # 6 aligned people, and 7 of those that only the active party has
    left, _ = run(replace(active, labels=labels), passive, config)
    votes = left.report["pseudo_labels"]
    assert {group: votes[group]["people"] for group in ("aligned", "active_only")} == {
        "aligned": 6,
        "active_only": 7,
    }
    for group in ("aligned", "active_only"):
        accepted = left.artifacts[f"pseudo_accepted.{group}"]
        assert len(left.artifacts[f"pseudo_label.{group}"]) == votes[group]["people"] == len(accepted)
        assert votes[group]["accepted"] == accepted.sum()
    assert votes["people"] == 26
    plain, _ = run(active, passive, config)
    assert set(plain.report["pseudo_labels"]) == {"people", "accepted"}


def test_calibration_error_by_hand():
    """Confidence .9 and right, .9 and wrong, .6 and right: |1.8 - 1| / 3 + |.6 - 1| / 3 = 1.2 / 3."""
    log_chances = np.log([[0.9, 0.1], [0.1, 0.9], [0.4, 0.6], [0.5, 0.5]])
    assert calibration_error(log_chances, np.array([0, 0, 1, -1])) == pytest.approx(0.4)
    assert calibration_error(np.log([[1.0 - 1e-9, 1e-9]]), np.array([0])) == pytest.approx(0.0, abs=1e-6)
    assert calibration_error(log_chances, np.full(4, -1)) is None


def test_what_is_hidden_of_people_with_both_views():
    known = [Known(Representation(torch.zeros(2, 1), torch.zeros(2, 1)), np.zeros((2, 3))) for _ in range(2)]
    assert hidden(Situation.BOTH, *known) == tuple(known)
    assert hidden(Situation.ACTIVE_ONLY, *known) == (known[0], None)
    assert hidden(Situation.PASSIVE_ONLY, *known) == (None, known[1])
    assert known[0].take(slice(1, 2)).rows == 1
    assert mean_loss(np.zeros((2, 2)), np.array([0, 1])) == pytest.approx(np.log(2))
