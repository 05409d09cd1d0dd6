"""The owner's check of a file: tables of counts, the same numbers as a document, and no key in either."""

import json

import pytest

from parties.blocks.block import BlockSpec
from parties.blocks.keys.reading import Duplicates
from parties.roles.checking import check_file
from protocols.errors import BlockError, SubjectKeyError

TEXT = (
    "who;born;x\nSENTINEL One;1.2.1980;1\nsentinel one;01.02.1980;2\nSENTINEL Two;3.4.1990;3\n;5.6.1999;4\n"
)


def checked(folder, text=TEXT, key="who,born", rule="name+date:DD.MM.YYYY", **more):
    path = folder / "shop.csv"
    path.write_text(text, encoding="utf-8")
    return check_file(path, BlockSpec(name="check", subject_key=key, key_rule=rule, **more))


def test_the_tables_say_what_would_be_lost(tmp_path):
    document, text = checked(tmp_path, duplicates=Duplicates.FIRST)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == "shop.csv: utf-8 text separated by ';'"
    assert any(
        line.startswith("who name@1 1 0 0 text, fixed width 11, lower-case letters in all") for line in lines
    )
    assert "2 different keys in 4 rows; 1 key repeated, in 2 rows" in lines
    assert (
        "certainly lost by exact matching: 2 rows (50.0%): 1 blank, 0 unusable, 1 with repeated keys" in lines
    )
    assert "who 4 0" in lines
    assert (document["certainly_lost"], document["perhaps_lost"]) == (2, 0)
    assert "sentinel" not in (text + json.dumps(document)).lower()


def test_texts_that_count_as_no_key_are_told_one_by_one(tmp_path):
    text = "who;x\nNa;1\nna;2\nunknown;3\n;4\nSENTINEL;5\n"
    document, shown = checked(tmp_path, text, "who", "text")
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert [line for line in lines if line in SAID] == ["who (empty) 1", "who na 2", "who unknown 1"]
    assert "a text that is a key here, such as the name Na: --key-present 'na'" in lines
    assert document["blanks"][1] == {"column": "who", "text": "na", "rows": 2}
    assert "such as the name Na" not in checked(tmp_path)[1]


SAID = {"who (empty) 1", "who na 2", "who unknown 1"}


@pytest.mark.parametrize(
    ("days", "suggested"),
    [
        (["31.1.1980", "01.02.1981", "2.3.1982"], ["date:DD.MM.YYYY"]),
        (["01/31/1980", "02/01/1981", "2/3/1982"], ["date:MM/DD/YYYY"]),
        (["1/2/1980", "2/3/1981", "3/4/1982"], ["date:DD/MM/YYYY", "date:MM/DD/YYYY"]),
        (["1980-01-31", "1981-02-01", "1982-03-02"], []),
        (["31.1.1980", "red", "blue"], []),
    ],
)
def test_a_column_of_dates_is_offered_its_pattern(tmp_path, days, suggested):
    text = "born;x\n" + "".join(f"{day};{n}\n" for n, day in enumerate(days))
    document, shown = checked(tmp_path, text, "born", "text")
    rules = [found["rule"] for found in document["alternatives"] if "date:" in found["rule"]]
    assert rules == [f"{rule}@1" for rule in suggested]
    assert all(f"{rule}@1" in shown for rule in suggested)


def test_free_text_beside_the_keys_is_named(tmp_path):
    rows = "".join(f"k{n};Comment number {n} of nobody;{'ab'[n % 2]}\n" for n in range(20))
    document, shown = checked(tmp_path, "who;said;x\n" + rows, "who", "text")
    assert document["free_text"] == ["said"]
    assert "column 'said' is free text: `block add` refuses it, give --ignore 'said'" in shown
    assert "Comment" not in shown


def test_repeated_keys_are_told_to_stand_in_the_way(tmp_path):
    document, text = checked(tmp_path)
    assert "`block add` refuses the file unless" in text
    assert document["certainly_lost"] == 3


def test_exact_text_shows_ways_of_writing_and_other_rules(tmp_path):
    document, text = checked(tmp_path, key="who", rule="text")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "letter case 2 1" in lines
    assert "who name@1 3 3 1" in lines
    assert document["ways"][0]["name"] == "blanks"
    assert "perhaps lost: 0 rows (0.0%)" in text


@pytest.mark.parametrize(
    ("text", "key", "error", "told"),
    [
        ("who;x\n", "who", BlockError, "no rows"),
        ("who;x\n;1\n", "who", SubjectKeyError, "no usable key in 1 row"),
        ("who;x\nSENTINEL;1\n", "name", BlockError, "no column 'name'"),
        ("who;x\nSENTINEL;1;2\n", "who", BlockError, "line 2: 3 fields"),
    ],
)
def test_a_file_without_keys_is_refused(tmp_path, text, key, error, told):
    with pytest.raises(error, match=told) as caught:
        checked(tmp_path, text, key, "text")
    assert "SENTINEL" not in str(caught.value)
