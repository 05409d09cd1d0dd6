"""The three classifiers of FedCVT, all at the active party: f^A, f^B and f^AB. They emit logits.

Shapes: n rows, v_A and v_B width of the active and of the passive view, k classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vertical.config import FedCVTConfig
from vertical.encoders import Encoder, Representation

HEADS = ("joint", "active", "passive")
"""The heads f^AB, f^A and f^B by name, in the order of the vote's thresholds."""


@dataclass(frozen=True, slots=True, eq=False)
class HeadLogits:
    """Logits (n, k) of the three heads for the same n rows."""

    joint: Tensor
    active: Tensor
    passive: Tensor

    def stacked(self) -> Tensor:
        """All in the order of `HEADS`, (3, n, k)."""
        return torch.stack([self.joint, self.active, self.passive])

    @torch.no_grad()
    def divided(self, temperatures: Tensor) -> HeadLogits:
        """Divided by temperatures (n, 3) or (3,), in the order of `HEADS`; without history."""
        return HeadLogits(*(self.stacked() / temperatures.reshape(-1, len(HEADS)).T[:, :, None]))


def classifier(config: FedCVTConfig, width: int, classes: int, generator: torch.Generator) -> Encoder:
    """A fresh head on views of a width, (n, width) -> logits (n, k)."""
    between = (config.head_hidden,) if config.head_hidden else ()
    return Encoder((width, *between, classes), config.dropout, generator)


class Heads(nn.Module):
    """f^A on R_A (n, v_A), f^B on R_B (n, v_B), f^AB on [R_A ; R_B] (n, v_A + v_B)."""

    def __init__(self, config: FedCVTConfig, classes: int, generator: torch.Generator) -> None:
        super().__init__()
        active, passive = config.active_view.width, config.passive_view.width
        self.active = classifier(config, active, classes, generator)
        self.passive = classifier(config, passive, classes, generator)
        self.joint = classifier(config, active + passive, classes, generator)
        self.classes = classes

    def joint_logits(self, active: Representation, passive: Representation) -> Tensor:
        """f^AB on both views of the same rows, (n, k); either may be a filled one."""
        logits: Tensor = self.joint(torch.cat([active.joined(), passive.joined()], dim=1))
        return logits

    def forward(self, active: Representation, passive: Representation) -> HeadLogits:
        """All three heads on the same rows."""
        a, p = active.joined(), passive.joined()
        return HeadLogits(self.joint(torch.cat([a, p], dim=1)), self.active(a), self.passive(p))
