"""The same programs in one process, for researchers: two files in, the parties' reports out; no approval, no network."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from parties import catalog
from parties.block import BlockSpec, FeatureBlock, read_block
from protocols.program import Observe, Outcome, Progress, simulate
from protocols.seeds import injected
from vertical.table import PartyData


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """Settings of a run that has no request: `catalog.Settings` without the parties."""

    parameters: catalog.Parameters
    public_seed: int
    minimum_overlap: int


def block_data(block: FeatureBlock) -> PartyData:
    """A block in memory as a program reads it, row for row what the store would hand out."""
    return PartyData(
        keys=tuple(text.encode() for text in block.keys.texts.to_pylist()),
        table=block.table,
        split=block.split,
        labels=block.labels,
        classes=block.classes,
    )


def read_data(path: Path, spec: BlockSpec) -> PartyData:
    """A file as a program reads it. Raises BlockError or SubjectKeyError."""
    return block_data(read_block(path, spec))


def simulate_run(
    computation: catalog.Computation,
    settings: catalog.Settings,
    data: Mapping[str, PartyData],
    observe: Observe,
    *,
    private_seed: int,
) -> dict[str, Outcome]:
    """The outcome of each role, by role, with injected private seeds; bit for bit what the datasites would give."""
    programs = {
        role: computation.program(
            role,
            request,
            data[role],
            injected(private_seed, role),
            observe if role == "active" else lambda p: None,
        )
        for at, role in enumerate(computation.roles)
    }
    outcomes = simulate(programs)
    return {role: outcome for role, outcome in outcomes.items() if isinstance(outcome, Outcome)}


def _silent(progress: Progress) -> None:
    """One party's progress is enough."""
