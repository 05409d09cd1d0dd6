"""Rules that everybody may read: their text, their numbers by hand, and that nothing of a client's rows is in them."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from horizontal.public_rules import CLIP, LevelRule, NumberRule, check_columns, parse_rules, rules_text
from protocols.errors import BlockError, ConfigError

AGE = NumberRule("age", 20.0, 80.0)


def test_a_number_by_hand() -> None:
    values = np.array([20.0, 50.0, 80.0, 95.0, 1e9, -np.inf, np.nan])
    assert AGE.apply(values)[:, 0].tolist() == [-1.0, 0.0, 1.0, 1.5, CLIP, -CLIP, 0.0]


def test_a_category_by_hand() -> None:
    rule = LevelRule("sex", ("f", "m"))
    codes = np.array([0, 1, 2, -1], np.int32)  # of a client whose levels are in another order, with one more
    assert rule.apply(codes, ("m", "x", "f")).tolist() == [[0, 1], [0, 0], [1, 0], [0, 0]]
    assert rule.apply(np.array([-1], np.int32), ()).tolist() == [[0, 0]]


def test_a_span_is_many_columns() -> None:
    rules = parse_rules('[["p0..p2", 0, 16], ["age", 20, 80], ["sex", ["f"]]]')
    assert [rule.name for rule in rules] == ["p0", "p1", "p2", "age", "sex"]
    assert rules_text(rules) == '[["p0..p2",0.0,16.0],["age",20.0,80.0],["sex",["f"]]]'


def test_only_neighbours_alike_make_a_span() -> None:
    rules = (NumberRule("p1", 0, 1), NumberRule("p3", 0, 1), NumberRule("p4", 0, 2), NumberRule("q5", 0, 2))
    assert len(json.loads(rules_text(rules))) == 4


NAMES = st.text(st.sampled_from("ab1.2"), min_size=1, max_size=4).filter(lambda name: ".." not in name)
NUMBERS = st.builds(NumberRule, NAMES, st.sampled_from([0.0, -1.5]), st.sampled_from([1.0, 16.0]))
LEVELS = st.builds(
    LevelRule, NAMES, st.lists(st.text(max_size=5), min_size=1, max_size=3, unique=True).map(tuple)
)


@given(st.lists(NUMBERS | LEVELS, min_size=1, max_size=8, unique_by=lambda rule: rule.name))
def test_the_text_says_the_rules(rules: list[NumberRule | LevelRule]) -> None:
    assert parse_rules(rules_text(rules)) == tuple(rules)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "[" * 100_000,
        '[["age"]]',
        '[["age", 80, 20]]',
        '[["age", 0, 1e999]]',
        '[["age", NaN, 1]]',
        '[["sex", []]]',
        '[["sex", ["f", "f"]]]',
        '[["sex", [1]]]',
        '[["a", 0, 1], ["a", 0, 1]]',
        '[["p1..p3", 0, 1], ["p2", 0, 1]]',
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="features"):
        parse_rules(text)


def test_the_columns_must_be_those_of_the_rules() -> None:
    check_columns((AGE,), ("age",))
    with pytest.raises(BlockError, match="no column age"):
        check_columns((AGE,), ("sex",))
    with pytest.raises(BlockError, match="column sex is opened"):
        check_columns((AGE,), ("age", "sex"))
