"""The active party's half of a training: its model, its step, its memory. No messages here.

Shapes: n aligned, a active-only training rows, b and e aligned and passive-only rows of a step, v_A and v_B width of
the active and of the passive view, d of a common representation, N rows of the passive pool.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from vertical.encoders import Representation, ViewEncoder, view_encoder
from vertical.fedcvt import Objective, StepLabels, StepViews, objective
from vertical.heads import Heads
from vertical.losses import class_weights
from vertical.optimiser import adamw, take_step
from vertical.schedule import refresh_number
from vertical.table import Rows
from vertical.training import Features, Run
from vertical.views import Memory


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Labels:
    """Class codes, -1 where missing, of the aligned (n,), active-only (a,) and test rows, and the class names."""

    aligned: Tensor
    alone: Tensor
    test: Tensor
    classes: tuple[str, ...]

    def training(self) -> Tensor:
        """Labels of all training rows, aligned ones first, (n + a,)."""
        return torch.cat([self.aligned, self.alone])

    def keep(self, aligned: Rows, alone: Rows) -> Labels:
        """The same with only these aligned and active-only rows."""
        return replace(self, aligned=self.aligned[aligned], alone=self.alone[alone])

    def aligned_only(self) -> Labels:
        """The same without the active-only rows."""
        return replace(self, alone=self.alone[:0])


class ActiveModel(nn.Module):
    """All parameters of the active party: its two encoders and the three heads."""

    def __init__(self, run: Run, name: str, inputs: int, classes: int) -> None:
        super().__init__()
        generator = run.generator(f"{name} weights")
        self.encoder: ViewEncoder = view_encoder(run.config, run.config.active_view, inputs, generator)
        self.heads: Heads = Heads(run.config, classes, generator)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OwnHalf:
    """What the active party has for a step before the passive party's views are there.

    rows int64 (b,): positions of the step's aligned people; aligned (b, v_A) and alone own views, with history.
    """

    rows: Rows
    aligned: Representation
    alone: Representation
    labels: StepLabels


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ActiveSide:
    """One training at the active party; `name` keeps its randomness apart from other trainings of the run."""

    run: Run
    name: str
    features: Features
    labels: Labels
    model: ActiveModel
    optimiser: torch.optim.AdamW
    class_weights: Tensor | None
    temperatures: Tensor | None

    @classmethod
    def start(
        cls, run: Run, name: str, features: Features, labels: Labels, temperatures: Tensor | None = None
    ) -> ActiveSide:
        """A training before its first step; `temperatures` (3, 3), by situation and head, calibrate its votes."""
        classes = len(labels.classes)
        model = ActiveModel(run, name, features.width, classes)
        return cls(
            run=run,
            name=name,
            features=features,
            labels=labels,
            model=model,
            optimiser=adamw(run.config, model.parameters()),
            class_weights=class_weights(labels.training(), classes) if run.config.class_balance else None,
            temperatures=temperatures,
        )

    def own_half(self, step: int) -> OwnHalf:
        """The part of a step that needs nothing from the passive party.

        The passive party derives the aligned rows too; of the active-only ones nobody else knows or needs any.
        """
        config, features = self.run.config, self.features
        rows = self.run.rows("aligned", len(features.aligned), config.aligned_batch, step)
        own_alone = self.run.rows("active only", len(features.alone), config.alone_batch, step)
        batch = torch.cat([features.aligned[rows], features.alone[own_alone]])
        own = self.model.encoder(batch, self.run.generator(f"{self.name} step {step}"))
        return OwnHalf(
            rows=rows,
            aligned=own.take(slice(0, len(rows))),
            alone=own.take(slice(len(rows), None)),
            labels=StepLabels(aligned=self.labels.aligned[rows], alone=self.labels.alone[own_alone]),
        )

    def differentiate(
        self, step: int, own: OwnHalf, memory: Memory, aligned: Tensor, alone: Tensor
    ) -> Objective:
        """The step's loss, its gradients computed: those of the passive party's views too, where they ask for one."""
        config = self.run.config
        views = StepViews(
            active_aligned=own.aligned,
            active_alone=own.alone,
            passive_aligned=Representation.split(aligned, config.d),
            passive_alone=Representation.split(alone, config.d),
            rows=torch.tensor(own.rows),
        )
        result = objective(
            config,
            self.model.heads,
            views,
            memory,
            own.labels,
            step=step,
            class_weights=self.class_weights,
            temperatures=self.temperatures,
        )
        self.optimiser.zero_grad()
        result.total.backward()  # type: ignore[no-untyped-call]
        return result

    def update(self, step: int) -> None:
        """Moves this party's parameters along the gradients of `differentiate`."""
        take_step(self.optimiser, self.run.config, step)

    @torch.no_grad()
    def memory(self, step: int, passive: Representation, pool: Tensor) -> Memory:
        """The memory from `step` on, from the passive party's views of all aligned rows (n, v_B) and its pool (N, d).

        Each party's pool is all aligned rows and then this refresh's alone rows, so aligned row i stands at i in both.
        """
        config, encoder = self.run.config, self.model.encoder
        alone, number = self.features.alone, refresh_number(config, step)
        rows = self.run.rows("active pool", len(alone), config.memory_pool, number)
        own = encoder(self.features.aligned)
        place = torch.arange(own.rows)
        return Memory(
            active_unique=own.unique,
            passive_unique=passive.unique,
            active_common=torch.cat([own.common, encoder.common(alone[rows])]),
            passive_common=torch.cat([passive.common, pool]),
            active_position=place,
            passive_position=place,
        )

    @torch.no_grad()
    def test_views(self) -> Representation:
        """This party's views of the aligned test rows, in evaluation form."""
        views: Representation = self.model.encoder(self.features.test)
        return views
