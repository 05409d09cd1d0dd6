"""Data frames: key columns of every dtype give one exact text, or a refusal that names the column and no cell."""

import datetime
import traceback
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from parties.blocks.block import block_from_frame, block_from_table
from parties.blocks.keys.reading import Duplicates
from protocols.errors import BlockError, FedaccordError, SubjectKeyError
from tests.parties.blocks.block_samples import spec

DTYPES = [
    "object",
    "string",
    "string[pyarrow]",
    "category",
    "int64",
    "uint32",
    "Int64",
    "float64",
    "Float64",
    "float32",
    "int64[pyarrow]",
    "double[pyarrow]",
    pd.ArrowDtype(pa.decimal128(30, 2)),
    pd.ArrowDtype(pa.large_string()),
    pd.ArrowDtype(pa.binary()),
    pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string())),
]


def keys(cells, **more):
    frame = pd.DataFrame({"cust_id": cells, "a": range(len(cells))})
    return block_from_frame(frame, spec(**more)).keys.texts.to_pylist()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_whole_numbers_of_every_dtype_give_the_same_text(dtype):
    values = pd.Series([7, 120, 3])
    if "binary" in str(dtype):
        cells = pd.Series([b"7", b"120", b"3"], dtype=dtype)
    elif "str" in str(dtype):
        cells = values.astype(str).astype(dtype)
    else:
        cells = values.astype(dtype)
    assert keys(cells) == ["7", "120", "3"]


@pytest.mark.parametrize("dtype", ["Int64", "float64", "string", "object", "category", "int64[pyarrow]"])
def test_missing_cells_of_every_kind_are_blank(dtype):
    cells = pd.Series([7, None, 3], dtype="object")
    if dtype == "string":
        cells = pd.Series(["7", None, "3"])
    assert keys(cells.astype(dtype)) == ["7", "3"]
    assert keys([None, np.nan, pd.NA, pd.NaT, "", "7"]) == ["7"]


def test_objects_of_several_types_each_keep_their_text():
    number = uuid.UUID(int=5)
    mixed = ["007", 7, np.int8(8), 9.0, np.float32(10), Decimal("11.00"), b"12", number, 2**70, np.str_("x")]
    assert keys(mixed) == ["007", "7", "8", "9", "10", "11", "12", str(number), str(2**70), "x"]


@pytest.mark.parametrize(
    "bad",
    [
        1.5,
        2.0**53,
        np.float32(2**24),
        float("inf"),
        Decimal("1.5"),
        Decimal("Infinity"),
        True,
        np.True_,
        b"\xff",
        (1, 2),
        datetime.date(2000, 1, 1),
        3j,
    ],
    ids=repr,
)
def test_an_object_without_one_exact_text_is_counted_by_type(bad):
    with pytest.raises(SubjectKeyError, match=f"'cust_id'.*1 of type {type(bad).__name__}"):
        keys(["SENTINEL", 7, bad])


def test_days_are_taken_by_a_date_rule_only():
    days = [datetime.date(1980, 1, 2), None]
    stamps = pd.Series(pd.to_datetime(["1980-01-02", None]))
    assert keys(days, key_rule="date") == keys(stamps, key_rule="date") == ["1980-01-02"]
    assert keys(stamps.astype(object), key_rule="date") == ["1980-01-02"]
    with pytest.raises(SubjectKeyError, match="'cust_id' has the type date32"):
        keys(days)


@pytest.mark.parametrize(
    "cells",
    [
        pd.Series(["SENTINEL", "SENTINEL"]),
        pd.Series([48151623.42, 1.0]),
        pd.Series([48151623e10, 1.0]),
        pd.Series(["SENTINEL", 48151623.42], dtype=object),
        pd.Series([b"SENTINEL\xff", b"x"]),
        pd.Series(["SENTINEL", ("SENTINEL",)], dtype=object),
        pd.Series(["SENTINEL\ud800", "x"]),
        pd.Series(["SENTINEL", 1]).astype("category"),
        pd.Series(pd.period_range("2000", periods=2, freq="D")),
        pd.Series([3j, 2]),
        pd.Series([True, False]),
    ],
    ids=lambda cells: str(cells.dtype),
)
def test_what_is_refused_names_the_column_and_quotes_nothing(cells):
    with pytest.raises(FedaccordError, match="cust_id") as caught:
        keys(cells, duplicates=Duplicates.ERROR)
    error: BaseException | None = caught.value
    shown = caught.value.remedy + "".join(traceback.format_exception(caught.value))
    while error is not None:
        shown += str(error)
        error = error.__context__
    assert not any(part in shown for part in ("SENTINEL\\", "SENTINEL'", "48151623.42"))


def test_names_of_columns_must_be_text_and_once():
    with pytest.raises(BlockError, match="column 1 has no name"):
        block_from_frame(pd.DataFrame({0: ["7"], "a": [1]}), spec())
    twice = pd.DataFrame([["7", 1, 2]], columns=["cust_id", "a", "a"])
    with pytest.raises(BlockError, match="'a' occurs 2 times"):
        block_from_frame(twice, spec())


def test_the_index_is_no_column():
    frame = pd.DataFrame({"cust_id": ["a", "b"], "x": [1, 2]}, index=["p", "q"])
    block = block_from_frame(frame, spec())
    same = block_from_table(pa.table({"cust_id": ["a", "b"], "x": [1, 2]}), spec())
    assert (block.table.names, block.keys.texts) == (same.table.names, same.keys.texts)
