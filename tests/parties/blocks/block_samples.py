"""Small files and blocks for the tests of this folder."""

import numpy as np

from parties.blocks.block import BlockSpec, describe_block, read_block
from parties.blocks.mock import CANONICAL, checked_mock, free_prefix, make_mock

BANK = "cust_id,age,job,y,part\n" + "".join(
    f"B{i:03d},{20 + i % 40},{('clerk', 'nurse', 'rare')[2 if i == 7 else i % 2]},{'no' if i % 3 else 'yes'},"
    f"{'test' if i % 4 == 0 else 'train'}\n"
    for i in range(60)
)


def written(folder, text, name="data.csv"):
    """The path of a new file with this text."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def spec(**more):
    """A spec for cust_id files; the block is named "bank" unless said."""
    return BlockSpec(**({"name": "bank", "subject_key": "cust_id"} | more))


def bank_block(folder, **more):
    """The block of BANK: 60 people, numeric age, categorical job, label y, split part."""
    return read_block(written(folder, BANK), spec(**({"label": "y", "split": "part"} | more)))


def made_mock(block, seed=0):
    """A checked mock of 50 rows made from the block's public schema."""
    generator = np.random.default_rng(seed)
    made = make_mock(describe_block(block), rows=50, generator=generator, prefix=free_prefix(block))
    return checked_mock(block, made, CANONICAL)
