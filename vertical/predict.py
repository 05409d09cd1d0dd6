"""Prediction of a trained FedCVT model for people with both views or with only one.

Shapes: m people, d width, k classes. A missing view is filled by attention from the model's memory, which holds
representations of both parties' training people: a named, revocable part of the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

from protocols.errors import ConfigError
from vertical.config import FedCVTConfig
from vertical.encoders import Representation
from vertical.heads import HeadLogits, Heads
from vertical.views import Memory, fill_active, fill_passive
from vertical.vote import Vote, vote

_ROWS_AT_ONCE = 2048  # bounds the attention weights to this many rows times the memory's


class Situation(StrEnum):
    """Which views of a person are known."""

    BOTH = "both"
    ACTIVE_ONLY = "active_only"
    PASSIVE_ONLY = "passive_only"


SITUATIONS = tuple(Situation)
"""All in the order of arrays that have one entry for each."""


def situation_of(active: object | None, passive: object | None) -> Situation:
    """Which situation it is, when what is known of a party's people is None where it is missing."""
    if active is None:
        return Situation.PASSIVE_ONLY
    return Situation.ACTIVE_ONLY if passive is None else Situation.BOTH


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Predictor:
    """The part of a trained model that turns representations into predictions.

    temperatures (3, 3): what divides each head's logits before a vote, by situation and head; None: nothing.
    """

    config: FedCVTConfig
    heads: Heads
    memory: Memory
    temperatures: Tensor | None = None

    @torch.no_grad()
    def head_logits(self, active: Representation | None, passive: Representation | None) -> HeadLogits:
        """Logits (m, k) of the three heads; a view that is None is filled. ConfigError if both are."""
        known = passive if active is None else active
        if known is None:
            raise ConfigError("a prediction needs the view of at least one party")
        parts = []
        for start in range(0, max(known.rows, 1), _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            a, p = self._complete(active and active.take(rows), passive and passive.take(rows))
            parts.append(self.heads(a, p).stacked())
        return HeadLogits(*torch.cat(parts, dim=1))

    def logits(self, active: Representation | None, passive: Representation | None) -> Tensor:
        """Logits (m, k) of f^AB; a view that is None is filled. ConfigError if both are."""
        return self.head_logits(active, passive).joint

    @torch.no_grad()
    def vote(self, active: Representation | None, passive: Representation | None) -> Vote:
        """Pseudo labels (m,); a view that is None is filled. ConfigError if both are."""
        logits, at = self.head_logits(active, passive), SITUATIONS.index(situation_of(active, passive))
        calibrated = logits if self.temperatures is None else logits.divided(self.temperatures[at])
        return vote(calibrated, self.config.thresholds)

    def hide(self, situation: Situation, active: Representation, passive: Representation) -> HeadLogits:
        """Logits (m, k) for people with both views, as if only the situation's views were known."""
        return self.head_logits(
            None if situation == Situation.PASSIVE_ONLY else active,
            None if situation == Situation.ACTIVE_ONLY else passive,
        )

    def _complete(
        self, active: Representation | None, passive: Representation | None
    ) -> tuple[Representation, Representation]:
        temperature = self.config.temperature
        if active is None:
            assert passive is not None
            return fill_active(passive, self.memory, temperature=temperature), passive
        if passive is None:
            return active, fill_passive(active, self.memory, temperature=temperature)
        return active, passive
