"""Strict CSV: what the file says, or the line that is wrong."""

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parties.blocks.csv_format import CsvFormat
from parties.blocks.csv_text import read_csv
from protocols.errors import BlockError


def read(tmp_path, text, keys=("cust_id",), **form):
    path = tmp_path / "data.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_csv(path, keys=keys, form=CsvFormat(**form))[0].to_pydict()


def test_cells_stay_text(tmp_path):
    assert read(tmp_path, "cust_id,amt\n007,1.0\n,nan\n") == {"cust_id": ["007", ""], "amt": ["1.0", "nan"]}


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_delimiters_line_ends_and_byte_order_mark(tmp_path, mark, end):
    text = "\ufeff" + end.join([f"cust_id{mark}amt", f'1{mark}"a{mark} ""b"""', f"2{mark}c", "", ""])
    assert read(tmp_path, text, delimiter=mark) == {"cust_id": ["1", "2"], "amt": [f'a{mark} "b"', "c"]}


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16-le", "cp1252", "iso2022_jp"])
def test_other_encodings_are_refused_until_named(tmp_path, encoding):
    town = "東京" if encoding == "iso2022_jp" else "Köln"
    text = f"cust_id,ort\n1,{town}\n".encode(encoding)
    with pytest.raises(BlockError, match=r"data.csv"):
        read(tmp_path, text)
    assert read(tmp_path, text, encoding=encoding)["ort"] == [town]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cust_id,amt\n007,1.0\n012\n", "line 3: 1 field, header has 2"),
        ("cust_id,amt\n007,1.0,9\n", "line 2: 3 fields, header has 2"),
        ("cust_id,amt\n007,1.0\n\n012,1\n", "line 3: 0 fields, header has 2"),
        ('cust_id,amt\n007,"1\n2"\n012\n', "line 4: 1 field, header has 2"),
        ('cust_id,amt\n007,"1\n', "line 2: the quoting"),
        ('cust_id,amt\n007,"1"2\n', "line 2: the quoting"),
        ("cust_id,amt\n007,1\0\n", "NUL"),
        ("", "is empty"),
    ],
)
def test_broken_lines_are_named(tmp_path, text, problem):
    with pytest.raises(BlockError, match=problem):
        read(tmp_path, text)


@pytest.mark.parametrize("mark", [";", "\t"])
def test_ragged_lines_with_other_delimiters(tmp_path, mark):
    with pytest.raises(BlockError, match="line 3: 1 field, header has 2"):
        read(tmp_path, f"cust_id{mark}amt\n007{mark}1\n012\n", delimiter=mark)


def test_a_wrong_delimiter_is_told(tmp_path):
    with pytest.raises(BlockError, match="no column 'cust_id'") as caught:
        read(tmp_path, "cust_id;amt\n007;1\n", delimiter=",")
    assert "';'" in caught.value.remedy


def test_a_file_without_header_does_not_leak_its_first_line(tmp_path):
    with pytest.raises(BlockError) as caught:
        read(tmp_path, "007,007,31\n012,013,45\n")
    assert "007" not in str(caught.value) + caught.value.remedy


@pytest.mark.parametrize(
    ("header", "problem"), [("cust_id,a,a", "'a' occurs 2 times"), ("cust_id,,a", "column 2 has no name")]
)
def test_bad_headers(tmp_path, header, problem):
    with pytest.raises(BlockError, match=problem):
        read(tmp_path, header + "\n1,2,3\n")


def test_one_column(tmp_path):
    assert read(tmp_path, "cust_id\n1\n\n2\n\n") == {"cust_id": ["1", "", "2"]}


@pytest.mark.parametrize("mark", [",,", '"', "\n", " "])
def test_impossible_delimiters(mark):
    with pytest.raises(BlockError, match="delimiter"):
        CsvFormat(delimiter=mark)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(BlockError, match=r"nothing\.csv"):
        read_csv(tmp_path / "nothing.csv", keys=("a",), form=CsvFormat())


plain = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), max_size=8)


@settings(max_examples=60)
@given(st.lists(st.tuples(plain.filter(bool), plain), max_size=8), st.sampled_from([",", ";", "\t"]))
def test_what_csv_writes_comes_back(tmp_path_factory, rows, mark):
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=mark, quoting=csv.QUOTE_ALL)
    writer.writerows([("cust_id", "amt"), *rows])
    path = tmp_path_factory.mktemp("csv") / "data.csv"
    path.write_bytes(text.getvalue().encode())
    found = read_csv(path, keys=("cust_id",), form=CsvFormat(delimiter=mark, encoding="utf-8"))[0].to_pydict()
    assert list(zip(found["cust_id"], found["amt"], strict=True)) == rows
