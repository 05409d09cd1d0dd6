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
from vertical.heads import Heads
from vertical.views import Memory, fill_active, fill_passive
from vertical.vote import Vote, vote

_ROWS_AT_ONCE = 2048  # bounds the attention weights to this many rows times the memory's


class Situation(StrEnum):
    """Which views of a person are known."""

    BOTH = "both"
    ACTIVE_ONLY = "active_only"
    PASSIVE_ONLY = "passive_only"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Predictor:
    """The part of a trained model that turns representations into predictions."""

    config: FedCVTConfig
    heads: Heads
    memory: Memory

    @torch.no_grad()
    def logits(self, active: Representation | None, passive: Representation | None) -> Tensor:
        """Logits (m, k) of f^AB; a view that is None is filled. ConfigError if both are."""
        return self._in_parts(active, passive, joint_only=True)[0]

    @torch.no_grad()
    def vote(self, passive: Representation) -> Vote:
        """Pseudo labels of people of whom only the passive party's view is known."""
        joint, own, other = self._in_parts(None, passive, joint_only=False)
        return vote(joint, own, other, self.config.thresholds)

    def hide(self, situation: Situation, active: Representation, passive: Representation) -> Tensor:
        """Logits (m, k) for people with both views, as if only the situation's views were known."""
        return self.logits(
            None if situation == Situation.PASSIVE_ONLY else active,
            None if situation == Situation.ACTIVE_ONLY else passive,
        )

    def _in_parts(
        self, active: Representation | None, passive: Representation | None, *, joint_only: bool
    ) -> list[Tensor]:
        known = passive if active is None else active
        if known is None:
            raise ConfigError("a prediction needs the view of at least one party")
        parts = []
        for start in range(0, max(known.rows, 1), _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            a, p = self._complete(active and active.take(rows), passive and passive.take(rows))
            heads = self.heads
            parts.append(
                [heads.joint_logits(a, p)]
                if joint_only
                else [heads.joint_logits(a, p), heads.active_logits(a), heads.passive_logits(p)]
            )
        return [torch.cat(pieces) for pieces in zip(*parts, strict=True)]

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
