"""A worker opens its block only for a request that describes it as it is, and whose blocks' keys can be compared."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from parties.blocks.block import BlockSpec, block_from_table, describe_block
from parties.blocks.mock import CANONICAL, checked_mock, make_mock
from parties.blocks.schema import BlockSchema
from parties.blocks.store import Store
from parties.control.validate import check_blocks
from parties.running.runspec import RunSpec
from parties.running.worker_tools import open_block
from protocols.errors import BlockError, FedaccordError, SubjectKeyError
from protocols.psi import PsiTerms, psi_manifest
from protocols.request import BlockEntry, ComputationRequest
from tests.parties.roles.samples import sample_request


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, BlockSchema]:
    cells = {"person": [f"{n:03d}" for n in range(30)], "income": [float(n) for n in range(30)]}
    block = block_from_table(
        pa.table(cells), BlockSpec(name="customers", subject_key="person", key_rule="digits:3")
    )
    made = make_mock(describe_block(block), rows=9, generator=np.random.default_rng(0))
    store = Store(tmp_path_factory.mktemp("store"))
    return store, store.add(block, checked_mock(block, made, CANONICAL))


def asked(schema: BlockSchema, other_rule: str = "digits:3@1", **changes: object) -> ComputationRequest:
    """A request that aligns this block (active) with another one."""
    entry = BlockEntry(
        role="active",
        block=schema.block,
        version=schema.version,
        commitment=schema.commitment,
        columns=schema.names,
        label=schema.label,
        rows=schema.rows,
        subject_key=schema.subject_key,
        key_rule=schema.key_rule,
        key_missing=schema.key_missing,
        duplicates=schema.duplicates.value,
    )
    other = replace(entry, role="passive", commitment="d" * 64, key_rule=other_rule)
    blocks = (replace(entry, **changes), other)  # type: ignore[arg-type]
    return sample_request(
        blocks=blocks, manifest=psi_manifest("active", "passive", PsiTerms(client_rows=30, server_rows=30))
    )


def opened(stored: tuple[Store, BlockSchema], request: ComputationRequest) -> int:
    store, _ = stored
    names = ("digest", "request", "approvals", "state", "audit", "link_key", "link_certificate")
    spec = RunSpec(run=1, role="active", store=str(store.folder), **dict.fromkeys(names, "none"))  # type: ignore[arg-type]
    return open_block(spec, request).table.rows


def test_what_is_described_as_it_is_is_opened(stored: tuple[Store, BlockSchema]) -> None:
    assert opened(stored, asked(stored[1])) == 30


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("key_rule", "digits:4@1"),
        ("subject_key", "customer"),
        ("key_missing", ()),
        ("duplicates", "first"),
        ("rows", 31),
        ("version", 2),
    ],
)
def test_a_wrong_word_about_the_block_is_named_and_nothing_opened(
    stored: tuple[Store, BlockSchema], field: str, value: object
) -> None:
    store, schema = stored
    before = store.opens(schema.block)
    rule = {"other_rule": str(value)} if field == "key_rule" else {}
    with pytest.raises(BlockError, match=rf"'customers': the request says {field} "):
        opened(stored, asked(schema, **rule, **{field: value}))  # type: ignore[arg-type]
    assert store.opens(schema.block) == before


@pytest.mark.parametrize("rule", ["text@1", "digits:4@1", "composite@1(digits:3@1+date@1)"])
def test_keys_by_other_rules_are_compared_neither_by_worker_nor_at_the_desk(
    stored: tuple[Store, BlockSchema], rule: str
) -> None:
    request = asked(stored[1], other_rule=rule)
    told = r"bank column 'person' and shop column 'person' have different key rules: digits:3@1 and "
    with pytest.raises(SubjectKeyError, match=told):
        opened(stored, request)
    with pytest.raises(SubjectKeyError, match=told):
        check_blocks(request, "active", lambda name: (1, stored[1].commitment))


def test_blocks_whose_keys_are_not_compared_may_have_any_rules(stored: tuple[Store, BlockSchema]) -> None:
    request = replace(asked(stored[1], other_rule="text@1"), manifest=sample_request().manifest)
    assert opened(stored, request) == 30


def test_a_rule_of_another_release_is_named(stored: tuple[Store, BlockSchema]) -> None:
    with pytest.raises(FedaccordError, match="this software has version 1 of it"):
        opened(stored, asked(stored[1], other_rule="digits:3@2"))
