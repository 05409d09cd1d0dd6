"""Two parties' rules and formats are compared before any message; what can't match is refused, telling of nobody."""

import pyarrow as pa
import pytest

from parties.blocks.keys.agreement import KeyOffer, check_agreement
from parties.blocks.keys.reading import read_keys
from parties.blocks.keys.recipe import parse_recipe
from protocols.errors import SubjectKeyError


def offer(party, values, rule="text"):
    recipe = parse_recipe(rule)
    cells = {"cust_id": pa.chunked_array([pa.array(values, pa.large_string())])}
    found = read_keys(cells, recipe)
    return KeyOffer(party=party, column="cust_id", rule=recipe.identifier, forms=found.forms)


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
        offer("bank", ["007", "012", "100"], "digits:3"),
        offer("shop", ["7", "12", ""], "digits:3"),
    ]
    check_agreement(*padded)


def test_formats_that_can_match_pass():
    check_agreement(offer("bank", ["1", "22"]), offer("shop", ["22", "333"]))
    check_agreement(offer("bank", ["123", "456"]), offer("shop", ["1", "456"]))
    check_agreement(offer("bank", ["c3", "a1"]), offer("shop", ["12", "b3"]))
    with pytest.raises(SubjectKeyError, match="formats"):
        check_agreement(offer("bank", ["123", "456"]), offer("shop", ["12", "13"]))


def test_different_rules_are_refused_first():
    with pytest.raises(SubjectKeyError, match="text@1 and digits:3@1"):
        check_agreement(offer("bank", ["007"]), offer("shop", ["7"], "digits:3"))


@pytest.mark.parametrize(
    ("bank", "shop", "told"),
    [
        (["ab1", "cd2"], ["AB1", "CD2", "X9"], "lower-case letters in all.*lower-case letters in no"),
        (["a-1", "b-2"], ["a1", "b2"], "other characters in all.*other characters in no"),
        (["a@x.de"], ["12"], "text.*against digits"),
        (["a12", "b34"], ["a123", "b345"], "fixed width 3.*fixed width 4"),
    ],
)
def test_forms_that_share_no_key_are_refused_whatever_the_rule(bank, shop, told):
    with pytest.raises(SubjectKeyError, match=told) as caught:
        check_agreement(offer("bank", bank), offer("shop", shop))
    assert not any(key in str(caught.value) for key in (*bank, *shop) if len(key) > 2)


@pytest.mark.parametrize(
    ("bank", "shop"),
    [("phone:DE", "phone:AT"), ("date:DD.MM.YYYY", "date"), ("email:gmail,outlook", "email:outlook,gmail")],
)
def test_how_own_cells_are_read_may_differ(bank, shop):
    cells = {"phone": "+4930901820", "date": "1980-01-02", "email": "a@example.org"}
    value = [cells[bank.split(":")[0]]]
    check_agreement(offer("bank", value, bank), offer("shop", value, shop))


@pytest.mark.parametrize(
    ("bank", "shop"),
    [("email", "email:gmail"), ("text", "text:trim"), ("digits:8", "digits:9"), ("code", "text")],
)
def test_what_decides_the_keys_may_not_differ(bank, shop):
    value = ["a@example.org"] if bank == "email" else ["12345678"]
    with pytest.raises(SubjectKeyError, match=f"different key rules: {bank}@1 and {shop}@1"):
        check_agreement(offer("bank", value, bank), offer("shop", value, shop))


def test_the_part_whose_format_differs_is_named():
    def side(party, codes):
        cells = {"name": ["Lang"] * len(codes), "zip": codes}
        recipe = parse_recipe("name+text")
        found = read_keys(
            {n: pa.chunked_array([pa.array(c, pa.large_string())]) for n, c in cells.items()}, recipe
        )
        return KeyOffer(party=party, column="name,zip", rule=recipe.identifier, forms=found.forms)

    with pytest.raises(SubjectKeyError, match=r"'name,zip'.*differ in part 2: digits, fixed width 4"):
        check_agreement(side("bank", ["0123", "4567"]), side("shop", ["123", "4567"]))
