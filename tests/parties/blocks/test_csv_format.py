"""Delimiter and encoding are found where there is one reading; where there are several the owner is asked."""

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parties.blocks.csv_format import CsvFormat, decoded, found_delimiter
from parties.blocks.csv_text import read_csv
from protocols.errors import BlockError

KEYS = ("cust_id",)


def read(folder, text, keys=KEYS, encoding="utf-8", **form):
    path = folder / "data.csv"
    path.write_bytes(text.encode(encoding))
    table, found = read_csv(path, keys=keys, form=CsvFormat(**form))
    return table.to_pydict(), found


@pytest.mark.parametrize("mark", [",", ";", "\t", "|", ":", "^", "~", "\x01", "\x1f", "·"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_any_delimiter_and_every_marked_encoding_is_found(tmp_path, mark, encoding):
    other = ";" if mark == "," else ","
    table, form = read(tmp_path, f"town{mark}cust_id\nKöln{other}x{mark}7\n", encoding=encoding)
    assert table == {"town": [f"Köln{other}x"], "cust_id": ["7"]}
    assert form == CsvFormat(delimiter=mark, encoding=encoding.removesuffix("-sig"))


@pytest.mark.parametrize("order", ["le", "be"])
@pytest.mark.parametrize("width", ["16", "32"])
def test_byte_order_marks_of_both_orders(order, width):
    name = f"utf-{width}-{order}"
    assert decoded("\ufeffcust_id".encode(name), "f", "") == ("cust_id", f"utf-{width}")
    assert decoded("\ufeffcust_id".encode(name), "f", name) == ("cust_id", name)


@pytest.mark.parametrize(
    ("data", "encoding", "told"),
    [
        ("Köln".encode("cp1252"), "", "is not utf-8: byte 1 does not fit"),
        ("cust_id".encode("utf-16-le"), "", "NUL characters"),
        ("\ufeffx".encode(), "cp1252", "byte order mark of utf-8, so it is not cp1252"),
        ("\ufeffx".encode("utf-16"), "utf-8", "byte order mark of utf-16, so it is not utf-8"),
        ("東京".encode("iso2022_jp"), "", "escape characters"),
        (b"x", "rot13", "unknown text encoding 'rot13'"),
        (b"x", "klingon", "unknown text encoding 'klingon'"),
    ],
)
def test_what_does_not_show_its_encoding_is_refused(data, encoding, told):
    with pytest.raises(BlockError, match=told):
        decoded(data, "f.csv", encoding)


def test_a_quoted_header_and_several_keys(tmp_path):
    table, form = read(tmp_path, '"last, first";"born"\n"Lang, A.";1980\n', keys=("last, first", "born"))
    assert (table, form.delimiter) == ({"last, first": ["Lang, A."], "born": ["1980"]}, ";")


def test_a_header_with_two_readings_asks_the_owner(tmp_path):
    text = "cust_id,a;cust_id\n1,2;3\n"
    with pytest.raises(BlockError, match="separated by ',' or ';'"):
        read(tmp_path, text)
    assert read(tmp_path, text, delimiter=";")[0] == {"cust_id,a": ["1,2"], "cust_id": ["3"]}


def test_one_column_holds_no_delimiter_unquoted(tmp_path):
    assert read(tmp_path, 'cust_id\n7\n"a;b"\n')[0] == {"cust_id": ["7", "a;b"]}
    with pytest.raises(BlockError, match="line 2: 2 fields, header has 1"):
        read(tmp_path, "cust_id\n7;8\n")
    with pytest.raises(BlockError, match="separated by ',' or ';'"):
        read(tmp_path, "cust_id\n7;8,9\n")


def test_without_keys_the_header_shows_it():
    assert found_delimiter("a;b\n1,2;3\n", "f", ()) == ";"
    assert found_delimiter("x\n1\n", "f", ()) == ","
    with pytest.raises(BlockError, match="separated by ',' or ';'"):
        found_delimiter("a;b,c\n", "f", ())


def test_a_missing_key_column_is_told_with_the_likeliest_reading(tmp_path):
    with pytest.raises(BlockError, match="no column 'cust_id'; its first line has 3 fields"):
        read(tmp_path, "id;a;b\n1;2;3\n")
    with pytest.raises(BlockError) as caught:
        read(tmp_path, "surname;born\nLang;1980\n", keys=("surname,born",))
    assert "as many parts" in caught.value.remedy


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.text('ab,;|\t"7 ', max_size=5), st.text('xy,;|\t"7é', max_size=5)), max_size=5),
    st.sampled_from([",", ";", "\t", "|", ":"]),
    st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_what_csv_writes_is_found_and_read(tmp_path_factory, rows, mark, quoting, encoding, end):
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=mark, quoting=quoting, lineterminator=end).writerows([("cust_id", "a"), *rows])
    path = tmp_path_factory.mktemp("csv") / "data.csv"
    path.write_bytes(text.getvalue().encode(encoding))
    table, form = read_csv(path, keys=KEYS, form=CsvFormat())
    assert form.delimiter == mark
    assert list(zip(*table.to_pydict().values(), strict=True)) == rows
