"""The optimiser of one training: AdamW, whose learning rate follows the settings' schedule."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn

from vertical.choices import Schedule
from vertical.config import FedCVTConfig


def adamw(config: FedCVTConfig, parameters: Iterable[nn.Parameter]) -> torch.optim.AdamW:
    """The optimiser of one party over its own parameters; each parameter belongs to exactly one.

    `foreach` gives the bits of torch's default in fewer calls; its fused form is quicker still but rounds otherwise.
    """
    return torch.optim.AdamW(
        parameters, lr=config.learning_rate, weight_decay=config.weight_decay, foreach=True
    )


def learning_rate(config: FedCVTConfig, step: int) -> float:
    """Learning rate at `step` (from 0): constant, or half a cosine from `learning_rate` down towards 0."""
    if config.schedule == Schedule.CONSTANT:
        return config.learning_rate
    return config.learning_rate * 0.5 * (1.0 + math.cos(math.pi * step / config.steps))


def take_step(optimiser: torch.optim.Optimizer, config: FedCVTConfig, step: int) -> None:
    """Moves the optimiser's parameters along their gradients, at the learning rate of `step`."""
    for group in optimiser.param_groups:
        group["lr"] = learning_rate(config, step)
    optimiser.step()
