"""The one local training loop of all horizontal algorithms, and models as named arrays.

What algorithms change are four independent functions, which combine: the objective (a robust loss), a penalty (a
proximal term), an adjustment of gradients (control variates), and which rows an epoch admits (a curriculum).
Letters: n rows of a client, b rows of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from horizontal.average import Array, Arrays, check_layout
from protocols.errors import BlockError, ConfigError
from protocols.framing import DTYPES

Objective: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""(outputs (b, ...), labels (b, ...)) -> mean loss of the rows, a scalar."""
Penalty: TypeAlias = Callable[[nn.Module], Tensor]
"""A scalar that each step adds to the objective."""
Adjustment: TypeAlias = Callable[[nn.Module], None]
"""Changes the gradients in place, after backward and before the optimizer's step."""
Admission: TypeAlias = Callable[[int, torch.Generator], Tensor]
"""(epoch from 1, generator) -> int64 rows that the epoch trains on, in this order."""

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


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    examples: Examples,
    *,
    epochs: int,
    batch: int,
    generator: torch.Generator,
    objective: Objective = cross_entropy,
    penalty: Penalty | None = None,
    adjustment: Adjustment | None = None,
    admission: Admission | None = None,
) -> Training:
    """Trains the model in place, in training mode, on `epochs` passes in batches of at most `batch` rows.

    The order of rows and the model's own randomness (dropout) depend on `generator` only; torch's global generator is
    left as it was. Without `admission` each epoch is a new permutation, or all rows in their order if one batch holds
    them. A batch of one row has no statistics: batch normalisation then uses its running ones. No rows, no steps.
    """
    steps, losses = 0, []
    with _private_randomness(generator):
        for epoch in range(1, epochs + 1):
            rows = admission(epoch, generator) if admission else _order(len(examples), batch, generator)
            total = 0.0
            for part in torch.split(rows, batch) if len(rows) else ():
                _set_mode(model, len(part))
                optimizer.zero_grad()
                loss = objective(model(examples.features[part]), examples.labels[part])
                (loss if penalty is None else loss + penalty(model)).backward()  # type: ignore[no-untyped-call]
                if adjustment is not None:
                    adjustment(model)
                optimizer.step()
                total += float(loss.detach()) * len(part)
                steps += 1
            if len(rows):
                losses.append(total / len(rows))
    return Training(examples=len(examples), steps=steps, losses=tuple(losses))


def _order(n: int, batch: int, generator: torch.Generator) -> Tensor:
    return torch.arange(n) if batch >= n else torch.randperm(n, generator=generator)


def _set_mode(model: nn.Module, rows: int) -> None:
    model.train()
    if rows == 1:
        for module in model.modules():
            if isinstance(module, _BATCH_NORMS):
                module.eval()


@contextmanager
def _private_randomness(generator: torch.Generator) -> Iterator[None]:
    """Within it, modules that use torch's global generator on the CPU draw from a stream of `generator`'s."""
    seed = int(torch.randint(2**62, (), generator=generator))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def model_arrays(model: nn.Module) -> dict[str, Array]:
    """Copies of all parameters and buffers by name. ConfigError naming one that doesn't travel."""
    found: dict[str, Array] = {}
    for name, value in model.state_dict().items():
        dtype = str(value.dtype).removeprefix("torch.") if isinstance(value, Tensor) else type(value).__name__
        if dtype not in DTYPES:
            raise ConfigError(f"the model's {name!r} is of {dtype}", remedy=f"one of: {', '.join(DTYPES)}")
        found[name] = np.array(value.detach().cpu().numpy())
    return found


@torch.no_grad()
def set_model(model: nn.Module, arrays: Arrays, who: str) -> None:
    """Sets all parameters and buffers, in place. UpdateError naming `who` sent them unless they fit exactly."""
    check_layout(arrays, model_arrays(model), who)
    for name, value in model.state_dict().items():
        value.copy_(torch.tensor(arrays[name]))
