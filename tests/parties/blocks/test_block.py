"""Blocks from files: the acceptance cases of reading, and that no error text ever holds a key or a cell."""

import traceback

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parties.blocks.block import block_from_table, describe_block, read_block
from parties.blocks.columns import CellRules, ColumnKind
from parties.blocks.csv_format import CsvFormat
from parties.blocks.keys.reading import Duplicates
from protocols.errors import BlockError, FedaccordError, SubjectKeyError
from tests.parties.blocks.block_samples import bank_block, spec, written

MARKS = [",", ";", "\t", "|"]


def read(tmp_path, text, **more):
    return read_block(written(tmp_path, text), spec(**more))


def key_texts(block):
    return block.keys.texts.to_pylist()


def parquet(tmp_path, columns):
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def test_a_block_holds_keys_columns_label_and_split(tmp_path):
    block = bank_block(tmp_path)
    assert (block.table.rows, block.table.names) == (60, ("age", "job"))
    assert block.classes == ("no", "yes")
    assert block.labels is not None
    assert block.labels[:4].tolist() == [1, 0, 0, 1]
    assert block.split[:5].tolist() == [2, 0, 0, 0, 2]


@pytest.mark.parametrize("mark", MARKS)
def test_keys_are_text_and_blank_keys_are_left_out(tmp_path, mark):
    shop = "cust_id,spend\n7,50\n12,60\n,70\n".replace(",", mark)
    block = read(tmp_path, shop, csv=CsvFormat(delimiter=mark))
    assert key_texts(block) == ["7", "12"]
    assert (block.keys.report.blank, block.table.columns[0].values.tolist()) == (1, [50, 60])
    padded = read(tmp_path, shop, csv=CsvFormat(delimiter=mark), key_rule="digits:3")
    assert key_texts(padded) == ["007", "012"]


@pytest.mark.parametrize("mark", MARKS)
def test_large_ids_do_not_merge(tmp_path, mark):
    text = "cust_id,age,y\n9007199254740993,31,0\n9007199254740992,45,1\n,50,1\n".replace(",", mark)
    bank = read(tmp_path, text, label="y", csv=CsvFormat(delimiter=mark))
    assert key_texts(bank) == ["9007199254740993", "9007199254740992"]
    for kind in (pa.int64(), pa.uint64(), pa.string(), pa.decimal128(20, 0)):
        cells = pa.array([9007199254740993, None], pa.int64()).cast(kind)
        shop = read_block(parquet(tmp_path, {"cust_id": cells, "spend": [5.0, 6.0]}), spec())
        assert set(key_texts(bank)) & set(key_texts(shop)) == {"9007199254740993"}
        assert shop.keys.report.blank == 1
    for bad in (9007199254740993.0, 0.5):
        with pytest.raises(SubjectKeyError, match="cust_id"):
            read_block(parquet(tmp_path, {"cust_id": [1.0, bad], "spend": [5, 6]}), spec())


def test_a_data_frame_with_missing_integers_keeps_plain_digits():
    frame = pd.DataFrame({"cust_id": [7.0, None, 12.0], "spend": [1, 2, 3]})
    assert key_texts(block_from_table(pa.Table.from_pandas(frame, preserve_index=False), spec())) == [
        "7",
        "12",
    ]


def test_dictionary_and_chunked_parquet(tmp_path):
    ids = pa.array(["c1", "c2", None, "c3"]).dictionary_encode()
    path = tmp_path / "data.parquet"
    table = pa.table({"cust_id": ids, "a": ["x", None, "x", "y"]})
    pq.write_table(table, path, row_group_size=1)
    block = read_block(path, spec())
    assert key_texts(block) == ["c1", "c2", "c3"]
    assert block.table.columns[0].codes.tolist() == [0, -1, 1]
    assert block.table.columns[0].levels == ("x", "y")


