"""Typed columns and the checks where data enters."""

from __future__ import annotations

import numpy as np
import pytest

from protocols.errors import BlockError
from vertical.table import CategoricalColumn, DateColumn, NumericColumn, PartyData, Split, Table

AMOUNT = NumericColumn(name="amount", values=np.array([1.0, np.nan, 3.0]))
COLOUR = CategoricalColumn(name="colour", codes=np.array([0, -1, 1], np.int32), levels=("red", "blue"))


def party(**changes: object) -> PartyData:
    values: dict[str, object] = {
        "keys": (b"k1", b"k2", b"k3"),
        "table": Table((AMOUNT, COLOUR)),
        "split": np.array([0, 2, 0], np.uint8),
        "labels": np.array([1, -1, 0]),
        "classes": ("no", "yes"),
    }
    return PartyData(**{**values, **changes})  # type: ignore[arg-type]


def test_table_knows_rows_and_names_and_takes_rows_in_order() -> None:
    table = Table((AMOUNT, COLOUR))
    assert (table.rows, table.names) == (3, ("amount", "colour"))
    amount, colour = table.take(np.array([2, 0])).columns
    assert isinstance(amount, NumericColumn)
    assert amount.values.tolist() == [3.0, 1.0]
    assert isinstance(colour, CategoricalColumn)
    assert colour.codes.tolist() == [1, 0]


def test_party_takes_rows_and_finds_a_split() -> None:
    data = party()
    assert data.rows_of(Split.TRAIN).tolist() == [0, 2]
    assert data.rows_of(Split.VALIDATION).tolist() == []
    taken = data.take(np.array([2, 1]))
    assert taken.keys == (b"k3", b"k2")
    assert taken.labels is not None
    assert taken.labels.tolist() == [0, -1]
    assert taken.classes == ("no", "yes")


def test_classes_may_hold_one_that_no_row_has() -> None:
    assert party(classes=("no", "yes", "maybe")).classes == ("no", "yes", "maybe")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"keys": (b"k1",)}, "3 rows, but 1 keys"),
        ({"split": np.array([0, 3, 0], np.uint8)}, "split must be"),
        ({"split": np.array([0, 1, 0], np.int64)}, "split must be"),
        ({"labels": np.array([0, 1])}, "labels: expected int64"),
        ({"labels": np.array([0, 1, 2])}, "1 codes outside the 2 classes"),
        ({"labels": np.array([0, 1, -2])}, "1 codes outside the 2 classes"),
    ],
)
def test_party_refuses_what_does_not_fit(changes: dict[str, object], text: str) -> None:
    with pytest.raises(BlockError, match=text):
        party(**changes)


def test_columns_refuse_wrong_types_and_codes() -> None:
    with pytest.raises(BlockError, match=r"'amount'.*float32"):
        NumericColumn(name="amount", values=np.zeros(3, np.float32))  # type: ignore[arg-type]
    with pytest.raises(BlockError, match=r"'colour'.*int64"):
        CategoricalColumn(name="colour", codes=np.zeros(3, np.int64), levels=("a",))  # type: ignore[arg-type]
    with pytest.raises(BlockError, match="2 codes outside its 1 levels"):
        CategoricalColumn(name="colour", codes=np.array([0, 1, -2], np.int32), levels=("a",))
    with pytest.raises(BlockError, match="listed twice"):
        CategoricalColumn(name="colour", codes=np.zeros(1, np.int32), levels=("a", "a"))


def test_table_refuses_no_columns_equal_names_and_unequal_lengths() -> None:
    with pytest.raises(BlockError, match="needs its number of rows"):
        Table(())
    assert Table((), 4).take(np.array([0, 2])).rows == 2
    with pytest.raises(BlockError, match="differ in length"):
        Table((AMOUNT,), 99)
    with pytest.raises(BlockError, match="used twice: amount"):
        Table((AMOUNT, AMOUNT))
    with pytest.raises(BlockError, match="differ in length"):
        Table((AMOUNT, COLOUR.take(np.array([0]))))


def test_dates_are_days_since_1970() -> None:
    dates = np.array(["1970-01-02", "NaT", "1969-12-31T12:00"], "datetime64[ns]")
    column = DateColumn.of("since", dates)
    np.testing.assert_array_equal(column.values, [1.0, np.nan, -0.5])
    assert isinstance(column.take(np.array([2, 0])), DateColumn)
    assert DateColumn.of("since", dates.astype("datetime64[D]")).values[2] == -1.0
