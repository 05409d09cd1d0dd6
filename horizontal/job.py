"""One local training as data, and how to do it: what a client prepares, and what many clients can do as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import nn

from horizontal.average import Arrays
from horizontal.choices import Optimizer
from horizontal.config import HorizontalConfig
from horizontal.local import Adjustment, Examples, Objective, Penalty, Plan, Training, train
from horizontal.messages import AGGREGATOR
from horizontal.weights import model_arrays, set_model

MakeOptimizer: TypeAlias = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
"""The optimizer of one local training."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """From which model on, on which rows in which order, on what loss, with what is changed about it."""

    received: Arrays
    examples: Examples
    steps: Plan
    seed: int
    objective: Objective
    penalty: Penalty | None = None
    adjustment: Adjustment | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trained:
    """The model after a job, and what was done."""

    arrays: Arrays
    training: Training


def optimizer_of(config: HorizontalConfig) -> MakeOptimizer:
    """The configured optimizer."""

    def make(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        rate, decay = config.learning_rate, config.weight_decay
        if config.optimizer is Optimizer.ADAM:
            return torch.optim.Adam(parameters, lr=rate, weight_decay=decay)
        momentum = config.momentum if config.optimizer is Optimizer.MOMENTUM else 0.0
        return torch.optim.SGD(parameters, lr=rate, momentum=momentum, weight_decay=decay)

    return make


def run(model: nn.Module, job: Job, optimizer: torch.optim.Optimizer) -> Trained:
    """Does it with this model, all of whose weights are set first, and an optimizer of its parameters."""
    set_model(model, job.received, AGGREGATOR)
    training = train(
        model,
        optimizer,
        job.examples,
        job.steps,
        seed=job.seed,
        objective=job.objective,
        penalty=job.penalty,
        adjustment=job.adjustment,
    )
    return Trained(arrays=model_arrays(model), training=training)
