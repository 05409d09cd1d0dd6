"""Rehearsal data: any size, any overlap, made-up keys only."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parties.blocks.block import describe_block
from parties.blocks.mock import mock_table
from parties.blocks.rehearsal import expand, rehearsal_data, rehearsal_keys
from protocols.errors import BlockError
from tests.parties.blocks.block_samples import bank_block, made_mock


def generator(seed=0):
    return np.random.default_rng(seed)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_keys_overlap_as_chosen(common, bank, shop):
    keys = rehearsal_keys({"active": common + bank, "passive": common + shop}, common, generator())
    assert [len(set(keys[role])) for role in keys] == [common + bank, common + shop]
    assert len(set(keys["active"]) & set(keys["passive"])) == common


def test_an_impossible_overlap_is_refused():
    with pytest.raises(BlockError, match="overlap of 5"):
        rehearsal_keys({"active": 9, "passive": 4}, 5, generator())


def test_data_has_the_asked_rows_and_the_split_follows_the_key(tmp_path):
    block = bank_block(tmp_path)
    schema, mock = describe_block(block), made_mock(block)
    keys = rehearsal_keys({"active": 200, "passive": 120}, 80, generator())
    sides = {role: rehearsal_data(schema, mock, keys=keys[role], generator=generator(1)) for role in keys}
    assert sides["active"].table.rows == 200
    assert sides["active"].classes == ("no", "yes")
    splits = {role: dict(zip(side.keys, side.split.tolist(), strict=True)) for role, side in sides.items()}
    common = set(keys["active"]) & set(keys["passive"])
    assert all(splits["active"][key] == splits["passive"][key] for key in common)
    shares = np.bincount(sides["active"].split, minlength=3) / 200
    np.testing.assert_allclose(shares, [0.75, 0.0, 0.25], atol=0.02)


def test_every_cell_comes_from_the_mock_s_own_column(tmp_path):
    block = bank_block(tmp_path)
    table, _ = mock_table(describe_block(block), made_mock(block))
    large = expand(table, 1000, generator())
    assert set(large.columns[0].values) <= set(table.columns[0].values)
    assert large.columns[1].levels == table.columns[1].levels


def test_real_keys_are_refused(tmp_path):
    block = bank_block(tmp_path)
    with pytest.raises(BlockError, match="made-up keys") as caught:
        rehearsal_data(describe_block(block), made_mock(block), keys=(b"B001",), generator=generator())
    assert "B001" not in str(caught.value)
