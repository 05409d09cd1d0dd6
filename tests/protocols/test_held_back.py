"""A report of a run whose people nearly are those of an earlier release: no exact number, scores in coarse steps."""

import math

import pytest

from protocols.disclosure import releasable
from protocols.held_back import held_back, held_number, score_step
from protocols.program import Json

K = 10
MARK = held_number(K)


def shown(report: dict[str, Json]) -> dict[str, Json]:
    return held_back(releasable(report, K), report, K)


def test_counts_classes_metrics_and_curves_go_and_texts_and_settings_stay() -> None:
    report: dict[str, Json] = {
        "groups": {"aligned_train": 40, "active_only": 700},
        "pseudo_labels": {"people": 500, "accepted": 200},
        "test": {"people": 60, "classes": {"no": 30, "yes": 30}, "loss": 0.4, "majority_rate": 0.5},
        "loss": {"values": [1.0, 0.5], "people": 40, "people_per_value": 40},
        "search": {"settings": {"folds": 3}, "chosen": "the first", "people": 40, "loss": 0.2},
    }
    assert shown(report) == {
        "groups": {"aligned_train": MARK, "active_only": MARK},
        "pseudo_labels": {"people": MARK, "accepted": MARK},
        "test": {"people": MARK, "classes": MARK, "loss": MARK, "majority_rate": MARK},
        "loss": MARK,
        "search": {"settings": {"folds": 3}, "chosen": "the first", "people": MARK, "loss": MARK},
    }


def test_the_reason_is_the_same_wherever_the_difference_is() -> None:
    assert MARK == {
        "suppressed": "difference",
        "reason": "may differ from an earlier release by fewer than 10 people",
    }


@pytest.mark.parametrize(
    ("people", "classes", "told"),
    [
        (100_000, {"no": 50_000, "yes": 50_000}, 0.847),  # 10 / 50,000: the three digits that any score has
        (2_000, {"no": 1_000, "yes": 1_000}, 0.85),  # .8468 in steps of 10 / 1,000
        (2_000, {"no": 1_800, "yes": 200}, 0.85),  # in steps of 10 / 200, as the smaller class allows
        (400, {"no": 300, "yes": 100}, 0.8),  # in steps of 10 / 100
        (60, {"no": 30, "yes": 30}, None),  # steps of 10 / 30 are too large to be worth telling
    ],
)
def test_scores_are_told_in_steps_that_k_people_can_not_take_alone(
    people: int, classes: dict[str, Json], told: float | None
) -> None:
    entry: dict[str, Json] = {"people": people, "classes": classes, "accuracy": 0.8468, "auc": 0.8468}
    found = shown({"both": entry})["both"]
    score = MARK if told is None else told
    assert found == {"people": MARK, "classes": MARK, "accuracy": score, "auc": score}


@pytest.mark.parametrize("people", [11, 47, 100, 999, 1_000, 12_345])
def test_a_step_is_no_smaller_than_what_k_people_weigh(people: int) -> None:
    step = score_step(people, K)
    assert step >= K / people * (1 - 1e-9)
    assert step <= 10 * K / people
    mantissa = step / 10 ** math.floor(math.log10(step) + 1e-9)
    assert min(abs(mantissa - each) for each in (1, 2, 5)) < 1e-6


@pytest.mark.parametrize("people", [9, 10])
def test_what_the_rules_suppress_is_marked_alike_so_that_nobody_sees_who_fell_below_k(people: int) -> None:
    report: dict[str, Json] = {
        "people": people,
        "classes": {"Ghent": people},
        "auc": None if people < 10 else 0.5,
        "reasons": ["one class only"] if people < 10 else [],
        "few": {"people": people, "accuracy": 0.5},
        "size": {"suppressed": "<10", "reason": "few"} if people < 10 else {"people": 10},
    }
    found = shown(report)
    size = found.pop("size")
    assert size in (MARK, {"people": MARK})
    assert found == {
        "people": MARK,
        "classes": MARK,
        "auc": MARK,
        "reasons": MARK,
        "few": {"people": MARK, "accuracy": MARK},
    }
