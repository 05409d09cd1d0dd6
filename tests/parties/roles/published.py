"""What two parties publish, made from small blocks in memory."""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from parties.blocks.block import BlockSpec, block_from_table, describe_block
from parties.blocks.mock import make_mock
from parties.home.cards import PartyCard
from parties.roles.plan import Offer, Plan, PlanParty
from parties.syft_side.publication import Publication
from protocols import keys
from tests.parties.roles.samples import CERTIFICATES, KEYS

ROWS = 60
PARAMETERS = {
    "d": 2,
    "hidden": 4,
    "steps": 4,
    "memory_every": 2,
    "memory_pool": 4,
    "evaluation_batch": 16,
    "max_common": 40,
    "max_aligned_train": 30,
    "max_aligned_test": 10,
    "max_passive_only": 20,
    "pseudo_from": 1,
    "pseudo_ramp": 1,
    "candidates": "given,linear",
    "folds": 2,
    "linear_views": 3,
    "baselines": False,
}


def card(name: str) -> PartyCard:
    """The party's public card."""
    return PartyCard(
        kind="party",
        name=name,
        organisation=f"Example {name}",
        signing_key=keys.public_hex(KEYS[name]),
        link_certificate=CERTIFICATES[name],
        address="127.0.0.1:7400-7403" if name == "bank" else "",
    )


def publication(name: str, *, label: bool = False, rule: str = "text", key: str = "person") -> Publication:
    """A block of 60 people with a mock, published as version 1."""
    columns: dict[str, list[str]] = {
        key: [f"{n:04d}" for n in range(ROWS)],
        "split": ["test" if n < 10 else "train" for n in range(ROWS)],
        "amount": [str(100 + n) for n in range(ROWS)],
        "town": [("Aa", "Bb")[n % 2] for n in range(ROWS)],
    }
    if label:
        columns["churned"] = [str(n % 2) for n in range(ROWS)]
    spec = BlockSpec(
        name="customers", subject_key=key, split="split", label="churned" if label else "", key_rule=rule
    )
    schema = describe_block(block_from_table(pa.table(columns), spec))
    mock = make_mock(schema, rows=30, generator=np.random.default_rng(1))
    return Publication(schema=replace(schema, version=1, commitment="c" * 64), card=card(name), mock=mock)


def offers(**rules: str) -> dict[str, Offer]:
    """bank with labels and shop without; `rules` may change a party's key rule."""
    made = {}
    for name in ("bank", "shop"):
        published = publication(name, label=name == "bank", rule=rules.get(name, "text"))
        made[name] = Offer(card=published.card, blocks={published.name: published})
    return made


def plan(**changes: object) -> Plan:
    """A plan over both blocks."""
    values: dict[str, object] = {
        "purpose": "churn",
        "purpose_text": "",
        "computation": "vertical.fedcvt.train",
        "parties": (
            PlanParty(name="bank", role="active", block="customers"),
            PlanParty(name="shop", role="passive", block="customers"),
        ),
        "parameters": PARAMETERS,
        "minimum_overlap": 20,
    }
    return Plan(**(values | changes))  # type: ignore[arg-type]
