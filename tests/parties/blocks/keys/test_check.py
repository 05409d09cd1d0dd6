"""The check counts what exact matching would lose; each number can be counted by hand here."""

import pyarrow as pa
import pytest

from parties.blocks.keys.check import Alternative, Way, Without, check_keys
from parties.blocks.keys.reading import Duplicates
from parties.blocks.keys.recipe import parse_recipe
from parties.blocks.missing import KEY_MISSING_TOKENS
from protocols.errors import SubjectKeyError


def check(rule, **columns):
    cells = {
        name: pa.chunked_array([pa.array(values, pa.large_string())]) for name, values in columns.items()
    }
    return check_keys(cells, parse_recipe(rule), KEY_MISSING_TOKENS)


IDS = ["a-7", "a-8", "a-9", "a-10", "a-11", " a-7", "A-8", "ä-9", "a10", "a-011", "a-11", ""]


def test_each_way_of_writing_is_counted_by_itself():
    found = check("text", cust_id=IDS)
    assert (found.report.rows, found.report.usable, found.report.blank) == (12, 10, 1)
    assert (found.report.duplicated_keys, found.report.duplicate_rows_left_out) == (1, 1)
    assert found.ways == (
        Way(name="blanks", rows=1, merged=1),  # " a-7" becomes "a-7"
        Way(name="letter case", rows=1, merged=1),  # "A-8" becomes "a-8"
        Way(name="accents", rows=1, merged=1),  # "ä-9" becomes "a-9"
        Way(name="punctuation", rows=10, merged=1),  # all but "a10", which "a-10" becomes
        Way(name="any of these", rows=10, merged=4),
    )
    assert found.odd == 3  # punctuation is in most rows, so it's no defect; "a10" has none


def test_zeros_in_front_are_counted_where_the_rule_keeps_them():
    found = check("code", cust_id=["007", "7", "0", "00", "x07"])
    assert found.ways == (Way(name="zeros in front", rows=2, merged=2),)
    assert check("digits:3", cust_id=["007", "12"]).ways == ()


def test_other_rules_are_offered_where_they_fit_and_change_something():
    found = check(
        "text", mail=["Ann@x.org", "ann@x.org", "bob@x.org", "bob+shop@gmail.com", "b.ob@gmail.com"]
    )
    told = {each.rule: each for each in found.alternatives}
    assert set(told) == {"code@1", "name@1", "email@1", "email:gmail,outlook@1"}
    assert told["email@1"] == Alternative(column="mail", rule="email@1", usable=5, rewritten=1, merged=1)
    assert told["email:gmail,outlook@1"].merged == 2


def test_a_width_is_offered_for_numbers():
    found = check("text", cust_id=["7", "007", "0123", "x"])
    digits = next(each for each in found.alternatives if each.rule.startswith("digits"))
    assert digits == Alternative(column="cust_id", rule="digits:3@1", usable=3, rewritten=2, merged=1)


def test_a_composite_key_is_also_seen_without_each_column():
    found = check(
        "name+date",
        surname=["Lang", "Lange", "Roth", ""],
        born=["1980-01-02", "1980-01-02", "19991231", "19991231"],
    )
    assert found.without == (
        Without(column="surname", usable=4, merged=1),  # Lang and Lange were born on one day
        Without(column="born", usable=3, merged=0),
    )
    assert found.report.usable == 3


def test_what_the_duplicates_policy_leaves_out():
    found = check("text", cust_id=["a", "a", "a", "b", "b", "c"])
    assert found.left_out(Duplicates.FIRST) == 3
    assert found.left_out(Duplicates.DROP) == found.left_out(Duplicates.ERROR) == 5


def test_a_column_without_any_key_is_an_error():
    with pytest.raises(SubjectKeyError, match="no usable key"):
        check("date", born=["soon", ""])
