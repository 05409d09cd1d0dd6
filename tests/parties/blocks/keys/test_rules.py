"""What each rule makes of a cell: examples of every kind, oracles in plain Python, and that a key stays what it is."""

import datetime
import unicodedata

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parties.blocks.keys.recipe import parse_recipe

RULES = (
    "text:trim",
    "digits:5",
    "code",
    "name",
    "email",
    "email:gmail,outlook",
    "phone",
    "phone:DE",
    "date",
    "date:DD.MM.YYYY",
)


def made(rule, values):
    cells = pa.chunked_array([pa.array(values, pa.large_string())])
    return parse_recipe(rule).parts[0].normalise(cells).to_pylist()


def one(rule, value):
    return made(rule, [value])[0]


@pytest.mark.parametrize(
    ("rule", "cell", "key"),
    [
        ("text", " aB ", " aB "),
        ("text:trim", "\t aB\u00a0", "aB"),
        ("text:trim", "  ", None),
        ("code", "sw1a 1aa", "SW1A1AA"),
        ("code", "SW1A-1AA.", "SW1A1AA"),
        ("code", "ＡＢ１２", "AB12"),
        ("code", "007", "007"),
        ("code", "-/-", None),
        ("name", "O'Brien ", "obrien"),
        ("name", "MÜLLER-Lüdenscheidt", "mullerludenscheidt"),
        ("name", "Mu\u0308ller", "muller"),
        ("name", "Straße", "strasse"),
        ("name", "Łódź", "lodz"),
        ("name", "Ångström", "angstrom"),
        ("name", "İREM", "irem"),
        ("name", "Σοφός", "σοφοσ"),
        ("name", "が", "が"),
        ("name", "か", "か"),
        ("name", "हिन्दी", "हिन्दी"),
        ("name", "ﬁnn", "finn"),
        ("name", "...", None),
        ("email", " Ann.Lee@Example.ORG ", "ann.lee@example.org"),
        ("email", "ann+shop@gmail.com", "ann+shop@gmail.com"),
        ("email", "e\u0301@example.org", "é@example.org"),
        ("email", "ann@example", None),
        ("email", "ann lee@example.org", None),
        ("email", "ann\u200b@example.org", None),
        ("email", "a@b@example.org", None),
        ("email", "Ann <ann@example.org>", None),
        ("email", "a@example.org,b@example.org", None),
        ("email", "@example.org", None),
        ("email:gmail", "An.N+shop@googlemail.com", "ann@gmail.com"),
        ("email:gmail", "an.n+shop@example.org", "an.n+shop@example.org"),
        ("email:gmail", "+x@gmail.com", None),
        ("email:outlook", "a.n+x@hotmail.com", "a.n@hotmail.com"),
        ("email:outlook", "a.n+x@gmail.com", "a.n+x@gmail.com"),
        ("phone:DE", "(030) 901820", "+4930901820"),
        ("phone:DE", "0049 30 901820", "+4930901820"),
        ("phone:DE", "+49 (0)30 90 18 20", "+4930901820"),
        ("phone:AT", "+49 30 901820", "+4930901820"),
        ("phone:US", "+1 650-253-0000", "+16502530000"),
        ("phone", "+49 30 901820", "+4930901820"),
        ("phone", "030 901820", None),
        ("phone:DE", "12", None),
        ("phone:US", "650 253 0000 ext. 7", None),
        ("phone:DE", "call me", None),
        ("date", "1980-01-02", "1980-01-02"),
        ("date", "19800102", "1980-01-02"),
        ("date", "1980-01-02T00:00:00", "1980-01-02"),
        ("date", "1980-01-02 00:00:00.000", "1980-01-02"),
        ("date", "1980-01-02 07:00:00", None),
        ("date", "1980-1-2", "1980-01-02"),
        ("date", "02.01.1980", None),
        ("date", "1980-13-01", None),
        ("date", "1981-02-29", None),
        ("date", "1980-02-29", "1980-02-29"),
        ("date", "1900-02-29", None),
        ("date", "2000-02-29", "2000-02-29"),
        ("date", "0001-01-01", None),
        ("date", "9999-12-31", None),
        ("date:DD.MM.YYYY", "2.1.1980", "1980-01-02"),
        ("date:DD.MM.YYYY", "1980-01-02", "1980-01-02"),
        ("date:DD.MM.YYYY", "02/01/1980", None),
        ("date:MM/DD/YYYY,DD.MM.YYYY", "01/02/1980", "1980-01-02"),
        ("date:DDMMYYYY", "02011980", "1980-01-02"),
        ("date:DDMMYYYY", "19800102", "1980-01-02"),
        ("date:DDMMYYYY", "20122012", "2012-12-20"),
    ],
)
def test_what_becomes_of_a_cell(rule, cell, key):
    assert one(rule, cell) == key


def test_nothing_stays_nothing():
    for rule in (*RULES, "text"):
        assert made(rule, [None]) == [None]
        assert made(rule, []) == []


def plain_name(text):
    """The name rule in plain Python, for Latin letters."""
    folded = (
        unicodedata.normalize("NFKD", text).lower().replace("ß", "ss").replace("ø", "o").replace("ł", "l")
    )
    return "".join(c for c in folded if c.isalnum()) or None


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("aBzÄéîÕñçÜßØøŁł'-. 07", max_size=8), max_size=12))
def test_names_agree_with_a_plain_loop(texts):
    assert made("name", texts) == [plain_name(text) for text in texts]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.dates(datetime.date(1700, 1, 1), datetime.date(2300, 1, 1)), min_size=1, max_size=12))
def test_every_day_is_itself_in_every_pattern(days):
    expected = [day.isoformat() if 1800 <= day.year <= 2199 else None for day in days]
    for rule, form in (
        ("date", "%Y-%m-%d"),
        ("date", "%Y%m%d"),
        ("date:DD.MM.YYYY", "%d.%m.%Y"),
        ("date:MM/DD/YYYY", "%m/%d/%Y"),
        ("date:DDMMYYYY", "%d%m%Y"),
        ("date:YYYY MM DD", "%Y %m %d"),
    ):
        assert made(rule, [day.strftime(form) for day in days]) == expected


anything = st.one_of(
    st.text(max_size=8),
    st.text("0123456789-./+ @abcÄİıßςǅ\u0301", max_size=14),
    st.builds("{}@{}.com".format, st.text("aB.+é", max_size=6), st.sampled_from(["Gmail", "hotmail", "x"])),
    st.integers(0, 10**11).map(str),
)


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=60, deadline=None)
@given(cells=st.lists(anything, min_size=1, max_size=20))
def test_a_key_stays_what_it_is(rule, cells):
    keys = made(rule, cells)
    assert all(again == key for key, again in zip(keys, made(rule, keys), strict=True))
    assert "" not in keys
