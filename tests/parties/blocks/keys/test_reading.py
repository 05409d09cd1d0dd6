"""Keys of any exact type become the same text; what isn't exact, or isn't one row per person, is refused by counts."""

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parties.blocks.keys.exact import DigitsRule, TextRule
from parties.blocks.keys.reading import Duplicates, KeyPolicy, read_keys
from parties.blocks.keys.recipe import KeyRecipe, parse_recipe
from protocols.errors import SubjectKeyError

TEXT = TextRule()


def column(values, kind=None):
    return pa.chunked_array([pa.array(values, kind or pa.large_string())])


def keys(values, rule=TEXT, kind=None, **more):
    return read_keys({"cust_id": column(values, kind)}, KeyRecipe((rule,)), KeyPolicy(**more))


def composite(rule, columns, **more):
    cells = {name: column(values) for name, values in columns.items()}
    return read_keys(cells, parse_recipe(rule), KeyPolicy(**more))


def texts(values, rule=TEXT, kind=None, **more):
    return keys(values, rule, kind, **more).texts.to_pylist()


def test_text_keys_are_exact():
    assert texts(["007", "7", " 7", "A", "a"]) == ["007", "7", " 7", "A", "a"]


@pytest.mark.parametrize("token", [None, "", "  ", "NA", "nan", "None", "NULL", "?", "n/a", "-", "<NA>"])
def test_missing_tokens_are_counted_and_never_keys(token):
    found = keys(["007", token, "012"])
    assert found.texts.to_pylist() == ["007", "012"]
    assert found.rows.tolist() == [0, 2]
    assert (found.report.rows, found.report.usable, found.report.blank) == (3, 2, 1)


@pytest.mark.parametrize(
    "kind",
    [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64(), pa.float32(), pa.float64()],
)
def test_whole_numbers_of_every_type_are_plain_digits(kind):
    assert texts([7, None, 100], kind=kind) == ["7", "100"]


def test_large_integers_keep_every_digit():
    ids = [9007199254740993, 9007199254740992, None]
    assert texts(ids, kind=pa.int64()) == ["9007199254740993", "9007199254740992"]
    assert texts([2**64 - 1], kind=pa.uint64()) == ["18446744073709551615"]
    assert texts([decimal.Decimal("9007199254740993.00")], kind=pa.decimal128(30, 2)) == ["9007199254740993"]


@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        (pa.float64(), 2.0**53),
        (pa.float64(), -(2.0**60)),
        (pa.float64(), 1.5),
        (pa.float64(), float("inf")),
        (pa.float32(), 2.0**24),
        (pa.float32(), 0.25),
        (pa.decimal128(9, 2), decimal.Decimal("3.25")),
    ],
)
def test_a_floating_point_key_that_may_have_lost_digits_is_refused(kind, bad):
    with pytest.raises(SubjectKeyError, match="cust_id"):
        keys([type(bad)(1), bad], kind=kind)


def test_half_precision_keys_have_their_own_bound():
    found = keys(np.array([1, 2000], np.float16), kind=pa.float16())
    assert found.texts.to_pylist() == ["1", "2000"]
    with pytest.raises(SubjectKeyError, match=r"2\*\*11"):
        keys(np.array([1, 2050], np.float16), kind=pa.float16())


@pytest.mark.parametrize("kind", [pa.bool_(), pa.date32(), pa.timestamp("s")])
def test_types_without_one_text_are_refused(kind):
    with pytest.raises(SubjectKeyError, match="cust_id"):
        keys([None], kind=kind)


@pytest.mark.parametrize("former", [["7.0", "12.0"], ["9.00719925474099E+15", "012"], ["1e+5", "xyzzy"]])
def test_text_that_was_a_float_before_is_refused(former):
    with pytest.raises(SubjectKeyError, match=r"cust_id.*made from numbers") as caught:
        keys(former)
    assert not any(cell in str(caught.value) for cell in former)


def test_some_version_like_keys_are_no_floats():
    assert texts(["1.0", "1.1"]) == ["1.0", "1.1"]


def test_duplicates_are_named_by_count_only():
    with pytest.raises(SubjectKeyError, match="'cust_id' has 1 duplicated key in 2 rows"):
        keys(["k1", "k1", "k2"])
    with pytest.raises(SubjectKeyError, match="1 duplicated key in 3 rows") as caught:
        keys(["k1", "k2", "k2", "k2"])
    assert "k2" not in str(caught.value) + caught.value.remedy


def test_duplicates_first_and_drop():
    first = keys(["k1", "k2", "k2", "k2"], duplicates=Duplicates.FIRST)
    assert (first.texts.to_pylist(), first.rows.tolist()) == (["k1", "k2"], [0, 1])
    drop = keys(["k1", "k2", "k2", "k2"], duplicates=Duplicates.DROP)
    assert (drop.texts.to_pylist(), drop.report.duplicate_rows_left_out) == (["k1"], 3)
    with pytest.raises(SubjectKeyError, match="leaves no row"):
        keys(["k2", "k2"], duplicates=Duplicates.DROP)


