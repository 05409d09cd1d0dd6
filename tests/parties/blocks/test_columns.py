"""Column kinds, with the readings that are refused because there are two of them."""

import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parties.blocks.columns import CellRules, ColumnKind, Infinite, typed_column
from protocols.errors import BlockError
from vertical.table import CategoricalColumn, NumericColumn

RULES = CellRules()


def cells(values, kind=None):
    return pa.chunked_array([pa.array(values, kind or pa.large_string())])


def typed(values, kind=None, rules=RULES, arrow=None):
    return typed_column("amt", cells(values, arrow), kind, rules)


def numbers(values, **more):
    column = typed(values, **more)
    assert isinstance(column, NumericColumn)
    return [None if np.isnan(value) else float(value) for value in column.values]


def levels(values, **more):
    column = typed(values, **more)
    assert isinstance(column, CategoricalColumn)
    return [None if code < 0 else column.levels[code] for code in column.codes], column.levels


def test_numbers_with_missing_tokens():
    assert numbers([" 1", "2.5", "?", "", "NA", "1e3", "-.5", "+4"]) == [
        1,
        2.5,
        None,
        None,
        None,
        1000,
        -0.5,
        4,
    ]


def test_levels_are_sorted_and_trimmed():
    assert levels([" b", "a", "?", "b"]) == (["b", "a", None, "b"], ("a", "b"))


def test_the_kind_can_be_chosen():
    assert levels(["1", "2", "1"], kind=ColumnKind.CATEGORICAL)[1] == ("1", "2")
    assert levels([1, 2, None], kind=ColumnKind.CATEGORICAL, arrow=pa.float64()) == (
        ["1", "2", None],
        ("1", "2"),
    )
    assert levels([1.5, None, 1.5], kind=ColumnKind.CATEGORICAL, arrow=pa.float64())[0] == [
        "1.5",
        None,
        "1.5",
    ]
    with pytest.raises(BlockError, match="'amt': 2 of 3 cells are not numbers"):
        typed(["1", "x", "y", ""], kind=ColumnKind.NUMERIC)


@pytest.mark.parametrize(
    "arrow", [pa.int8(), pa.int64(), pa.uint16(), pa.float32(), pa.float64(), pa.decimal128(9, 1)]
)
def test_number_types_of_parquet(arrow):
    assert numbers([1, None, 3], arrow=arrow) == [1, None, 3]


def test_other_types_of_parquet():
    assert levels([True, None, False], arrow=pa.bool_())[1] == ("false", "true")
    day = [datetime.date(2020, 1, 2)]
    assert levels(day, kind=ColumnKind.CATEGORICAL, arrow=pa.date32())[1] == ("2020-01-02",)
    assert numbers([None, None]) == [None, None]


@pytest.mark.parametrize("bad", ["inf", "-Infinity", "1e400"])
def test_infinite_values_are_refused_by_default(bad):
    with pytest.raises(BlockError, match="'amt': 1 infinite"):
        typed(["1", bad])
    assert numbers(["1", bad], rules=CellRules(infinite=Infinite.MISSING)) == [1, None]
    with pytest.raises(BlockError, match="1 infinite"):
        typed([1.0, float("inf")], arrow=pa.float64())


def test_decimal_commas_are_asked_for():
    with pytest.raises(BlockError, match="commas"):
        typed(["1,5", "2"])
    with pytest.raises(BlockError, match="commas"):
        typed(["1,234.5", "2"])
    assert numbers(["1,5", "2"], rules=CellRules(decimal=",")) == [1.5, 2]
    with pytest.raises(BlockError, match="1 of 2 cells are not numbers"):
        typed(["1.234", "2"], kind=ColumnKind.NUMERIC, rules=CellRules(decimal=","))


def test_codes_with_leading_zeros_are_no_quantities():
    assert levels(["01234", "99999"])[1] == ("01234", "99999")
    assert numbers(["0", "0.5", "10"]) == [0, 0.5, 10]


def test_a_few_words_among_many_numbers_are_refused():
    with pytest.raises(BlockError, match="'amt': 1 of 101 cells are not numbers"):
        typed([str(i) for i in range(100)] + ["broken"])
    assert levels(["0", "1", "2", "3+", "1"])[1] == ("0", "1", "2", "3+")


def test_too_many_levels():
    many = [f"w{i:04d}" for i in range(1001)]
    with pytest.raises(BlockError, match="1001 levels, at most 1000") as caught:
        typed(many)
    assert caught.value.remedy
    assert len(levels(many[:1000])[1]) == 1000


@pytest.mark.parametrize("kind", [None, ColumnKind.CATEGORICAL])
def test_free_text_is_no_category(kind):
    said = [f"SENTINEL wrote line {n} of it" for n in range(20)]
    with pytest.raises(BlockError, match="'amt' is free text: 20 different texts") as caught:
        typed(said, kind=kind)
    assert "--ignore 'amt'" in caught.value.remedy
    assert "SENTINEL" not in str(caught.value)
    assert len(levels([*said, said[0]])[1]) == 20  # somebody shares a text
    assert len(levels(said[:19])[1]) == 19
    assert len(levels([text[-20:] for text in said])[1]) == 20


@given(st.lists(st.one_of(st.none(), st.floats(allow_infinity=False)), min_size=1, max_size=40))
def test_text_and_binary_numbers_agree(values):
    text = typed([None if value is None else repr(value) for value in values], kind=ColumnKind.NUMERIC)
    binary = typed(values, arrow=pa.float64())
    np.testing.assert_array_equal(text.values, binary.values)


@given(st.lists(st.one_of(st.none(), st.text(max_size=4)), min_size=1, max_size=40))
def test_levels_agree_with_a_plain_loop(values):
    absent = {"", "?", "#n/a", "<na>", "n/a", "na", "nan", "nat", "null"}
    plain = [None if value is None or value.strip().lower() in absent else value.strip() for value in values]
    found, names = levels(values, kind=ColumnKind.CATEGORICAL)
    assert found == plain
    assert names == tuple(sorted({value for value in plain if value is not None}))
