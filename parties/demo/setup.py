"""What exists before the demo's story begins: two files, three state folders, exchanged cards, blocks and a plan.

`fedaccord demo --prepare` makes the files and the plan alone, so that the rest can be typed by hand.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from parties.blocks.block import BlockSpec
from parties.control.supervisor import LOCK_FILE, only_one
from parties.demo.data import BANK_COLUMNS, LABEL, RETAILER_COLUMNS, SPLIT, SUBJECT_KEY, People, write_csv
from parties.demo.sites import free_ports, free_range
from parties.home.cards import card_fingerprint
from parties.home.private_files import toml_text, write_private
from parties.home.state import State, init_analyst, init_party, open_state
from parties.roles.owner import add_block, add_peer
from protocols.errors import StateError

MARK, PREPARED_MARK = ".fedaccord-demo", ".fedaccord-prepared"
HOSPITALS_MARK = ".fedaccord-demo-horizontal"
"""Files that say which kind of demo made the folder; only the same kind replaces what it made."""
BANK, RETAILER, ANALYST = "bank", "retailer", "analyst"
AGGREGATOR, HOSPITALS = "registry", ("north", "south", "east")
MADE = {
    PREPARED_MARK: frozenset({"data", "plan.toml"}),
    MARK: frozenset(
        {"data", "plan.toml", BANK, RETAILER, ANALYST, "heads", "report.html", "result.json"}
        | {f"{party}-login.json" for party in (BANK, RETAILER)}
    ),
    HOSPITALS_MARK: frozenset(
        {"data", "plan.toml", AGGREGATOR, *HOSPITALS, ANALYST, "heads", "report.html", "result.json"}
        | {f"{party}-login.json" for party in (AGGREGATOR, *HOSPITALS)}
        | {"scores-plan.toml", "scores.csv"}
    ),
}
"""What each kind makes, besides temporary folders; whatever else stands in the folder is somebody's work."""
TEMPORARY_PREFIX = ".temporary-"
"""A demo's own temporary folder, which one that was killed leaves there."""
ANALYST_EMAIL = "ana@lab.example.org"
ROLES: Mapping[str, str] = {BANK: "active", RETAILER: "passive"}
BLOCK = "customers"
# Chosen on validation folds of the training people by `python -m benchmarks.choose_demo_settings`; the test people were
# not read for it.
SETTINGS: Mapping[str, str | int | float | bool] = {
    "encoder": "mlp",
    "d": 8,
    "hidden": 32,
    "dropout": 0.3,
    "input_noise": 0.4,
    "steps": 200,
    "threshold_joint": 0.9,
    "threshold_active": 0.8,
    "threshold_passive": 0.8,
    "pseudo_from": 60,
    "pseudo_ramp": 60,
    "alone_batch": 512,
    "memory_pool": 128,
    "candidates": "given",
    "folds": 3,
    "baseline_steps": 100,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The prepared folder: files by party, states by name, the analyst's plan, and what it makes run, in words."""

    folder: Path
    files: Mapping[str, Path]
    states: Mapping[str, State]
    plan: Path
    what_runs: str = "alignment, training, evaluation between workers over mutual TLS"

    @property
    def parties(self) -> tuple[str, ...]:
        """The names of all but the analyst."""
        return tuple(name for name in self.states if name != ANALYST)


def specs() -> dict[str, BlockSpec]:
    """How each party's file is read, by party."""
    bank = BlockSpec(name=BLOCK, subject_key=SUBJECT_KEY, label=LABEL, split=SPLIT)
    return {BANK: bank, RETAILER: BlockSpec(name=BLOCK, subject_key=SUBJECT_KEY, split=SPLIT)}


def fresh_folder(folder: Path, mark: str = MARK) -> Path:
    """The empty folder. What an earlier demo of the same kind made there is removed; nothing else ever is.

    Raises StateError when the folder holds anything else, or when a datasite runs in it.
    """
    folder = folder.resolve()
    found = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    own = {mark, *MADE[mark], *(name for name in found if name.startswith(TEMPORARY_PREFIX))}
    foreign = sorted(found - own) if mark in found else sorted(found)
    if foreign:
        raise StateError(
            f"{folder} holds {', '.join(foreign[:5])}, which no earlier demo left there",
            remedy="choose another folder with --out, or remove it yourself",
        )
    for name in found:
        if (folder / name / LOCK_FILE).exists():
            with only_one(
                open_state(folder / name, test_mode=True)
            ):  # StateError while a supervisor runs there
                shutil.rmtree(folder / name)
    for path in [folder / name for name in found]:
        if path.is_dir():
            shutil.rmtree(path)
        elif path.exists():
            path.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / mark).write_text("made by `fedaccord demo`; the next one replaces it\n", encoding="utf-8")
    return folder


