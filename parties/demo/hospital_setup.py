"""What exists before the horizontal demo's story begins: files, state folders, exchanged cards, blocks and a plan."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations
from pathlib import Path

from parties.blocks.block import BlockSpec
from parties.demo.hospital_data import LABEL, SPLIT, SUBJECT_KEY, write_csv
from parties.demo.setup import AGGREGATOR, ANALYST, HOSPITALS, Stage
from parties.demo.sites import free_ports, free_range
from parties.home.cards import card_fingerprint
from parties.home.private_files import toml_text, write_private
from parties.home.state import State, init_analyst, init_party
from parties.roles.owner import add_block, add_peer
from protocols.request import ComputationRequest, digest

BLOCK = "tumours"
ROLES: Mapping[str, str] = {
    AGGREGATOR: "aggregator",
    **{name: f"client-{number}" for number, name in enumerate(HOSPITALS, 1)},
}
"""As the request numbers them."""
SETTINGS: Mapping[str, str | int | float | bool] = {
    "method": "fedbss",
    "rounds": 40,
    "epochs": 4,
    "batch": 16,
    "learning_rate": 0.1,
    "hidden": "16",
    "minimum_clients": 2,
}
SECURE: Mapping[str, str | int | float | bool] = {"secure_aggregation": True, "minimum_clients": 3}
"""With which the aggregator learns sums of three hospitals only, and so may be of the analyst's organisation."""
LAB = "Example Lab"
"""The analyst's organisation."""


def spec() -> BlockSpec:
    """How each hospital's file is read."""
    return BlockSpec(name=BLOCK, subject_key=SUBJECT_KEY, label=LABEL, split=SPLIT)


def prepare_hospitals(folder: Path, *, secure: bool = False) -> Stage:
    """Writes the files, makes the state folders, exchanges all cards and adds the blocks; the registry has none.

    With `secure` the registry is the analyst's own, and the plan asks for sums under masks.
    """
    files = write_csv(folder / "data")
    ports = free_ports(len(ROLES))
    states: dict[str, State] = {
        name: init_party(
            folder / name,
            name=name,
            organisation=_organisation(name, secure),
            address="" if name in HOSPITALS else free_range(2 * len(HOSPITALS)),
            port=port,
        )
        for name, port in zip(ROLES, ports, strict=True)
    }
    for here, there in permutations(states, 2):
        card = states[there].card()
        add_peer(states[here], states[there].folder / "card.json", card_fingerprint(card))
    for name in HOSPITALS:
        add_block(states[name], files[name], spec())
    states[ANALYST] = init_analyst(folder / ANALYST, name="ana", organisation=LAB)
    plan = folder / "plan.toml"
    write_private(plan, plan_text(secure=secure))
    how = "sums under masks" if secure else "a common model"
    what = f"rounds of local training, {how}, evaluation between workers over mutual TLS"
    return Stage(folder=folder, files=files, states=states, plan=plan, what_runs=what)


def _organisation(name: str, secure: bool) -> str:
    if name in HOSPITALS:
        return f"Hospital {name.capitalize()}"
    return LAB if secure else "Tumour Registry"


SCORING = HOSPITALS[0]
"""The hospital that then scores its own test rows with the common model."""


def scoring_stage(stage: Stage, trained: ComputationRequest) -> Stage:
    """The stage of that hospital alone, with a plan for the scores."""
    head: dict[str, str | int | float | bool] = {
        "purpose": "tumour-class",
        "purpose_text": f"Scores of {SCORING}'s own test rows, which stay there.",
        "computation": "horizontal.predict",
    }
    tables: dict[str, Mapping[str, str | int | float | bool]] = {
        "": head,
        f"parties.{SCORING}": {"role": "client", "block": BLOCK},
        "parameters": {"model": digest(trained), "split": "test"},
    }
    plan = stage.folder / "scores-plan.toml"
    write_private(plan, toml_text(tables, "What the analyst asks for; the rest follows from the training."))
    states = {name: stage.states[name] for name in (SCORING, ANALYST)}
    return replace(stage, states=states, plan=plan, what_runs="the hospital scores its own rows, by itself")


def plan_text(*, secure: bool = False) -> str:
    """The analyst's plan as TOML; features and classes follow from what the hospitals publish."""
    head: dict[str, str | int | float | bool] = {
        "purpose": "tumour-class",
        "purpose_text": "Is a tumour malignant: one model of three hospitals, to compare methods.",
        "computation": "horizontal.train",
        "minimum_group": 10,
        "public_seed": 0,
        "runs": 1,
        "days": 7,
    }
    tables: dict[str, Mapping[str, str | int | float | bool]] = {
        "": head,
        f"parties.{AGGREGATOR}": {"role": "aggregator"},
    }
    for name in HOSPITALS:
        tables[f"parties.{name}"] = {"role": "client", "block": BLOCK}
    tables["parameters"] = {**SETTINGS, **(SECURE if secure else {})}
    return toml_text(tables, "What the analyst asks for; the rest comes from the datasites and the catalog.")
