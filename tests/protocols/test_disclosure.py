import math
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.disclosure import (
    CURVE_POINTS,
    UNKNOWN,
    CurvePoint,
    bin_curve,
    releasable,
    round_metric,
    suppress_counts,
    suppress_small,
)
from protocols.errors import ConfigError, ProtocolError
from protocols.program import Json


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "<10"), (7, "<10"), (9, "<10"), (10, 10), (11, 11), (None, UNKNOWN)]
)
def test_a_count_below_k_is_not_shown(count: int | None, shown: int | str) -> None:
    assert suppress_small(count, 10) == shown


def suppressed(value: Json) -> str:
    """The reason why the value is suppressed."""
    assert isinstance(value, Mapping)
    assert set(value) == {"suppressed", "reason"}
    assert value["suppressed"]
    assert value["reason"]
    return str(value["reason"])


def test_with_two_classes_a_small_one_takes_the_other_along() -> None:
    shown = suppress_counts({"no": 990, "yes": 3}, 10)
    assert suppressed(shown["yes"]) == "fewer than 10 people"
    assert "total would tell" in suppressed(shown["no"])
    assert suppress_counts({"no": 990, "yes": 10}, 10) == {"no": 990, "yes": 10}


def test_with_more_classes_enough_are_suppressed_to_hide_the_small_one() -> None:
    one = suppress_counts({"a": 3, "b": 50, "c": 400}, 10)
    assert [name for name, value in one.items() if isinstance(value, int)] == ["c"]
    two = suppress_counts(
        {"a": 3, "b": 4, "c": 20, "d": 400}, 10
    )  # 3 + 4 = 7 people would be found by subtraction
    assert [name for name, value in two.items() if isinstance(value, int)] == ["d"]
    enough = suppress_counts({"a": 6, "b": 4, "c": 20}, 10)
    assert [name for name, value in enough.items() if isinstance(value, int)] == ["c"]


@given(st.dictionaries(st.sampled_from("abcde"), st.integers(0, 30)), st.integers(1, 12))
@settings(max_examples=300, deadline=None)
def test_no_group_below_k_can_be_found_by_subtraction_from_the_total(counts: dict[str, int], k: int) -> None:
    shown = suppress_counts(counts, k)
    hidden = [counts[name] for name, value in shown.items() if not isinstance(value, int)]
    assert all(shown[name] == counts[name] for name in counts if isinstance(shown[name], int))
    assert all(counts[name] >= k for name in counts if isinstance(shown[name], int))
    if hidden and len(hidden) < len(counts):
        assert len(hidden) > 1
        assert sum(hidden) >= k
    if all(count >= k for count in counts.values()):
        assert not hidden


@pytest.mark.parametrize(("x", "shown"), [(0.91267, 0.913), (1.0, 1.0), (-0.0001, 0.0), (12.34567, 12.346)])
def test_a_metric_is_rounded(x: float, shown: float) -> None:
    assert round_metric(x) == shown
    assert math.copysign(1.0, round_metric(-0.0)) == 1.0
    assert round_metric(0.91267, 1) == 0.9


def test_a_metric_stands_on_k_people_not_rows() -> None:
    report = {"test": {"people": 2, "rows": 12, "auc": 0.9}}
    shown = releasable(report, 10)["test"]
    assert isinstance(shown, Mapping)
    assert suppressed(shown["auc"]) == "stands on fewer than 10 people"
    assert suppressed(shown["people"]) == "fewer than 10 people"
    assert releasable({"test": {"people": 12, "auc": 0.9123}}, 10) == {"test": {"people": 12, "auc": 0.912}}


def test_a_metric_on_an_unknown_number_of_people_is_suppressed_with_that_reason() -> None:
    shown = releasable({"auc": 0.9, "test": {"rows": 500, "accuracy": 0.8}, "people": None}, 10)
    assert suppressed(shown["auc"]) == UNKNOWN
    assert suppressed(shown["people"]) == UNKNOWN
    assert isinstance(shown["test"], Mapping)
    assert suppressed(shown["test"]["accuracy"]) == UNKNOWN


def test_groups_inside_inherit_their_people_unless_they_say_otherwise() -> None:
    report: dict[str, Json] = {"people": 100, "all": {"auc": 0.5}, "few": {"people": 3, "auc": 0.5}}
    shown = releasable(report, 10)
    assert shown["all"] == {"auc": 0.5}
    assert isinstance(shown["few"], Mapping)
    assert suppressed(shown["few"]["auc"])


