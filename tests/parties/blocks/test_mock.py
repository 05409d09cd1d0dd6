"""Mock twins hold the block's shape and none of its people."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parties.blocks.block import block_from_table, describe_block, read_block
from parties.blocks.columns import CellRules
from parties.blocks.csv_format import CsvFormat
from parties.blocks.mock import CANONICAL, checked_mock, free_prefix, make_mock, mock_table
from protocols.errors import BlockError
from tests.parties.blocks.block_samples import bank_block, made_mock, spec, written

PRIVATE = "cust_id,amt\n007,1.0\n012,2.0\n"


def frame(text):
    header, *rows = [line.split(",") for line in text.split()]
    return pd.DataFrame(rows, columns=header, dtype=object)


def private(tmp_path, **more):
    return read_block(written(tmp_path, PRIVATE), spec(**more))


def test_a_made_mock_has_the_columns_and_levels_of_the_schema(tmp_path):
    block = bank_block(tmp_path)
    mock = made_mock(block)
    assert list(mock.columns) == ["cust_id", "age", "job", "y", "part"]
    assert mock["cust_id"].tolist()[:2] == ["MOCK-000001", "MOCK-000002"]
    assert set(mock["job"]) == {"clerk", "nurse", "(other)"}
    assert set(mock["y"]) == {"no", "yes"}
    assert set(mock["part"]) == {"train", "test"}
    assert set(mock["age"].astype(int)) <= set(range(20, 61))


def test_a_made_mock_depends_on_schema_and_generator_only(tmp_path):
    block = bank_block(tmp_path)
    assert made_mock(block, 3).equals(made_mock(block, 3))
    assert not made_mock(block, 3).equals(made_mock(block, 4))
    schema = describe_block(block)
    other = read_block(
        written(tmp_path, (tmp_path / "data.csv").read_text().replace("\nB", "\nC")), block.spec
    )
    assert describe_block(other) == schema
    assert make_mock(schema, rows=9, generator=np.random.default_rng(1)).equals(
        make_mock(describe_block(other), rows=9, generator=np.random.default_rng(1))
    )


def test_a_made_mock_of_a_tiny_block_tells_nothing(tmp_path):
    block = private(tmp_path)
    schema = describe_block(block)
    assert schema.columns[0].quantiles == ()
    made = checked_mock(block, make_mock(schema, rows=20, generator=np.random.default_rng(0)), CANONICAL)
    assert len(made) == 20


def test_keys_that_look_like_mock_keys_get_another_prefix(tmp_path):
    block = read_block(written(tmp_path, "cust_id,a\nMOCK-000001,1\nMOCK-X-7,2\n"), spec())
    assert free_prefix(block) == "MOCK-X-X-"
    with pytest.raises(BlockError, match="private"):
        checked_mock(
            block, make_mock(describe_block(block), rows=5, generator=np.random.default_rng(0)), CANONICAL
        )


def test_a_mock_of_the_owner_is_accepted(tmp_path):
    mock = checked_mock(private(tmp_path), frame("cust_id,amt\n000,0.0\n"))
    assert mock.to_dict("list") == {"cust_id": ["000"], "amt": ["0"]}


def test_wrong_columns_are_listed(tmp_path):
    with pytest.raises(BlockError, match="missing cust_id, amt; extra x"):
        checked_mock(private(tmp_path), frame("x\n1\n"))
    with pytest.raises(BlockError, match=r"extra b\n"):
        checked_mock(private(tmp_path), frame("cust_id,amt,b\n1,2,3\n"))


def test_a_mock_without_header_does_not_leak_its_first_row(tmp_path):
    with pytest.raises(BlockError, match="2 that are no words") as caught:
        checked_mock(private(tmp_path), frame("007,1.0\n012,2.0\n"))
    assert "007" not in str(caught.value)


@pytest.mark.parametrize(
    ("mock", "problem"),
    [
        (PRIVATE, "mock holds 2 private rows"),
        ("amt,cust_id\n1.00,007\n9,x\n", r"mock holds 1 private row\n"),
        ("cust_id,amt\n012,2e0\n012,2\n", "mock holds 2 private rows"),
        ("cust_id,amt\n012,77\n", r"mock holds 1 private key\n"),
    ],
)
def test_private_rows_are_counted(tmp_path, mock, problem):
    with pytest.raises(BlockError, match=problem) as caught:
        checked_mock(private(tmp_path), frame(mock))
    assert "012" not in str(caught.value)


def test_private_rows_are_found_in_every_form(tmp_path):
    numbers = pa.table({"cust_id": pa.array([7, 900]), "amt": [1.0, 5.0]})
    with pytest.raises(BlockError, match=r"1 private row\n"):
        checked_mock(private(tmp_path, key_rule="digits:3"), numbers)
    text = "cust_id;amt;c;y;part\na;1,5;x;yes;train\nb;;?;;test\n"
    block = read_block(
        written(tmp_path, text),
        spec(csv=CsvFormat(delimiter=";"), label="y", split="part", cells=CellRules(decimal=",")),
    )
    copy = frame(text.replace(",", "#").replace(";", ",")).replace({"1#5": "1,5"})
    with pytest.raises(BlockError, match="2 private rows"):
        checked_mock(block, copy)
    changed = copy.assign(part=["test", "train"])
    with pytest.raises(BlockError, match="2 private keys"):
        checked_mock(block, changed)


def test_the_same_cells_without_the_key_are_honest(tmp_path):
    mock = checked_mock(private(tmp_path), frame("cust_id,amt\nm1,1.0\nm2,2.0\n"))
    assert mock["amt"].tolist() == ["1", "2"]


@pytest.mark.parametrize(
    ("mock", "problem"),
    [
        ("cust_id,age,job,y,part\nm1,old,x,yes,train\n", "in the mock, column 'age': 1 of 1 cells"),
        (
            "cust_id,age,job,y,part\nm1,1,x,perhaps,train\n",
            "label column 'y': 1 cells are none of the block's 2",
        ),
        ("cust_id,age,job,y,part\nm1,1,x,yes,dev\n", "'part': 1 of 1 rows"),
        ("cust_id,age,job,y,part\n", "no rows"),
    ],
)
def test_mock_cells_must_fit(tmp_path, mock, problem):
    with pytest.raises(BlockError, match=problem):
        checked_mock(bank_block(tmp_path), frame(mock))


def test_a_frame_of_mixed_values_is_refused_without_quoting_it(tmp_path):
    mixed = pd.DataFrame({"cust_id": ["m", 48151623], "amt": [1, 2]}, dtype=object)
    with pytest.raises(BlockError, match="several types") as caught:
        checked_mock(private(tmp_path), mixed)
    assert "48151623" not in str(caught.value)


def test_a_published_mock_can_be_typed_from_the_schema_alone(tmp_path):
    block = bank_block(tmp_path)
    table, labels = mock_table(describe_block(block), made_mock(block))
    assert (table.names, table.rows) == (("age", "job"), 50)
    assert labels is not None
    assert set(labels) == {0, 1}


cell = st.sampled_from(["", "1", "2.5", "x", "y"])


@settings(max_examples=80)
@given(
    st.lists(st.tuples(cell, cell), min_size=1, max_size=25),
    st.sampled_from(["", "y"]),
    st.integers(0, 2**32 - 1),
)
def test_no_made_mock_holds_a_private_row(rows, label, seed):
    labels = ["yes" if i % 2 else "no" for i in range(len(rows))]
    source = {
        "cust_id": [str(i) for i in range(len(rows))],
        "a": [a for a, _ in rows],
        "b": [b for _, b in rows],
    }
    block = block_from_table(pa.table(source | ({"y": labels} if label else {})), spec(label=label))
    mock = made_mock(block, seed)
    private_keys = set(source["cust_id"])
    assert not private_keys & set(mock["cust_id"])


@pytest.mark.parametrize(
    "cells", [["1e308", "-1e308"], ["1.7976931348623157e308"], ["1e308", "0.5", "-1e308"]]
)
@pytest.mark.filterwarnings("error")
def test_numbers_near_the_largest_overflow_nowhere(tmp_path, cells):
    rows = "".join(f"p{i},{cells[i % len(cells)]}\n" for i in range(60))
    block = read_block(written(tmp_path, "cust_id,amt\n" + rows), spec())
    made = make_mock(describe_block(block), rows=50, generator=np.random.default_rng(0))
    checked = checked_mock(block, made, CANONICAL)
    assert np.all(np.abs(checked["amt"].astype(float)) <= 1e300)
