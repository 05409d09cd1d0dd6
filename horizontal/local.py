"""The one local training loop of all horizontal algorithms.

What algorithms change are four independent functions, which combine: the objective (a robust loss), a penalty (a
proximal term), an adjustment of gradients (control variates), and which rows an epoch admits (a curriculum).
All rows of all steps are planned before the first one, so that the trainings of many clients can also run as one.
Letters: n rows of a client, b rows of a batch, k classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from protocols.errors import BlockError

Named: TypeAlias = Mapping[str, Tensor]
"""Trainable parameters, or their gradients, by name."""
Objective: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""(outputs (b, ...), labels (b, ...)) -> the loss of each row (b, ...); a step takes their mean."""
Penalty: TypeAlias = Callable[[Named], Tensor]
"""Parameters -> a scalar that each step adds to the objective."""
Adjustment: TypeAlias = Callable[[Named], None]
"""Changes the gradients in place, after backward and before the optimizer's step."""
Admission: TypeAlias = Callable[[int, torch.Generator], Tensor]
"""(epoch from 1, generator) -> int64 rows that the epoch trains on, in this order."""
Plan: TypeAlias = tuple[tuple[Tensor, ...], ...]
"""For each epoch, the int64 rows of each step."""

_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """A client's rows: features (n, ...) and labels (n, ...); n may be 0."""

    features: Tensor
    labels: Tensor

    def __post_init__(self) -> None:
        shapes = tuple(self.features.shape), tuple(self.labels.shape)
        if not all(shapes) or shapes[0][0] != shapes[1][0]:
            raise BlockError(f"features {shapes[0]} and labels {shapes[1]} differ in rows")

    def __len__(self) -> int:
        return len(self.features)


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What a training did: rows there were, optimizer steps, and the mean objective of each epoch (no penalty)."""

    examples: int
    steps: int
    losses: tuple[float, ...]


def cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    """The default objective: `-ln softmax(outputs)[label]` of each row; outputs (b, k), labels int64 (b,)."""
    return functional.cross_entropy(outputs, labels, reduction="none")


def plan(
    n: int, *, epochs: int, batch: int, generator: torch.Generator, admission: Admission | None = None
) -> Plan:
    """The rows of each step of a training on n rows, in batches of at most `batch`.

    Without `admission` each epoch is a new permutation, or all rows in their order if one batch holds them.
    """
    orders = (
        admission(epoch, generator) if admission else _order(n, batch, generator)
        for epoch in range(1, epochs + 1)
    )
    return tuple(torch.split(rows, batch) if len(rows) else () for rows in orders)


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    examples: Examples,
    steps: Plan,
    *,
    seed: int,
    objective: Objective = cross_entropy,
    penalty: Penalty | None = None,
    adjustment: Adjustment | None = None,
) -> Training:
    """Trains the model in place, in training mode, by one optimizer step for each batch of rows in `steps`.

    The model's own randomness (dropout) depends on `seed` only; torch's global generator is left as it was. A batch
    of one row has no statistics: batch normalisation then uses its running ones. No rows, no steps.
    """
    parameters = {name: value for name, value in model.named_parameters() if value.requires_grad}
    losses = []
    with _private_randomness(seed):
        for epoch in steps:
            total, rows = 0.0, 0
            for part in epoch:
                _set_mode(model, len(part))
                optimizer.zero_grad()
                loss = objective(model(examples.features[part]), examples.labels[part]).mean()
                (loss if penalty is None else loss + penalty(parameters)).backward()  # type: ignore[no-untyped-call]
                if adjustment is not None:
                    adjustment({name: p.grad for name, p in parameters.items() if p.grad is not None})
                optimizer.step()
                total, rows = total + float(loss.detach()) * len(part), rows + len(part)
            if rows:
                losses.append(total / rows)
    return Training(examples=len(examples), steps=sum(map(len, steps)), losses=tuple(losses))


def _order(n: int, batch: int, generator: torch.Generator) -> Tensor:
    return torch.arange(n) if batch >= n else torch.randperm(n, generator=generator)


def _set_mode(model: nn.Module, rows: int) -> None:
    model.train()
    if rows == 1:
        for module in model.modules():
            if isinstance(module, _BATCH_NORMS):
                module.eval()


@contextmanager
def _private_randomness(seed: int) -> Iterator[None]:
    """Within it, modules that use torch's global generator on the CPU draw from a stream of their own."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


@torch.no_grad()
def outputs(model: nn.Module, features: Tensor, *, at_once: int = 1024) -> Tensor:
    """The model's outputs (n, ...) in evaluation mode, without gradient, computed `at_once` rows at a time."""
    model.eval()
    return torch.cat([model(part) for part in torch.split(features, at_once)])