def test_duplicate_keys(tmp_path):
    bank, shop = "cust_id,y,a\nk1,0,1\nk1,1,1\nk2,1,1\n", "cust_id,spend\nk1,5\nk2,6\nk2,7\nk2,8\n"
    with pytest.raises(SubjectKeyError, match="'cust_id' has 1 duplicated key in 2 rows"):
        read(tmp_path, bank, label="y")
    with pytest.raises(SubjectKeyError, match="'cust_id' has 1 duplicated key in 3 rows"):
        read(tmp_path, shop)
    first = [
        read(tmp_path, bank, label="y", duplicates=Duplicates.FIRST),
        read(tmp_path, shop, duplicates=Duplicates.FIRST),
    ]
    assert [key_texts(block) for block in first] == [["k1", "k2"]] * 2
    assert first[0].labels.tolist() == [0, 1]
    assert first[1].table.columns[0].values.tolist() == [5, 6]
    drop = [
        read(tmp_path, bank, label="y", duplicates=Duplicates.DROP),
        read(tmp_path, shop, duplicates=Duplicates.DROP),
    ]
    assert [key_texts(block) for block in drop] == [["k2"], ["k1"]]


@pytest.mark.parametrize(
    ("cells", "classes", "codes"),
    [
        ("yes no maybe no", ("maybe", "no", "yes"), [2, 1, 0, 1]),
        ("-1 1 -1 1", ("-1", "1"), [0, 1, 0, 1]),
        ("1 2 3 2", ("1", "2", "3"), [0, 1, 2, 1]),
        ("1 ? 10 2", ("1", "2", "10"), [0, -1, 2, 1]),
    ],
)
def test_classes_come_from_all_labelled_rows(tmp_path, cells, classes, codes):
    text = "cust_id,y,amt\n" + "".join(f"{i},{cell},{i}\n" for i, cell in enumerate(cells.split()))
    block = read(tmp_path, text, label="y")
    assert (block.classes, block.labels.tolist()) == (classes, codes)


def test_a_class_of_a_row_without_key_still_counts(tmp_path):
    block = read(tmp_path, "cust_id,y,amt\n1,yes,1\n,maybe,2\n2,no,3\n", label="y")
    assert (block.classes, block.labels.tolist()) == (("maybe", "no", "yes"), [2, 1])


def test_rows_left_out_leave_no_level_behind(tmp_path):
    block = read(tmp_path, "cust_id,a\n1,x\n,only here\n2,y\n")
    assert block.table.columns[0].levels == ("x", "y")


def test_kinds_and_ignored_columns(tmp_path):
    text = "cust_id,zip,note,a\n1,123,hello,1\n2,456,you,2\n"
    block = read(tmp_path, text, kinds={"zip": ColumnKind.CATEGORICAL}, ignore=("note",))
    assert block.table.names == ("zip", "a")
    assert block.table.columns[0].levels == ("123", "456")


