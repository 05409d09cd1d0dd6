"""A small trained model and two parties that use it, for the tests of fill, vote and predict."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from protocols.program import Outcome, simulate
from protocols.seeds import injected
from tests.vertical.runs import SMALL, run, two_parties
from vertical import use_fill, use_predict, use_vote
from vertical.model import ActivePart, PassivePart
from vertical.table import PartyData, Split
from vertical.use import UseRun
from vertical.use_config import PredictConfig, UseConfig, VoteConfig

MODEL = "ab" * 32
CLASSES = ("low", "middle", "high")
LINEAR_VIEWS = 3
SIZES = {"aligned": 40, "test": 12, "active_only": 30, "passive_only": 26}
BOUNDS = {
    "model": MODEL,
    "d": SMALL.d,
    "classes": 3,
    "max_common": 52,
    "max_passive_only": 26,
    "evaluation_batch": 8,
}
USES = {
    "fill": (use_fill, UseConfig),
    "vote": (use_vote, VoteConfig),
    "predict": (use_predict, PredictConfig),
}


@cache
def trained(seed: int = 0) -> tuple[ActivePart, PassivePart]:
    """Both parties' parts after a short training on the people of `parties()`."""
    config = replace(SMALL, steps=60, folds=2, linear_views=LINEAR_VIEWS, early_stopping=False)
    active, passive = run(*parties(), config, seed=seed)
    return ActivePart.unpack(active.artifacts), PassivePart.unpack(passive.artifacts)


def parties(**sizes) -> tuple[PartyData, PartyData]:
    """The two parties' data; people beyond the aligned test people are training people."""
    return two_parties(**(SIZES | sizes), classes=CLASSES)


def use(what: str, data=None, parts=None, observe=None, least=1, **changes) -> tuple[Outcome, Outcome]:
    """The outcomes of a fill, vote or predict, active first."""
    programs, _ = USES[what]
    config = settings(what, **changes)
    sides = {}
    for role, own, part in zip(("active", "passive"), data or parties(), parts or trained(), strict=True):
        make = getattr(programs, f"{role}_program")
        sides[role] = make(own, part, config, UseRun(seed=injected(7, role), least=least))
    results = simulate(sides, observe=observe)
    return results["active"], results["passive"]


def settings(what: str, **changes) -> UseConfig:
    """The settings of a use of the trained model."""
    own = {"linear_views": LINEAR_VIEWS} if what == "predict" else {}
    return USES[what][1](**(BOUNDS | own | changes))


def people_of(data: PartyData, split: Split | None = None) -> dict[bytes, int]:
    """Row by key, of one split or of all."""
    return {key: row for row, key in enumerate(data.keys) if split is None or data.split[row] == split}


def keys_of(data: PartyData, rows: np.ndarray) -> list[bytes]:
    """Keys of rows."""
    return [data.keys[row] for row in rows.tolist()]