def test_blank_rows_before_a_duplicate_do_not_shift_rows():
    found = keys([None, "a", "", "b", "a"], duplicates=Duplicates.FIRST)
    assert found.rows.tolist() == [1, 3]


def test_digits_rule_pads_and_counts_what_it_cannot_use():
    found = keys(["7", " 012 ", "0100", "", "12x", "1234", "٣"], DigitsRule(3))
    assert found.texts.to_pylist() == ["007", "012", "100"]
    assert (found.report.blank, found.report.unusable, found.report.usable) == (1, 3, 3)


def test_keys_that_become_equal_under_a_rule_are_duplicates():
    with pytest.raises(SubjectKeyError, match="1 duplicated key in 2 rows"):
        keys(["7", "007"], DigitsRule(3))


def test_no_usable_key_is_an_error():
    with pytest.raises(SubjectKeyError, match="no usable key in 2 rows"):
        keys(["x", ""], DigitsRule(3))
    with pytest.raises(SubjectKeyError, match="no usable key"):
        keys([None, "NA"])


def test_a_repr_holds_no_key():
    assert "k1" not in repr(keys(["k1", "k2"]))


cells = st.one_of(
    st.none(), st.sampled_from(["", " ", "NA", "?"]), st.integers(0, 10**6).map(str), st.text(max_size=6)
)


@given(st.lists(cells, max_size=30), st.integers(1, 8))
def test_digits_rule_agrees_with_a_plain_loop(values, width):
    blank = {"", "?", "na", "n/a", "#n/a", "<na>", "nan", "nat", "null", "-", "none", "unknown"}
    expected = []
    for value in values:
        text = (value or "").strip()
        if text.lower() in blank or not (text.isascii() and text.isdigit()) or len(text.lstrip("0")) > width:
            continue
        padded = text.lstrip("0").zfill(width)
        if padded not in expected:
            expected.append(padded)
    if not expected:
        with pytest.raises(SubjectKeyError):
            keys(values, DigitsRule(width), duplicates=Duplicates.FIRST)
    else:
        assert texts(values, DigitsRule(width), duplicates=Duplicates.FIRST) == expected


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=30, unique=True))
def test_int64_keys_equal_their_csv_text(values):
    assert texts(values, kind=pa.int64()) == texts([str(value) for value in values])


def test_tokens_that_mean_no_key_can_be_named_and_unnamed():
    assert texts(["999", "na", "7"], missing=("999",)) == ["na", "7"]
    found = keys([" 999 ", "7"], missing=("999",))
    assert (found.report.blank, found.report.usable) == (1, 1)
    with pytest.raises(SubjectKeyError, match="lower case"):
        keys(["7"], missing=("NA",))


PEOPLE = {
    "surname": ["Lang", "Lang", "", "Roth", "Roth"],
    "born": ["1980-01-02", "1980-01-03", "1980-01-02", "31.12.1999", None],
}


def test_a_composite_key_needs_every_part():
    found = composite("name+date", PEOPLE)
    assert found.texts.to_pylist() == ["4:lang10:1980-01-02", "4:lang10:1980-01-03"]
    assert found.rows.tolist() == [0, 1]
    report = found.report
    assert (report.rows, report.usable, report.blank, report.unusable) == (5, 2, 2, 1)
    assert [(part.column, part.blank, part.unusable) for part in report.parts] == [
        ("surname", 1, 0),
        ("born", 1, 1),
    ]


def test_errors_of_composite_keys_name_the_columns_and_counts():
    with pytest.raises(
        SubjectKeyError, match="columns 'surname', 'born' have no usable key in 2 rows"
    ) as caught:
        composite("name+date", {"surname": ["Lang", ""], "born": ["soon", "1980-01-02"]})
    assert "(surname: 1 blank, 0 unfit, born: 0 blank, 1 unfit)" in str(caught.value)
    with pytest.raises(SubjectKeyError, match="have 1 duplicated key in 2 rows"):
        composite("name+date", {"surname": ["Lang", "LANG"], "born": ["1980-01-02", "19800102"]})
    with pytest.raises(SubjectKeyError, match="have 1 of 5 keys that don't fit"):
        composite("name+date", PEOPLE, unusable_share=0.1)
    with pytest.raises(SubjectKeyError, match=r"column 'born'.*made from numbers"):
        composite("name+date", {"surname": ["Lang"], "born": ["19800102.0"]})


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("ns")])
def test_columns_of_days_are_days_where_the_rule_takes_them(kind):
    day = datetime.date(1980, 1, 2)
    values = [day if pa.types.is_date(kind) else datetime.datetime(1980, 1, 2), None]
    assert texts(values, parse_recipe("date").parts[0], kind) == ["1980-01-02"]


def test_times_of_day_are_no_days():
    with pytest.raises(SubjectKeyError, match="'cust_id' has 1 times of day"):
        keys([datetime.datetime(1980, 1, 2, 3)], parse_recipe("date").parts[0], pa.timestamp("us"))
    with pytest.raises(SubjectKeyError, match="'cust_id' has the type"):
        keys([datetime.datetime(1980, 1, 2)], parse_recipe("date").parts[0], pa.timestamp("us", tz="UTC"))
