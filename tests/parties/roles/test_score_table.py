"""The table of scores: what is hidden is shown as hidden, and a hostile report breaks neither table nor terminal."""

from dataclasses import replace

import pytest

from parties.catalog.fedcvt import TRAIN
from parties.roles.score_table import people_lines, score_table, weight_lines
from protocols.disclosure import releasable
from tests.vertical.runs import SMALL, run, two_parties
from vertical.ensemble import expert_names
from vertical.predict import Situation

SCORES = {"auc": 0.91267, "accuracy": None, "people": 9768}


def test_a_table_has_a_line_for_each_method_and_explains_its_words_once() -> None:
    report = {"methods": {"fedcvt": {"both": SCORES, "active_only": SCORES}, "stack": {"both": SCORES}}}
    lines = score_table(report, {"fedcvt": "the whole model", "both": "both known", "unused": "never"})
    assert [line.split() for line in lines[:4]] == [
        ["method", "views", "AUC", "accuracy", "people"],
        ["fedcvt", "both", "0.913", "-", "9,768"],
        ["fedcvt", "active_only", "0.913", "-", "9,768"],
        ["stack", "both", "0.913", "-", "9,768"],
    ]
    assert [line.split(maxsplit=1) for line in lines[5:]] == [
        ["fedcvt", "the whole model"],
        ["both", "both known"],
    ]
    assert score_table({"common": {"people": 30}}, {}) == []


def test_hidden_numbers_are_shown_as_hidden_with_each_reason_once() -> None:
    classes = {"no": 30, "yes": 3}
    report = {"methods": {m: {"both": {"people": 33, "classes": classes, "auc": 0.9}} for m in "ab"}}
    few = {"methods": {"a": {"both": {"people": 3, "auc": 0.9}}}}
    lines = score_table(releasable(report, 10), {})
    assert lines[1].split() == ["a", "both", "hidden", "-", "33"]
    assert [line.split(maxsplit=1) for line in lines[4:]] == [["hidden", "a class has fewer than 10 people"]]
    assert score_table(releasable(few, 10), {})[1].split() == ["a", "both", "hidden", "-", "<10"]


@pytest.mark.parametrize("methods", [None, 3, "x", [1], {"a": 3}, {"a": {"b": [1]}}])
def test_what_is_no_table_is_passed_over(methods: object) -> None:
    assert score_table({"methods": methods}, {}) == []
    assert people_lines({"groups": methods if not isinstance(methods, dict) else None}) == []
    assert weight_lines({"experts": methods}) == []


def test_texts_of_another_party_reach_a_terminal_printable() -> None:
    hostile = "\x1b[2J\u202e" + "x" * 500
    report = {
        "methods": {hostile: {hostile: {"auc": {"suppressed": hostile, "reason": hostile}}}},
        "groups": {hostile: {"suppressed": hostile}},
        "experts": {
            hostile: {"experts": {hostile: {"weight": hostile}, "a": {"weight": {"suppressed": hostile}}}}
        },
    }
    lines = [*score_table(report, {}), *weight_lines(report), *people_lines(report)]
    assert all(line.isprintable() for line in lines)
    assert max(map(len, lines)) < 700


def test_the_experts_of_each_situation_are_shown_by_their_weight() -> None:
    experts = {"stack": {"weight": 0.25}, "joint": {"weight": 0.74}, "alone": {"weight": 1e-5}}
    report = {
        "methods": {"fedcvt": {"both": SCORES}},
        "experts": {
            "both": {"people": 40, "experts": experts},
            "active_only": {"why": "nobody was held out", "settings": {"weights": {"a": 0.5, "b": 0.5}}},
        },
    }
    assert [line.split(maxsplit=1) for line in weight_lines(report)[1:]] == [
        ["both", "joint 0.740, stack 0.250"],
        ["active_only", "a 0.500, b 0.500"],
    ]
    few = {"experts": {"both": {"people": 3, "classes": {"no": 3, "yes": 0}, "experts": experts}}}
    line = weight_lines(releasable(few, 10))[1]
    assert "hidden" in line
    assert "0.74" not in line
    assert any(
        "the network on both" in line for line in score_table(report, {"joint": "the network on both views"})
    )


def test_every_method_and_situation_of_a_training_has_its_meaning() -> None:
    left, _ = run(*two_parties(), replace(SMALL, baselines=True, linear_views=2))
    methods = left.report["methods"]
    assert isinstance(methods, dict)
    words = {*methods, *(views for situations in methods.values() for views in situations)}
    words |= {name for situation in Situation for name in expert_names(situation, components=True)}
    assert words == set(TRAIN.meanings)
    lines = people_lines(releasable(left.report, 10))
    assert lines[0] == "people: aligned_train 40, aligned_test 12, active_only 30, passive_only 26"
    assert lines[1].startswith("pseudo labels: ")
