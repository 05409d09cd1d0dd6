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
