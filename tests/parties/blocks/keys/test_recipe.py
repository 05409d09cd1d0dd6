"""Recipes: how rules are written, versioned, joined; no two different rows of parts give one key."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parties.blocks.keys.recipe import joined, parse_recipe
from protocols.errors import SubjectKeyError


def column(values):
    return pa.chunked_array([pa.array(values, pa.large_string())])


@pytest.mark.parametrize(
    ("text", "identifier"),
    [
        ("text", "text@1"),
        ("text@1", "text@1"),
        ("text:trim", "text:trim@1"),
        ("digits:8", "digits:8@1"),
        ("code", "code@1"),
        ("email:outlook,gmail", "email:gmail,outlook@1"),
        ("phone:DE", "phone:DE@1"),
        ("date:DD.MM.YYYY", "date:DD.MM.YYYY@1"),
        ("name+name + date+digits:4", "composite@1(name@1+name@1+date@1+digits:4@1)"),
    ],
)
def test_rules_are_named_with_their_version(text, identifier):
    recipe = parse_recipe(text)
    assert recipe.identifier == identifier
    assert parse_recipe(identifier) == recipe


@pytest.mark.parametrize(
    "text",
    [
        "",
        "emails",
        "digits",
        "digits:",
        "digits:0",
        "digits:65",
        "digits:x",
        "text:3",
        "text@2",
        "TEXT",
        "code:3",
        "name:de",
        "email:mail.ru",
        "phone:de",
        "phone:ZZ",
        "date:DD.MM.YY",
        "date:DD.MM-YYYY",
        "date:DD.DD.YYYY",
        "date:DD.MM.YYYY,MM.DD.YYYY",
        "date:YYYY-DD-MM",
        "name+",
        "name+magic",
        "composite@2(name@1+name@1)",
        "+".join(["name"] * 9),
    ],
)
def test_unknown_rules_are_refused(text):
    with pytest.raises(SubjectKeyError, match="key rule"):
        parse_recipe(text)


def test_key_columns_are_as_many_as_parts():
    assert parse_recipe("text").columns("a,b") == ("a,b",)
    assert parse_recipe("name+date").columns("surname, birth date") == ("surname", "birth date")
    for wrong in ("a", "a,b,c", "a,a", "a,", ""):
        with pytest.raises(SubjectKeyError, match="2 parts"):
            parse_recipe("name+date").columns(wrong)


def test_parts_are_joined_by_length():
    keys = joined([column(["ab", "a", None, "é"]), column(["c", "bc", "x", "1:"])])
    assert keys.to_pylist() == ["2:ab1:c", "1:a2:bc", None, "2:é2:1:"]


part = st.text(st.sampled_from("1:a é\x1f"), max_size=4)


@given(st.lists(st.tuples(part, part, part), min_size=2, max_size=8))
def test_different_parts_give_different_keys(rows):
    keys = joined([column(cells) for cells in zip(*rows, strict=True)]).to_pylist()
    assert len(set(keys)) == len(set(rows))
