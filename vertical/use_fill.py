"""Fills the views that people lack, with a trained model: two programs.

Messages in order (A active, P passive): 1 to 3 of `vertical.use`, of 3 only `AloneShown`.

A keeps, as artifacts of the run, the filled passive views of its own people that aren't common, by its row numbers,
and the filled active views of P's others, by their position in P's order. A learns which of its own keys are common,
how many others P has and their representations, from which features can partly be inferred; P which of its own keys are
common and how many keys A offered. The analyst gets numbers of people and how well fills match on the aligned training
people, each one's own row hidden: these people are the memory's and the encoders have learnt from them, so on others
fills are worse.

Shapes: a active-only people, q passive-only people, n aligned training people of the memory, v width of a view.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from protocols.program import Json, Outcome, Program, Progress
from vertical.arrays import to_array
from vertical.encoders import Representation
from vertical.model import ActivePart, PassivePart
from vertical.roles import ACTIVE, PASSIVE
from vertical.table import PartyData
from vertical.use import (
    UseRun,
    agree_on_model,
    align_active,
    align_passive,
    check_part,
    receive_others,
    show_alone,
    shown_report,
)
from vertical.use_config import UseConfig
from vertical.views import Memory, fill_active, fill_passive


class Fill(Protocol):
    """`fill_passive` or `fill_active`."""

    def __call__(
        self, known: Representation, memory: Memory, /, *, temperature: float, rows: Tensor | None
    ) -> Representation:
        """The missing view of people whose other view is known."""


def active_program(data: PartyData, part: ActivePart, config: UseConfig, run: UseRun) -> Program[Outcome]:
    """The run as the party with labels sees it. Raises ModelError when the model doesn't fit or its memory is gone."""
    check_part(part, config)
    memory = part.predictor(filling=True).memory
    yield from agree_on_model(part.tag, PASSIVE)
    people = yield from align_active(data, config, run)
    run.observe(Progress("fill", 0, 1))
    shown = part.shown((yield from receive_others(config)), "views")
    own = part.views(data.table.take(people.alone))
    temperature, batch = part.config.temperature, config.evaluation_batch
    passive_views = fill_in_parts(fill_passive, own, memory, temperature, batch)
    active_views = fill_in_parts(fill_active, shown, memory, temperature, batch)
    run.observe(Progress("fill", 1, 1))
    report: dict[str, Json] = {
        "filled": {
            "active_only": {"people": len(people.alone)},
            "passive_only": {"people": shown.rows},
        },
        "quality": quality(memory, temperature, batch),
    }
    artifacts: dict[str, NDArray[np.generic]] = {
        "rows.active_only": people.alone,
        "filled.passive.unique": to_array(passive_views.unique),
        "filled.passive.common": to_array(passive_views.common),
        "filled.active.unique": to_array(active_views.unique),
        "filled.active.common": to_array(active_views.common),
    }
    return Outcome(report, artifacts, people.told())


def passive_program(data: PartyData, part: PassivePart, config: UseConfig, run: UseRun) -> Program[Outcome]:
    """The run as the party without labels sees it; leaves the order in which it showed its people."""
    check_part(part, config)
    yield from agree_on_model(part.tag, ACTIVE)
    people = yield from align_passive(data, config, run)
    run.observe(Progress("show", 0, 1))
    yield from show_alone(part.show, data, people, config)
    run.observe(Progress("show", 1, 1))
    return Outcome(shown_report(people), {"rows.passive_only": people.alone}, people.told())


@torch.no_grad()
def fill_in_parts(
    fill: Fill, views: Representation, memory: Memory, temperature: float, batch: int, *, own: bool = False
) -> Representation:
    """The missing views of all rows, `batch` at a time; `own`: row i is the memory's aligned person i, then hidden."""
    parts = []
    for start in range(0, max(views.rows, 1), batch):
        at = torch.arange(start, min(start + batch, views.rows))
        parts.append(fill(views.take(at), memory, temperature=temperature, rows=at if own else None))
    return Representation.stack(parts)


def quality(memory: Memory, temperature: float, batch: int) -> Json:
    """How well fills match the true views of the memory's n aligned training people, each one's own row hidden."""
    active = Representation(memory.active_unique, memory.active_common[memory.active_position])
    passive = Representation(memory.passive_unique, memory.passive_common[memory.passive_position])
    scores: dict[str, Json] = {"people": active.rows}
    for name, fill, known, true in (
        ("passive_view", fill_passive, active, passive),
        ("active_view", fill_active, passive, active),
    ):
        filled = fill_in_parts(fill, known, memory, temperature, batch, own=True)
        scores[name] = {
            "unique": match(filled.unique, true.unique),
            "common": match(filled.common, true.common),
        }
    return scores


def match(filled: Tensor, true: Tensor) -> Json:
    """Agreement of filled with true representations (n, v): the mean cosine of rows, and R2 as of a regression.

    R2 = 1 - |filled - true|^2 / |true - mean|^2, summed over all entries: 1 is a perfect fill, 0 as good as everybody's
    mean. None where it isn't defined.
    """
    spread = float(((true - true.mean(dim=0)) ** 2).sum()) if len(true) else 0.0
    off = float(((filled - true) ** 2).sum())
    return {
        "cosine": float(torch.cosine_similarity(filled, true, dim=1).mean()) if len(true) else None,
        "r2": 1.0 - off / spread if spread > 0.0 else None,
    }
