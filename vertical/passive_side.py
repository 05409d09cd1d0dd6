"""The passive party's half of a training: its encoders, its step, its share of the memory. No message is sent here.

Shapes: n aligned training rows, b and e aligned and passive-only rows of a step, f features, v width of a view.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vertical.arrays import to_array
from vertical.encoders import ViewEncoder, view_encoder
from vertical.messages import MemoryViews
from vertical.optimiser import adamw, take_step
from vertical.schedule import Training, refresh_number
from vertical.training import Features, Run


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """A step's input (b + e, f) with its noise, the first b = `aligned` rows of aligned people, and its generator."""

    noisy: Tensor
    aligned: int
    generator: torch.Generator


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PassiveSide:
    """One training at the passive party, on all its rows: which of them a step uses, `training` says."""

    training: Training
    run: Run
    features: Features
    encoder: ViewEncoder
    optimiser: torch.optim.AdamW

    @classmethod
    def start(cls, training: Training, run: Run, features: Features) -> PassiveSide:
        """A training before its first step."""
        config = training.config
        weights = run.generator(f"{training.name} weights")
        encoder = view_encoder(config, config.passive_view, features.width, weights)
        return cls(
            training=training,
            run=run,
            features=features,
            encoder=encoder,
            optimiser=adamw(config, encoder.parameters()),
        )

    def batch(self, step: int) -> Batch:
        """What a step needs that doesn't depend on the encoders' parameters."""
        config, kept = self.training.config, self.training.fold.kept
        aligned = kept[self.run.rows("aligned", len(kept), config.aligned_batch, step)]
        alone = self.run.rows("passive only", len(self.features.alone), config.alone_batch, step)
        generator = self.run.generator(f"{self.training.name} step {step}")
        rows = torch.cat([self.features.aligned[aligned], self.features.alone[alone]])
        return Batch(noisy=self.encoder.noisy(rows, generator), aligned=len(aligned), generator=generator)

    def views(self, batch: Batch) -> Tensor:
        """The views of a step's rows (b + e, v), with history."""
        return self.encoder.encode(batch.noisy, batch.generator).joined()

    def update(self, step: int, views: Tensor, gradients: Tensor) -> None:
        """One optimiser step along the loss's gradients in the step's views, both (b + e, v)."""
        self.optimiser.zero_grad()
        views.backward(gradients)  # type: ignore[no-untyped-call]
        take_step(self.optimiser, self.training.config, step)

    @torch.no_grad()
    def memory(self, step: int) -> MemoryViews:
        """Views of all aligned rows, also of held-out ones, and common representations of this refresh's pool."""
        config, alone = self.training.config, self.features.alone
        pool = self.run.rows("passive pool", len(alone), config.memory_pool, refresh_number(config, step))
        common = self.encoder.common(alone[pool])
        return MemoryViews(step, to_array(self.encoder(self.features.aligned).joined()), to_array(common))
