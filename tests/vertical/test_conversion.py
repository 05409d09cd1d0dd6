"""Cells of every kind that a DataFrame may hold, as numbers or levels."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from protocols.errors import BlockError
from vertical.conversion import columns_of, is_missing, to_codes, to_column, to_table
from vertical.table import CategoricalColumn, DateColumn, NumericColumn


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (np.array([1, 2], np.int8), [1, 2]),
        ([True, False], [1, 0]),
        ([1, None], [1, np.nan]),
        (pd.Series([1, None], dtype="Int64"), [1, np.nan]),
        (np.array([np.inf, np.nan], np.float32), [np.inf, np.nan]),
        (np.array(["1970-01-03", "NaT"], "datetime64[s]"), [2, np.nan]),
        (pd.Series(pd.to_datetime(["1970-01-02 12:00", None])), [1.5, np.nan]),
        (pd.Series(pd.to_timedelta([6, None], unit="h")), [0.25, np.nan]),
        ([None, None], [np.nan, np.nan]),
        ([Decimal("1.5"), None, Decimal("sNaN")], [1.5, np.nan, np.nan]),
        ([10**400, -(10**400)], [np.inf, -np.inf]),
        ([2**64, 2**63], [2**64, 2**63]),
    ],
)
def test_numbers_dates_and_truth_values_become_numbers(cells, values):
    column = to_column("x", cells)
    assert isinstance(column, NumericColumn)
    np.testing.assert_array_equal(column.values, values)


HERE = datetime.timezone(datetime.timedelta(hours=2))


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (np.array(["1970-01-03", "NaT"], "datetime64[D]"), [2, np.nan]),
        ([datetime.date(1970, 1, 3), None], [2, np.nan]),
        ([datetime.datetime(1970, 1, 2, 14, tzinfo=HERE), pd.NaT], [1.5, np.nan]),
        (pd.Series(pd.to_datetime(["1970-01-02 14:00", None])).dt.tz_localize(HERE), [1.5, np.nan]),
        ([datetime.date(1, 1, 1), datetime.date(9999, 12, 31)], [-719162, 2932896]),
        ([datetime.datetime(1, 1, 1, 0, tzinfo=HERE)], [-719162 - 2 / 24]),
        (np.array(["-5230", "200370"], "datetime64[Y]"), [-18 * 146_097, 496 * 146_097]),
    ],
)
def test_dates_are_told_apart_from_other_numbers(cells, values):
    column = to_column("since", cells)
    assert isinstance(column, DateColumn)
    np.testing.assert_array_equal(column.values, values)


def test_a_column_without_a_value_is_what_it_must_be():
    table = to_table(
        {"since": [None, None], "job": [None, None]}, {"since": DateColumn, "job": CategoricalColumn}
    )
    assert [type(column) for column in table.columns] == [DateColumn, CategoricalColumn]
    with pytest.raises(
        BlockError, match="'since': expected dates, as when the model was trained, came numbers"
    ):
        to_table({"since": [1.0]}, {"since": DateColumn})


def test_dates_are_no_numbers_unless_none_is_there():
    with pytest.raises(BlockError, match=r"'age': expected numbers, .* came dates") as caught:
        to_table({"age": np.array(["2020-01-01"], "datetime64[D]")}, {"age": NumericColumn})
    assert "give the numbers" in caught.value.remedy
    (column,) = to_table({"age": [pd.NaT]}, {"age": NumericColumn}).columns
    assert type(column) is NumericColumn


def test_dates_too_far_away_to_count_their_time_are_refused():
    with pytest.raises(BlockError, match="column 'since': 1 dates are out of range"):
        to_column("since", np.array(["300000-01-01", "2000-01-01", "NaT"], "datetime64[D]"))


def test_numbers_are_no_dates():
    assert not isinstance(to_column("age", [1, 2]), DateColumn)
    assert not isinstance(to_column("age", [None, None]), DateColumn)
    assert isinstance(to_column("mixed", [datetime.date(1970, 1, 3), "later"]), CategoricalColumn)


@pytest.mark.parametrize(
    ("cells", "levels", "codes"),
    [
        (["b", "a", None], ("a", "b"), [1, 0, -1]),
        (np.array(["b", "a"]), ("a", "b"), [1, 0]),
        (pd.Series(["b", pd.NA], dtype="string"), ("b",), [0, -1]),
        (pd.Series([7, 5, 7], dtype="category"), ("5", "7"), [1, 0, 1]),
        (["a", 1.5], ("1.5", "a"), [1, 0]),
    ],
)
def test_everything_else_becomes_levels(cells, levels, codes):
    column = to_column("x", cells)
    assert isinstance(column, CategoricalColumn)
    assert column.levels == levels
    assert column.codes.tolist() == codes


def test_a_column_without_a_value_takes_the_kind_it_must_have():
    (column,) = to_table({"x": [None, np.nan]}, {"x": CategoricalColumn}).columns
    assert isinstance(column, CategoricalColumn)
    assert column.codes.tolist() == [-1, -1]
    with pytest.raises(
        BlockError, match="column 'x': expected texts, as when the model was trained, came numbers"
    ):
        to_table({"x": [None, 1.0]}, {"x": CategoricalColumn})


def test_tables_of_all_forms_have_named_columns():
    array = np.arange(6).reshape(3, 2)
    assert list(columns_of(array)) == ["x0", "x1"]
    assert list(columns_of(array.tolist())) == ["x0", "x1"]
    assert list(columns_of(pd.DataFrame(array, columns=["a", 2]))) == ["a", "2"]
    assert list(columns_of({"a": [1, 2]})) == ["a"]
    with pytest.raises(BlockError, match=r"two dimensions, came an array of shape \(3,\)"):
        columns_of(np.zeros(3))
    with pytest.raises(BlockError, match="column 'a': expected one dimension"):
        to_table({"a": np.zeros((2, 2))})


@pytest.mark.parametrize(
    "cell", [None, float("nan"), np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), Decimal("NaN")]
)
def test_what_is_missing(cell):
    assert is_missing(cell)


@pytest.mark.parametrize("cell", [0, "", "nan", False, np.datetime64("2020"), 1.0])
def test_what_is_not_missing(cell):
    assert not is_missing(cell)


@pytest.mark.parametrize(
    ("labels", "missing_label", "codes", "classes"),
    [
        ([3, 1, -1], -1, [1, 0, -1], (1, 3)),
        ([3, 1, -1], None, [2, 1, 0], (-1, 1, 3)),
        (["b", None, "a"], -1, [1, -1, 0], ("a", "b")),
        (np.array([1.0, np.nan]), -1, [0, -1], (1.0,)),
        (pd.Series(["x", "?"]), "?", [0, -1], ("x",)),
        (["a", 2, "a"], -1, [1, 0, 1], (2, "a")),
        ([], -1, [], ()),
    ],
)
def test_labels_become_codes(labels, missing_label, codes, classes):
    found, names = to_codes(labels, missing_label)
    assert found.tolist() == codes
    assert names == classes
