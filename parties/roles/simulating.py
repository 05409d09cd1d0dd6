"""The same programs in one process, for researchers: two files in, reports out; no approval, no network."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from parties import catalog
from parties.blocks.block import BlockSpec, FeatureBlock, read_block
from parties.blocks.keys.agreement import check_agreement
from parties.blocks.schema import SMALLEST_GROUP
from parties.computation import Computation, Inputs, Parameters, Settings
from parties.home.private_files import read_toml
from parties.roles.progress_lines import printed_progress
from protocols.errors import ConfigError
from protocols.program import Json, Observe, Outcome, Progress, simulate
from protocols.seeds import injected
from vertical.table import PartyData

LEAST_OVERLAP = 2
"""Aligned training people that a run on files asks for, unless its settings say otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """Settings of a run that has no request: `computation.Settings` without the parties."""

    parameters: Parameters
    public_seed: int
    minimum_overlap: int
    minimum_group: int = SMALLEST_GROUP
    rows: Mapping[str, int] = field(default_factory=dict)
    """Nobody published a bound."""


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
    computation: Computation,
    settings: Settings,
    data: Mapping[str, PartyData],
    observe: Observe,
    *,
    private_seed: int,
) -> dict[str, Outcome]:
    """The outcome of each role, by role, with injected private seeds; bit for bit what the datasites would give."""
    programs = {
        role: computation.program(
            Inputs(
                role=role,
                settings=settings,
                data=data[role],
                seed=injected(private_seed, role),
                observe=_silent if at else observe,
            )
        )
        for at, role in enumerate(computation.roles)
    }
    catalog.one_thread()
    outcomes = simulate(programs)
    return {role: outcome for role, outcome in outcomes.items() if isinstance(outcome, Outcome)}


def _silent(progress: Progress) -> None:
    """One party's progress is enough."""


def simulate_files(
    active: Path,
    passive: Path,
    *,
    key: str,
    key_rule: str,
    label: str,
    split: str,
    settings: Path | None,
    seed: int,
    tell: Callable[[str], None],
) -> tuple[dict[str, object], str]:
    """A two-party computation on two files in this process: both reports as a document and as text.

    `settings` is a TOML file with parameters, or a request's plan, of which the table [parameters] is taken.
    The bounds of the manifest, which a file's owner knows exactly, default to the files' row counts. Raises
    SubjectKeyError when the keys' formats differ, as between datasites.
    """
    computation = catalog.CATALOG[catalog.DEFAULT]
    blocks = {
        role: read_block(file, _spec(role, computation, key=key, key_rule=key_rule, label=label, split=split))
        for role, file in (("active", active), ("passive", passive))
    }
    check_agreement(*(block.key_offer(role) for role, block in blocks.items()))
    data = {role: block_data(block) for role, block in blocks.items()}
    outcomes = simulate_run(
        computation,
        _local_settings(computation, _given(settings) if settings is not None else {}, data, seed),
        data,
        printed_progress("simulate", tell),
        private_seed=seed,
    )
    reports = {role: outcome.report for role, outcome in outcomes.items()}
    return {"simulated": True, "reports": reports}, _scores_text(reports["active"])


def _spec(
    role: str, computation: Computation, *, key: str, key_rule: str, label: str, split: str
) -> BlockSpec:
    return BlockSpec(
        name=role,
        subject_key=key,
        key_rule=key_rule,
        label=label if role == computation.label_role else "",
        split=split,
    )


def _local_settings(
    computation: Computation, given: Mapping[str, object], data: Mapping[str, PartyData], seed: int
) -> LocalSettings:
    rows = max(party.table.rows for party in data.values())
    wanted: dict[str, object] = {**dict.fromkeys(computation.row_bounds, rows), **given}
    overlap = wanted.pop("minimum_overlap", LEAST_OVERLAP)
    if not isinstance(overlap, int) or isinstance(overlap, bool):
        raise ConfigError(f"minimum_overlap: expected int, came {overlap!r}")
    return LocalSettings(
        parameters=computation.parameters(wanted, overlap), public_seed=seed, minimum_overlap=overlap
    )


def _given(path: Path) -> dict[str, object]:
    """The parameters in the file, which is a plan when it has a table of that name."""
    table = read_toml(path)
    inner = table.get("parameters")
    return dict(inner) if isinstance(inner, Mapping) else dict(table)


def _scores_text(report: Mapping[str, Json]) -> str:
    lines = [f"{'method':<14}{'views':<14}{'AUC':>8}{'accuracy':>10}{'people':>8}"]
    methods = report["methods"]
    assert isinstance(methods, Mapping)
    for method, situations in methods.items():
        assert isinstance(situations, Mapping)
        for situation, scores in situations.items():
            assert isinstance(scores, Mapping)
            auc, accuracy = (_shown(scores[name]) for name in ("auc", "accuracy"))
            lines.append(f"{method:<14}{situation:<14}{auc:>8}{accuracy:>10}{scores['people']!s:>8}")
    return "\n".join(lines)


def _shown(value: Json) -> str:
    return f"{value:.3f}" if isinstance(value, float) else "-"
