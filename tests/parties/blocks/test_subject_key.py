"""Keys of any exact type become the same text; what isn't exact, or isn't one row per person, is refused by counts."""

import decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parties.blocks.key_text import KeyOffer, check_agreement, key_format
from parties.blocks.subject_key import DigitsRule, Duplicates, TextRule, parse_rule, read_keys
from protocols.errors import SubjectKeyError

TEXT = TextRule()


def column(values, kind=None):
    return pa.chunked_array([pa.array(values, kind or pa.large_string())])


def keys(values, rule=TEXT, kind=None, **more):
    return read_keys("cust_id", column(values, kind), rule, **more)


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
    found = read_keys("cust_id", column(np.array([1, 2000], np.float16), pa.float16()), TEXT)
    assert found.texts.to_pylist() == ["1", "2000"]
    with pytest.raises(SubjectKeyError, match=r"2\*\*11"):
        read_keys("cust_id", column(np.array([1, 2050], np.float16), pa.float16()), TEXT)


@pytest.mark.parametrize("kind", [pa.bool_(), pa.date32(), pa.timestamp("s")])
def test_types_without_one_text_are_refused(kind):
    with pytest.raises(SubjectKeyError, match="cust_id"):
        read_keys("cust_id", column([None], kind), TEXT)


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


@pytest.mark.parametrize("text", ["text", "text@1", "digits:8", "digits:8@1"])
def test_rules_are_named_with_their_version(text):
    rule = parse_rule(text)
    assert rule.identifier == text.split("@")[0] + "@1"
    assert parse_rule(rule.identifier) == rule


@pytest.mark.parametrize(
    "text",
    ["", "email", "digits", "digits:", "digits:0", "digits:65", "digits:x", "text:3", "text@2", "TEXT"],
)
def test_unknown_rules_are_refused(text):
    with pytest.raises(SubjectKeyError, match="key rule"):
        parse_rule(text)


def test_a_repr_holds_no_key():
    assert "k1" not in repr(keys(["k1", "k2"]))


def offer(party, values, rule=TEXT):
    found = keys(values, rule)
    return KeyOffer(party=party, column="cust_id", rule=rule.identifier, form=key_format(found.texts))


def test_zero_padded_against_plain_numbers_says_that_the_formats_differ():
    bank = offer("bank", ["007", "012", "100"])
    shop = offer("shop", ["7", "50", "12", "60", ""])
    with pytest.raises(
        SubjectKeyError, match=r"formats.*cust_id.*fixed width 3, with leading zeros.*variable width"
    ):
        check_agreement(bank, shop)
    with pytest.raises(SubjectKeyError, match="formats"):
        check_agreement(shop, bank)
    padded = [
        offer("bank", ["007", "012", "100"], DigitsRule(3)),
        offer("shop", ["7", "12", ""], DigitsRule(3)),
    ]
    check_agreement(*padded)


def test_formats_that_can_match_pass():
    check_agreement(offer("bank", ["1", "22"]), offer("shop", ["22", "333"]))
    check_agreement(offer("bank", ["123", "456"]), offer("shop", ["1", "456"]))
    check_agreement(offer("bank", ["c3", "a1"]), offer("shop", ["12", "13"]))
    with pytest.raises(SubjectKeyError, match="formats"):
        check_agreement(offer("bank", ["123", "456"]), offer("shop", ["12", "13"]))


def test_different_rules_are_refused_first():
    with pytest.raises(SubjectKeyError, match="text@1 and digits:3@1"):
        check_agreement(offer("bank", ["007"]), offer("shop", ["7"], DigitsRule(3)))


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