@pytest.mark.parametrize(
    ("text", "more", "problem"),
    [
        ("cust_id,a\n007,1.0\n012\n", {}, "line 3: 1 field, header has 2"),
        ("cust_id,a,a\n1,2,3\n", {}, "'a' occurs 2 times"),
        ("cust_id,a\n1,2\n", {"label": "y"}, ": the file has no column 'y'"),
        ("cust_id,a\n1,2\n", {"kinds": {"b": ColumnKind.NUMERIC}}, "no column 'b'"),
        ("cust_id,a\n", {}, "no rows"),
        ("cust_id,y\n1,2\n", {"label": "y"}, "no feature column"),
        ("cust_id,Unnamed: 0\n1,2\n", {}, "'Unnamed: 0' is the row index"),
        ("cust_id,a,part\n1,2,dev\n2,3,train\n", {"split": "part"}, "'part': 1 of 2 rows"),
        ("cust_id,a\n1,inf\n", {}, "'a': 1 infinite"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, text, more, problem):
    with pytest.raises(BlockError, match=problem):
        read(tmp_path, text, **more)


@pytest.mark.parametrize(
    "more",
    [
        {"name": "Bank"},
        {"name": "../x"},
        {"name": ""},
        {"subject_key": ""},
        {"label": "cust_id"},
        {"label": "a", "split": "a"},
        {"ignore": ("cust_id",)},
        {"label": "y", "kinds": {"y": ColumnKind.NUMERIC}},
        {"key_rule": "emails"},
        {"duplicates": "first"},
        {"kinds": {"a": "numeric"}},
    ],
)
def test_impossible_settings(more):
    with pytest.raises(FedaccordError):
        spec(**more)


def test_impossible_cell_rules():
    with pytest.raises(BlockError, match="decimal"):
        CellRules(decimal=";")
    with pytest.raises(BlockError, match="infinite"):
        CellRules(infinite="missing")
    with pytest.raises(BlockError, match="lower case"):
        CellRules(missing=("NA",))


def test_files_that_are_no_blocks(tmp_path):
    with pytest.raises(BlockError, match="unknown kind of file"):
        read_block(written(tmp_path, "x", "data.xlsx"), spec())
    with pytest.raises(BlockError, match=r"data\.parquet is not a sound parquet file"):
        read_block(written(tmp_path, "x", "data.parquet"), spec())
    with pytest.raises(BlockError, match="does not exist"):
        read_block(tmp_path / "none.parquet", spec())
    with pytest.raises(BlockError, match=r"'a' has the type list"):
        read_block(parquet(tmp_path, {"cust_id": ["1"], "a": [[1, 2]]}), spec())


SECRET = "SENTINEL"
NUMBER = "48151623.42"
LEAKY = [
    (f"cust_id,a\n{SECRET},1\n{SECRET},2\n", {}),
    (f"cust_id,a\n{SECRET},1\n012\n", {}),
    (f"cust_id,a\n1,{SECRET},{NUMBER}\n", {}),
    (f'cust_id,a\n1,"{SECRET}\n', {}),
    (f'cust_id,a\n1,"{SECRET}"{NUMBER}\n', {}),
    (f"{SECRET},{SECRET},{NUMBER}\n1,2,3\n", {}),
    (f"{SECRET},\n1,2\n", {}),
    (f"cust_id,a\n1,{SECRET}\n2,3\n", {"kinds": {"a": ColumnKind.NUMERIC}}),
    ("cust_id,a\n" + "".join(f"{i},{i}\n" for i in range(90)) + f"x,{SECRET}\n", {}),
    ("cust_id,a\n" + "".join(f"{i},{SECRET}{i}\n" for i in range(1100)), {}),
    (f"cust_id,a\n1,{NUMBER.replace('.', ',')}\n".replace(",4", ";4"), {}),
    (f'cust_id,a\n1,"{NUMBER.replace(".", ",")}"\n', {}),
    (f"cust_id,a,part\n1,2,{SECRET}\n", {"split": "part"}),
    ("cust_id,a,y\n" + "".join(f"{i},2,{SECRET}{i}\n" for i in range(200)), {"label": "y"}),
    (f"cust_id,a\n{SECRET},1\n", {"key_rule": "digits:3"}),
    (f"cust_id,a\n{SECRET},1\n", {"label": "y"}),
    (f"cust_id,a\n{NUMBER.replace('.42', '.0')},1\n", {}),
    (f"cust_id,a\n1,{SECRET}\0\n", {}),
    (f"cust_id,a\n1,{NUMBER}e999\n", {}),
]


@pytest.mark.parametrize(("text", "more"), LEAKY)
def test_no_error_holds_a_key_or_a_cell(tmp_path, text, more):
    with pytest.raises(FedaccordError) as caught:
        read(tmp_path, text, **more)
    error: BaseException | None = caught.value
    shown = caught.value.remedy + "".join(traceback.format_exception(caught.value))
    while error is not None:  # nor may an error that ours hides, since a debugger or a log shows it
        shown += str(error)
        error = error.__context__
    assert not any(part in shown for part in (SECRET, "48151623"))


def test_no_parquet_error_holds_a_cell(tmp_path):
    for columns in (
        {"cust_id": [SECRET, SECRET], "a": [1, 2]},
        {"cust_id": [48151623.42, 1.0], "a": [1, 2]},
        {"cust_id": [48151623e10, 1.0], "a": [1, 2]},
        {"cust_id": ["1", "2"], "a": [[SECRET], [SECRET]]},
    ):
        with pytest.raises(FedaccordError) as caught:
            read_block(parquet(tmp_path, columns), spec())
        assert not any(part in str(caught.value) for part in (SECRET, "48151623"))


def test_a_repr_holds_counts_only(tmp_path):
    assert "B001" not in repr(bank_block(tmp_path))
    assert "clerk" not in repr(bank_block(tmp_path))


def test_sixteen_thousand_rows_are_quick(tmp_path):
    import time

    ids = np.random.default_rng(0).permutation(16_000)
    text = "cust_id,a,b,c,d,e,f,g\n" + "".join(f"{i},{i}.5,x,{i % 7},?,{i},y,{i % 3}\n" for i in ids)
    path = written(tmp_path, text)
    start = time.process_time()
    block = read_block(path, spec())
    describe_block(block)
    assert time.process_time() - start < 1.0
    assert block.table.rows == 16_000