def test_a_part_of_a_group_must_leave_a_rest_that_is_not_small() -> None:
    shown = releasable({"people": 100, "accepted": 95, "right": 90, "all": 100, "few": 5}, 10)
    assert suppressed(shown["accepted"]) == "the rest would be fewer than 10 people"
    assert suppressed(shown["few"]) == "fewer than 10 people"
    assert (shown["right"], shown["all"]) == (90, 100)


def test_people_within_a_released_group_must_leave_a_rest_that_is_not_small() -> None:
    part: dict[str, Json] = {"within": 100, "classes": {"no": 50, "yes": 47}, "accuracy": 0.9}
    few = releasable({"people": 97, **part, "right": 95, "some": 40}, 10)
    for value in (few["people"], *few["classes"].values(), few["right"]):
        assert suppressed(value) == "the rest would be fewer than 10 people"
    assert suppressed(few["accuracy"]) == "could tell of fewer than 10 others of the same group"
    assert few["some"] == 40
    assert releasable({"people": 97, **part, "within": 97}, 10)["people"] == 97
    enough = releasable({"people": 97, **part, "within": 107}, 10)
    assert enough == {"people": 97, "classes": {"no": 50, "yes": 47}, "accuracy": 0.9}


def test_a_rounded_metric_of_a_thousand_people_tells_nothing_of_the_rest_and_is_released() -> None:
    """Every fraction of three digits is one of each number of people from 1000 on; of 999 not of each."""
    report: dict[str, Json] = {"people": 1000, "within": 1003, "inner": {"accuracy": 0.5}}
    assert releasable(report, 10)["inner"] == {"accuracy": 0.5}
    inner = releasable({**report, "people": 999}, 10)["inner"]
    assert isinstance(inner, Mapping)
    assert suppressed(inner["accuracy"])
    fits = [{round(part / people, 3) for part in range(people + 1)} for people in range(990, 1010)]
    assert [len(found) == 1001 for found in fits] == [people >= 1000 for people in range(990, 1010)]


def test_metrics_of_a_group_with_a_small_class_are_suppressed_since_they_tell_its_size() -> None:
    group: dict[str, Json] = {"people": 1000, "classes": {"no": 997, "yes": 3}, "majority_rate": 0.997}
    shown = releasable({"test": group}, 10)["test"]
    assert isinstance(shown, Mapping)
    assert suppressed(shown["majority_rate"]) == "a class has fewer than 10 people"
    group = {"people": 1000, "classes": {"no": 990, "yes": 10}, "majority_rate": 0.99, "accuracy": 0.99}
    assert releasable({"test": group}, 10) == {"test": group}


def test_a_group_of_one_class_keeps_its_other_metrics_and_the_reason() -> None:
    group: dict[str, Json] = {
        "people": 50,
        "auc": None,
        "accuracy": 0.75,
        "reasons": ["auc: one class"],
        "ok": True,
    }
    assert releasable({"test": group}, 10) == {"test": group}


def test_settings_pass_as_they_are() -> None:
    assert releasable({"settings": {"steps": 3, "rate": 0.00001}}, 10) == {
        "settings": {"steps": 3, "rate": 0.00001}
    }


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_metric_that_is_no_number_is_suppressed(value: float) -> None:
    assert suppressed(releasable({"people": 50, "auc": value}, 10)["auc"]) == "not a finite number"


@pytest.mark.parametrize("values", [[1, 2], [0.5], ["a", 1], [[1.0]], [{"people": 1}]])
def test_a_list_of_numbers_is_not_released(values: list[Json]) -> None:
    assert "only as a curve" in suppressed(releasable({"people": 50, "losses": values}, 10)["losses"])


def test_a_curve_is_the_weighted_mean_over_bins_of_k_people() -> None:
    # 6 + 2 = 8 < 10, + 4 = 12: a bin; (1*6 + 4*2 + 5*4) / 12 = 34/12; then 9 < 10, + 1 = 10: (2*9 + 12*1) / 10 = 3
    points = bin_curve([1.0, 4.0, 5.0, 2.0, 12.0], [6, 2, 4, 9, 1], 10)
    assert points == (CurvePoint(first=0, last=2, mean=2.833), CurvePoint(first=3, last=4, mean=3.0))


def test_an_incomplete_last_bin_joins_the_one_before() -> None:
    assert bin_curve([1.0, 3.0], [10, 5], 10) == (CurvePoint(first=0, last=1, mean=1.667),)
    assert bin_curve([1.0, 3.0], [4, 5], 10) == ()
    assert bin_curve([], [], 10) == ()