def prepare(folder: Path, who: People) -> Stage:
    """Writes the files, makes the three state folders, exchanges the cards and adds the blocks."""
    bank_csv, retailer_csv = write_csv(who, folder / "data")
    files = {BANK: bank_csv, RETAILER: retailer_csv}
    states = _states(folder)
    _exchange_cards(states)
    for name, spec in specs().items():
        add_block(states[name], files[name], spec)
    plan = folder / "plan.toml"
    write_private(plan, plan_text(who, aligned=len(who.aligned)))
    return Stage(folder=folder, files=files, states=states, plan=plan)


def prepare_files(folder: Path, who: People) -> str:
    """Writes the two files and the plan only, and gives back where; the README has the commands for the rest."""
    bank, retailer = write_csv(who, folder / "data")
    plan = folder / "plan.toml"
    write_private(plan, plan_text(who, aligned=len(who.aligned)))
    return f"bank's file      {bank}\nretailer's file  {retailer}\nanalyst's plan   {plan}\nsee README"


def parameters(who: People, *, aligned: int) -> dict[str, str | int | float | bool]:
    """The demo's settings with the bounds that follow from the numbers of people."""
    bounds = {
        "max_aligned_train": aligned,
        "max_aligned_test": len(who.test),
        "max_common": aligned + len(who.test),
        "max_passive_only": len(who.retailer_only),
    }
    return {**SETTINGS, **bounds}


def plan_text(who: People, *, aligned: int) -> str:
    """The analyst's plan as TOML."""
    head: dict[str, str | int | float | bool] = {
        "purpose": "income-class",
        "purpose_text": "Which customers earn more than 50K: a joint model of bank and retailer, to compare methods.",
        "computation": "vertical.fedcvt.train",
        "minimum_group": 10,
        "minimum_overlap": min(aligned, 20),
        "public_seed": who.seed,
        "runs": 1,
        "days": 7,
    }
    tables: dict[str, Mapping[str, str | int | float | bool | Sequence[str]]] = {"": head}
    for name, columns in ((BANK, BANK_COLUMNS), (RETAILER, RETAILER_COLUMNS)):
        tables[f"parties.{name}"] = {"role": ROLES[name], "block": BLOCK, "columns": list(columns)}
    tables["parameters"] = parameters(who, aligned=aligned)
    comment = "What the analyst asks for; everything else comes from the datasites and the catalog."
    return toml_text(tables, comment)


def login_file(folder: Path, party: str) -> Path:
    """Where a party's owner leaves the analyst's login."""
    return folder / f"{party}-login.json"


def _states(folder: Path) -> dict[str, State]:
    ports = free_ports(2)
    bank = init_party(
        folder / BANK, name=BANK, organisation="Example Bank", address=free_range(4), port=ports[0]
    )
    retailer = init_party(folder / RETAILER, name=RETAILER, organisation="Example Retailer", port=ports[1])
    analyst = init_analyst(folder / ANALYST, name="ana", organisation="Example Lab")
    return {BANK: bank, RETAILER: retailer, ANALYST: analyst}


def _exchange_cards(states: Mapping[str, State]) -> None:
    """Each party accepts the other; in life the fingerprint is read out over the telephone."""
    for here, there in ((BANK, RETAILER), (RETAILER, BANK)):
        card = states[there].card()
        add_peer(states[here], states[there].folder / "card.json", card_fingerprint(card))


def read_traffic(state: State, digest: str = "") -> list[dict[str, object]]:
    """What left and came at a party in its only run, or in that of a request, by kind, from the run folder that only
    this party sees."""
    (path,) = state.runs.glob(f"{digest}*/traffic.json")
    return list(json.loads(path.read_text(encoding="utf-8"))["releases"])
