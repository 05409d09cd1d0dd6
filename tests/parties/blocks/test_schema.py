"""What is published of a block tells of no group smaller than k."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parties.blocks.block import describe_block
from parties.blocks.schema import (
    coarse,
    parse_schema,
    public_column,
    published_rows,
    rounded_share,
    schema_text,
)
from protocols.errors import BlockError
from tests.parties.blocks.block_samples import bank_block
from vertical.table import CategoricalColumn, NumericColumn


@pytest.mark.parametrize(
    ("rows", "published"),
    [
        (1, 10),
        (9, 10),
        (10, 10),
        (37, 40),
        (99, 100),
        (100, 100),
        (101, 110),
        (1234, 1300),
        (16281, 17000),
        (10**6, 10**6),
    ],
)
def test_row_counts_are_rounded_up(rows, published):
    assert published_rows(rows) == published


@given(st.integers(1, 10**9))
def test_published_rows_bound_the_rows_closely(rows):
    assert max(rows, 10) <= published_rows(rows) <= max(rows + 9, rows * 1.1)


def test_rare_levels_are_not_listed(tmp_path):
    schema = describe_block(bank_block(tmp_path))
    job = schema.columns[1]
    assert (job.levels, job.other_levels) == (("clerk", "nurse"), True)
    assert "rare" not in schema_text(schema)


def test_a_level_of_k_people_is_listed_and_of_k_minus_one_is_not():
    codes = np.repeat(np.array([0, 1], np.int32), [10, 9])
    column = CategoricalColumn(name="a", codes=codes, levels=("ten", "nine"))
    assert public_column(column).levels == ("ten",)


@pytest.mark.parametrize(
    ("rows", "shares"), [(19, []), (20, [0.5]), (40, [0.25, 0.5, 0.75]), (200, [0.05, 0.25, 0.5, 0.75, 0.95])]
)
def test_a_quantile_has_k_people_beyond_it(rows, shares):
    column = NumericColumn(name="a", values=np.arange(rows, dtype=float))
    assert [point.share for point in public_column(column).quantiles] == shares


def test_numbers_keep_two_digits():
    values = np.full(300, 123456.789)
    assert {point.value for point in public_column(NumericColumn(name="a", values=values)).quantiles} == {
        120000.0
    }
    assert coarse(-0.0) == 0.0
    assert coarse(0.012345) == 0.012


def test_missing_shares_hide_small_groups():
    values = np.arange(100, dtype=float)
    values[:9] = np.nan
    assert public_column(NumericColumn(name="a", values=values)).missing_share == 0.0
    values[:12] = np.nan
    assert public_column(NumericColumn(name="a", values=values)).missing_share == 0.1
    assert rounded_share(1, 3) == 0.35


def test_the_document_comes_back_and_is_strict(tmp_path):
    schema = describe_block(bank_block(tmp_path))
    assert parse_schema(schema_text(schema)) == schema
    assert schema.all_names == ("cust_id", "age", "job", "y", "part")
    assert [(part.split, part.share) for part in schema.splits] == [
        ("train", 0.75),
        ("validation", 0.0),
        ("test", 0.25),
    ]
    with pytest.raises(BlockError, match="rows"):
        parse_schema(schema_text(schema).replace('"rows":60', '"rows":"60"'))
    with pytest.raises(BlockError, match="unknown"):
        parse_schema(schema_text(schema).replace('"rows":', '"extra":1,"rows":'))


def test_no_key_is_published(tmp_path):
    assert "B0" not in schema_text(describe_block(bank_block(tmp_path)))
