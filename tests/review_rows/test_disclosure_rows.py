"""Rows R8, R10, R11 and R22 of the review list: what a description of columns, or a size, may tell."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from protocols.contributors import around_quantile, dominated, significant
from protocols.disclosure import Hidden, coarse_overlap, overlap_report, releasable
from protocols.program import Json, Outcome, simulate
from vertical.describe import DescribeConfig, describe_program
from vertical.table import CategoricalColumn, Column, NumericColumn, PartyData, Table

K = 10


def numbers(values: Sequence[float], name: str = "spend") -> NumericColumn:
    return NumericColumn(name=name, values=np.array(values, np.float64))


def levels(codes: Sequence[int], *names: str) -> CategoricalColumn:
    return CategoricalColumn(name="town", codes=np.array(codes, np.int32), levels=names)


def data_of(*columns: Column, keys: Sequence[str] = ()) -> PartyData:
    table = Table(columns)
    names = keys or [f"person {row}" for row in range(table.rows)]
    return PartyData(
        keys=tuple(name.encode() for name in names), table=table, split=np.zeros(table.rows, np.uint8)
    )


def outcome_of(data: PartyData, k: int = K, **settings: object) -> Outcome:
    config = DescribeConfig(**settings)  # type: ignore[arg-type]
    found = simulate({"holder": describe_program(data, config, k)})["holder"]
    assert isinstance(found, Outcome)
    return found


def told(data: PartyData, k: int = K, **settings: object) -> dict[str, Json]:
    return releasable(outcome_of(data, k, **settings).report, k)


def group(report: Mapping[str, Json], name: str = "spend") -> Mapping[str, Json]:
    found = report[f"column {name}"]
    assert isinstance(found, Mapping)
    return found


def reason(value: Json) -> str:
    assert isinstance(value, Mapping), value
    return str(value["reason"])


def test_R8_twelve_rows_of_two_people_are_two_people() -> None:
    twelve = numbers([float(x) for x in range(1, 13)])
    rows_of_two = told(data_of(twelve, keys=["ann", "bob"] * 6))
    assert reason(rows_of_two["people"]) == "fewer than 10 people"
    assert reason(group(rows_of_two)["people"]) == "fewer than 10 people"
    assert reason(group(rows_of_two)["mean"]) == "stands on fewer than 10 people"
    rows_of_twelve = told(data_of(twelve))
    assert (rows_of_twelve["people"], group(rows_of_twelve)["mean"]) == (12, 6.5)


def test_R8_an_unknown_number_of_people_has_a_reason_of_its_own() -> None:
    assert reason(releasable({"mean": 0.5}, K)["mean"]) == "unknown number of people"


def test_R8_levels_with_few_people_are_neither_counted_nor_named() -> None:
    town = levels([0] * 30 + [1] * 20 + [2] * 3, "Ghent", "Bruges", "Hamlet")
    classes = group(told(data_of(town)), "town")["classes"]
    assert isinstance(classes, Mapping)
    assert "Hamlet" not in classes
    assert classes["Ghent"] == 30
    # the total is told, so the next smallest goes too: else the three would be the rest
    assert [isinstance(classes[name], int) for name in ("Bruges", "(rare levels)")] == [False, False]


@pytest.mark.parametrize(("missing", "is_told"), [(0, True), (3, False), (12, True)])
def test_R8_few_missing_cells_hide_the_column(missing: int, is_told: bool) -> None:
    spend = numbers([1.0] * 40 + [float("nan")] * missing)
    shown = group(told(data_of(spend)))
    assert isinstance(shown["people"], int) is is_told


def test_R10_one_customer_who_makes_up_the_sum_hides_it() -> None:
    spend = [900.0, 50.0, 50.0, *[1.0] * 9]  # 900 of 1009 is 89.2 %
    shown = group(told(data_of(numbers(spend))))
    assert shown["people"] == 12
    assert reason(shown["mean"]) == "1 person has more than 85 % of the sum"
    assert group(told(data_of(numbers(spend)), dominance_percent=90))["mean"] == 84.1
    assert dominated(np.array([-900.0, 50.0, 59.0]), 1, 85)
    assert dominated(np.array([50.0, 45.0, 5.0]), 2, 85)
    assert not dominated(np.zeros(12), 1, 85)


def test_R10_rows_of_one_person_count_together() -> None:
    """Nine rows of 100 by one person, eleven people with 1: no row dominates, the person has 900 of 911."""
    values = numbers([100.0] * 9 + [1.0] * 11)
    keys = ["ann"] * 9 + [f"p{i}" for i in range(11)]
    assert "1 person has more" in reason(group(told(data_of(values, keys=keys)))["mean"])


def test_R11_no_smallest_or_largest_value_is_told_and_quantiles_need_people_on_both_sides() -> None:
    shown = group(told(data_of(numbers([float(x) for x in range(12)]))))
    assert not {"min", "max"} & shown.keys()
    quantiles = shown["quantiles"]
    assert isinstance(quantiles, Mapping)
    assert {reason(each) for each in quantiles.values()} == {"fewer than 10 people lie on one side of it"}
    ordered = np.arange(100.0)
    for share in (0.0, 0.05, 0.95, 1.0):
        assert around_quantile(ordered, share, K) is None, share
    many = group(told(data_of(numbers(list(ordered)))))["quantiles"]
    assert many == {"25%": 24.5, "50%": 49.5, "75%": 74.5}


def test_R11_a_quantile_is_nobodys_own_value() -> None:
    values = [float(x * x) for x in range(100)]
    quantiles = group(told(data_of(numbers(values))))["quantiles"]
    assert isinstance(quantiles, Mapping)
    assert not {float(str(each)) for each in quantiles.values()} & set(values)


def test_means_have_three_digits() -> None:
    assert [significant(x) for x in (123456.0, -0.0123456, 0.0, 84.09)] == [123000.0, -0.0123, 0.0, 84.1]


@pytest.mark.parametrize("name", ["settings", "people", "values", "classes", "suppressed"])
def test_a_columns_name_is_no_word_of_the_report(name: str) -> None:
    shown = told(data_of(numbers([900.0, *[1.0] * 4], name)))
    assert "900" not in str(shown)
    assert reason(group(shown, name)["mean"]) == "stands on fewer than 10 people"


def test_R22_an_overlap_below_k_is_no_number() -> None:
    size, hidden = coarse_overlap(7, (100, 100), K)
    assert (size, hidden) == (0, Hidden.SMALL)
    assert overlap_report(size, hidden, K) == {"suppressed": "<10", "reason": "fewer than 10 people"}
