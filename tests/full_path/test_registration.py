"""Blocks with mock and schema checks, added while the datasite is up (AC-19)."""

from functools import partial
from pathlib import Path

import pytest

from parties.blocks.block import BlockSpec
from parties.blocks.store import Store
from parties.roles import analyst
from parties.roles.owner import add_block
from parties.syft_side.publication import Publication
from protocols.audit import AuditEvent
from protocols.errors import BlockError
from tests.full_path.lab import BANK, Lab, until

pytestmark = pytest.mark.syft
NAME = "tiny"
PRIVATE = "cust_id,amt\n007,1.0\n012,2.0\n"
RAGGED = "cust_id,amt\n007,1.0\n012\n"


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.csv"
    path.write_text(text)
    return path


def published(lab: Lab) -> Publication | None:
    return analyst.read_offers(lab.sites)[BANK].blocks.get(NAME)


def test_AC19_a_block_is_registered_with_an_honest_mock_only_and_replaced_only_on_purpose(
    lab: Lab, tmp_path: Path
) -> None:
    state, spec = lab.states[BANK], BlockSpec(name=NAME, subject_key="cust_id")
    private = written(tmp_path, "private", PRIVATE)
    add = partial(add_block, state, private, spec)
    with pytest.raises(BlockError, match="missing cust_id, amt; extra x"):
        add(mock=written(tmp_path, "columns", "x\n1\n"))
    with pytest.raises(BlockError, match="mock holds 2 private rows") as caught:
        add(mock=written(tmp_path, "real", PRIVATE))
    assert "007" not in f"{caught.value} {caught.value.remedy}"
    with pytest.raises(BlockError, match="line 3: 1 field, header has 2"):
        add_block(state, written(tmp_path, "ragged", RAGGED), spec)
    assert NAME not in [schema.block for schema in Store(state.blocks).list()]
    mock = written(tmp_path, "mock", "cust_id,amt\n000,0.0\n")
    assert "2 of 2 rows" in add(mock=mock)
    first = until(partial(published, lab), bool)
    assert first is not None
    assert (first.schema.version, [column.name for column in first.schema.columns]) == (1, ["amt"])
    with pytest.raises(BlockError, match=NAME) as again:
        add(mock=mock)
    assert "replace" in f"{again.value} {again.value.remedy}"
    add(mock=mock, replace=True)
    looks: list[int] = []
    until(lambda: looks.append(published(lab).schema.version) or looks[-1] == 2, bool)  # type: ignore[union-attr]
    assert set(looks) == {1, 2} or looks == [2], (
        "while it is replaced the block is there, the old or the new one"
    )
    events = [
        (entry.event, dict(entry.detail)["version"])
        for entry in lab.log(BANK)
        if entry.object == f"block {NAME}"
    ]
    assert events == [(AuditEvent.BLOCK_REGISTERED, 1), (AuditEvent.BLOCK_REPLACED, 2)]