@given(st.lists(st.tuples(st.floats(-5, 5), st.integers(0, 20)), max_size=200), st.integers(1, 15))
@settings(max_examples=200, deadline=None)
def test_each_point_of_a_curve_stands_on_k_people_and_none_is_left_out(
    curve: list[tuple[float, int]], k: int
) -> None:
    people = [n for _, n in curve]
    points = bin_curve([v for v, _ in curve], people, k)
    assert all(sum(people[p.first : p.last + 1]) >= k for p in points)
    assert [i for p in points for i in range(p.first, p.last + 1)] == list(range(len(curve) if points else 0))
    assert bool(points) == (sum(people) >= k)
    assert len(points) <= CURVE_POINTS


def test_a_released_curve_says_its_bins_and_a_small_one_why_not() -> None:
    curve: dict[str, Json] = {"values": [1.0, 2.0, 4.0, 5.0], "people_per_value": 8, "people": 32}
    assert releasable({"loss": curve}, 10)["loss"] == {
        "points": [{"first": 0, "last": 1, "mean": 1.5}, {"first": 2, "last": 3, "mean": 4.5}]
    }
    assert suppressed(releasable({"loss": curve | {"people": 9}}, 10)["loss"])
    assert (
        suppressed(releasable({"loss": curve | {"people_per_value": 2}}, 10)["loss"])
        == "no bin has 10 people"
    )
    alone: dict[str, Json] = {"values": [1.0], "people_per_value": 50}
    assert suppressed(releasable({"loss": alone}, 10)["loss"]) == UNKNOWN


def test_a_point_that_is_no_number_is_null() -> None:
    assert bin_curve([math.nan, 1.0], [10, 10], 10)[0].mean is None


@pytest.mark.parametrize(
    "report",
    [
        {"people": "many"},
        {"people": True},
        {"people": -1},
        {"people": 5.0},
        {"people": 5, "within": 4},
        {"people": 5, "within": True},
        {"within": 5},
        {"classes": 5},
        {"classes": {"a": 0.5}},
        {"classes": {"a": -1}},
        {"loss": {"values": 3, "people_per_value": 4}},
        {"loss": {"values": ["a"], "people_per_value": 4, "people": 50}},
        {"loss": {"values": [1.0], "people_per_value": [1, 2], "people": 50}},
        {"loss": {"values": [1.0], "people_per_value": [0.5], "people": 50}},
        {"loss": {"values": [1.0], "people_per_value": 50, "raw": [1.0]}},
    ],
)
def test_a_report_that_does_not_follow_the_rules_is_refused(report: dict[str, Json]) -> None:
    with pytest.raises(ProtocolError):
        releasable(report, 10)


def test_k_is_at_least_one() -> None:
    for call in (lambda: releasable({}, 0), lambda: suppress_small(3, 0), lambda: suppress_counts({}, -1)):
        with pytest.raises(ConfigError):
            call()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 40) | st.floats(0, 1) | st.sampled_from(["text"]),
    lambda inner: (
        st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3) | st.lists(inner, max_size=2)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), JSON, max_size=3), st.integers(1, 50))
@settings(max_examples=200, deadline=None)
def test_without_a_number_of_people_nothing_but_counts_of_k_and_texts_leaves(
    report: dict[str, Json], k: int
) -> None:
    def check(value: Json) -> None:
        if isinstance(value, Mapping):
            for inner in value.values():
                check(inner)
        elif isinstance(value, list):
            assert all(isinstance(item, str) for item in value)
        elif isinstance(value, int) and not isinstance(value, bool):
            assert value >= k
        else:
            assert value is None or isinstance(value, str | bool)

    check(releasable(report, k))


@pytest.mark.parametrize("said", ["stack", True, ["stack", "joint"]])
def test_a_text_or_truth_value_leaves_only_where_a_metric_of_its_group_would(said: Json) -> None:
    small: dict[str, Json] = {"people": 9, "best": said}
    rare: dict[str, Json] = {"people": 50, "classes": {"yes": 47, "no": 3}, "best": said}
    large: dict[str, Json] = {"people": 50, "classes": {"yes": 30, "no": 20}, "best": said}
    assert suppressed(releasable(small, 10)["best"]) == "stands on fewer than 10 people"
    assert suppressed(releasable(rare, 10)["best"]) == "a class has fewer than 10 people"
    assert releasable(large, 10)["best"] == said
    assert releasable({"note": said}, 10) == {"note": said}
