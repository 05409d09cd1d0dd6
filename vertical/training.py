"""What both sides of a training depend on: settings and randomness, scaled features, a word on progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from protocols.errors import ConfigError
from protocols.program import Observe, Progress
from protocols.seeds import PrivateSeed, derive, public_order
from vertical.choices import ViewShape
from vertical.config import FedCVTConfig
from vertical.groups import Groups
from vertical.preprocess import Preprocessor, fit
from vertical.table import PartyData, Rows

PROGRESS_EVERY = 20
"""Steps between two progress reports, and behind each loss in one."""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """What a party's trainings depend on besides its data: settings, both seeds, and whom to tell of progress."""

    config: FedCVTConfig
    public_seed: int
    private_seed: PrivateSeed
    observe: Observe

    def generator(self, purpose: str) -> torch.Generator:
        """A generator for one purpose, from the private seed."""
        generator = torch.Generator()
        generator.manual_seed(derive(self.private_seed, purpose))
        return generator

    def rows(self, group: str, size: int, batch: int, step: int) -> Rows:
        """Positions in a group of `size` rows that `step` uses, (min(size, batch),); the same at both parties."""
        if batch == 0:
            return np.zeros(0, dtype=np.int64)
        return public_order(self.public_seed, group, size, batch, step)

    def with_config(self, config: FedCVTConfig) -> Run:
        """The same with other settings."""
        return replace(self, config=config)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Features:
    """One party's scaled features by group, each (rows, f), and the rules that made them."""

    aligned: Tensor
    alone: Tensor
    test: Tensor
    rules: Preprocessor

    @classmethod
    def of(cls, data: PartyData, groups: Groups, config: FedCVTConfig, shape: ViewShape) -> Features:
        """Features of the groups; the rules are fitted on the party's own training rows."""
        rules = fit(data.table, groups.training(), config.scaling, shape.image, cuts=config.cuts)

        def transform(rows: Rows) -> Tensor:
            return torch.tensor(rules.transform(data.table.take(rows)))

        return cls(
            aligned=transform(groups.aligned_train),
            alone=transform(groups.alone),
            test=transform(groups.aligned_test),
            rules=rules,
        )

    @property
    def width(self) -> int:
        """Number f of features."""
        return self.aligned.shape[1]

    def aligned_only(self) -> Features:
        """The same people without the alone rows."""
        return replace(self, alone=self.alone[:0])

    def training(self) -> Tensor:
        """Features of all training rows, aligned ones first."""
        return torch.cat([self.aligned, self.alone])

    def keep(self, aligned: Rows, alone: Rows) -> Features:
        """The same with only these aligned and alone rows."""
        return replace(self, aligned=self.aligned[aligned], alone=self.alone[alone])


def check_converges(title: str, *values: Tensor) -> None:
    """ConfigError when one of a training's own values isn't finite: what comes after them tells nothing."""
    if not all(bool(torch.isfinite(each).all()) for each in values):
        raise ConfigError(
            f"{title}: the training diverged, its numbers are not finite any more",
            remedy="ask for a smaller learning_rate, weight_decay or weights l1 to l5",
        )


def tell_step(observe: Observe, phase: str, step: int, of: int, losses: Sequence[float] = ()) -> None:
    """Reports the first step, every `PROGRESS_EVERY`th and the last, with the mean of the last so many losses.

    Progress reaches the analyst, and one step's loss would say something of one batch of people: so a loss is told
    once there are `PROGRESS_EVERY` of them. `losses` are those of all steps so far; () at a party that knows none.
    """
    done = step + 1
    if step == 0 or done % PROGRESS_EVERY == 0 or done == of:
        interval = losses[-PROGRESS_EVERY:]
        loss = sum(interval) / PROGRESS_EVERY if len(interval) == PROGRESS_EVERY else None
        observe(Progress(phase, done, of, loss))
