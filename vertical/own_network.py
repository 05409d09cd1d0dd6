"""The active party's own network: f^A with weights of its own, trained without a message to anybody.

It is an expert of the pool and a baseline of the report; `vertical.own_training` trains it.
Shapes: m rows, f own scaled features, k classes.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from vertical.config import FedCVTConfig
from vertical.encoders import view_encoder
from vertical.heads import classifier
from vertical.linear import Floats

_ROWS_AT_ONCE = 2048


class OwnNetwork(nn.Module):
    """The two encoders of the active party and the head f^A, with weights of their own."""

    def __init__(self, config: FedCVTConfig, inputs: int, classes: int, generator: torch.Generator) -> None:
        super().__init__()
        self.encoder = view_encoder(config, config.active_view, inputs, generator)
        self.head = classifier(config, config.active_view.width, classes, generator)

    def forward(self, features: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Logits (m, k) of features (m, f); training form with a generator, evaluation without."""
        logits: Tensor = self.head(self.encoder(features, generator).joined())
        return logits

    @torch.no_grad()
    def logits(self, features: Tensor | Floats) -> Floats:
        """Logits (m, k) in evaluation form."""
        rows = torch.as_tensor(features, dtype=torch.float32)
        parts = torch.split(rows, _ROWS_AT_ONCE)
        result: Floats = torch.cat([self(part) for part in parts]).numpy().astype(np.float64)
        return result


def uses_own_network(config: FedCVTConfig) -> bool:
    """Whether a run trains it: for the pool, which only held-out people can weigh, or for the report."""
    return bool(config.folds) or config.baselines
