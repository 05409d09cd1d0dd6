"""The same programs in one process, for researchers: two files in, reports out; no approval, no network."""

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from parties import catalog
from parties.blocks.block import BlockSpec, FeatureBlock, read_block
from parties.blocks.keys.agreement import check_agreement
from parties.blocks.schema import SMALLEST_GROUP
from parties.computation import NO_DATA, Computation, Inputs, Parameters, Settings
from parties.home.private_files import read_toml
from parties.roles.progress_lines import printed_progress
from parties.roles.score_table import people_lines, score_table, weight_lines
from protocols.errors import ConfigError, RequestError
from protocols.masking import identities
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
    roles = computation.roles_of(data)
    who = identities(roles)
    programs = {
        role: computation.program(
            Inputs(
                role=role,
                settings=settings,
                data=data.get(role, NO_DATA),
                seed=injected(private_seed, role),
                observe=_silent if at else observe,
                identity=who[role],
            )
        )
        for at, role in enumerate(roles)
    }
    catalog.one_thread()
    outcomes = simulate(programs)
    return {role: outcome for role, outcome in outcomes.items() if isinstance(outcome, Outcome)}


def _silent(progress: Progress) -> None:
    """One party's progress is enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesToSimulate:
    """What to run on which two files: how they are read, which settings differ from the defaults, and one seed for all.

    `settings` is a TOML file with parameters, or a request's plan, of which the table [parameters] is taken; `changes`,
    texts such as "steps=200", come on top of it.
    """

    active: Path
    passive: Path
    key: str
    key_rule: str = "text"
    label: str
    split: str = ""
    computation: str = ""
    settings: Path | None = None
    changes: tuple[str, ...] = ()
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What a simulation gave: each role's report as it is, nothing suppressed, and what is shown of it."""

    computation: str
    seed: int
    reports: Mapping[str, Mapping[str, Json]]

    @property
    def document(self) -> dict[str, object]:
        """The reports for a program."""
        return {
            "simulated": True,
            "computation": self.computation,
            "seed": self.seed,
            "reports": self.reports,
        }

    @property
    def text(self) -> str:
        """The scores as a table, or, of a computation without any, the reports."""
        report, meanings = self.reports["active"], catalog.CATALOG[self.computation].meanings
        table = score_table(report, meanings)
        lines = (
            [*table, *weight_lines(report), *people_lines(report)]
            if table
            else [json.dumps(self.reports, indent=2, sort_keys=True)]
        )
        return "\n".join(lines)


def simulate_files(asked: FilesToSimulate, tell: Callable[[str], None]) -> Simulated:
    """A two-party computation on two files in this process.

    The bounds of the manifest, which a file's owner knows exactly, default to the files' row counts. Raises
    SubjectKeyError when the keys' formats differ, as between datasites.
    """
    computation = _computation(asked.computation or catalog.DEFAULT)
    given = asked_parameters(asked.settings, asked.changes)
    blocks = {
        role: read_block(file, _spec(role, computation, asked))
        for role, file in (("active", asked.active), ("passive", asked.passive))
    }
    check_agreement(*(block.key_offer(role) for role, block in blocks.items()))
    data = {role: block_data(block) for role, block in blocks.items()}
    settings = _local_settings(computation, given, data, asked.seed)
    for line in _beginning(asked, data):
        tell(line)
    outcomes = simulate_run(
        computation,
        settings,
        data,
        printed_progress("simulate", tell),
        private_seed=asked.seed,
    )
    reports = {role: outcome.report for role, outcome in outcomes.items()}
    return Simulated(computation=computation.name, seed=asked.seed, reports=reports)


def _beginning(asked: FilesToSimulate, data: Mapping[str, PartyData]) -> list[str]:
    """What a run on these files works with: how many people are common, and what happens without a split."""
    rows = {role: len(party.keys) for role, party in data.items()}
    common = len(set.intersection(*(set(party.keys) for party in data.values())))
    lines = [
        f"{common:,} people are common to {' and '.join(f'{n:,} ({role})' for role, n in rows.items())} rows"
    ]
    if not asked.split:
        lines.append(
            "no --split: everybody is a training person, so no test person scores the methods; name a column with"
            " train and test in both files (--split COLUMN)"
        )
    return lines


def _computation(name: str) -> Computation:
    """The two-party computation of that name; RequestError when there is none, or two files aren't enough for it."""
    computation = catalog.CATALOG.get(name)
    if computation is None or set(computation.roles) != {"active", "passive"}:
        known = [each.name for each in catalog.CATALOG.values() if set(each.roles) == {"active", "passive"}]
        raise RequestError(f"no two-party computation {name!r}", remedy=f"one of: {', '.join(known)}")
    if computation.model_used is not None:
        raise RequestError(
            f"{name} needs a trained model of both parties",
            remedy="in one process vertical.FedCVT trains and predicts: fit, then predict_proba",
        )
    return computation


def asked_parameters(settings: Path | None, changes: Sequence[str]) -> dict[str, object]:
    """The parameters in a file, if any, with the changes on top of it."""
    return {**(_given(settings) if settings is not None else {}), **_changes(changes)}


def _changes(texts: Sequence[str]) -> dict[str, object]:
    """Parameters from texts "name=value"; a value that isn't a number or truth value of TOML is a text."""
    found: dict[str, object] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise ConfigError(f"{text[:80]!r}: expected name=value", remedy="such as --set steps=200")
        found[name.strip()] = _value(value.strip())
    return found


def _value(text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _spec(role: str, computation: Computation, asked: FilesToSimulate) -> BlockSpec:
    return BlockSpec(
        name=role,
        subject_key=asked.key,
        key_rule=asked.key_rule,
        label=asked.label if role == computation.label_role else "",
        split=asked.split,
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
