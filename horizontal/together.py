"""The local trainings of many clients as one: equal models are stacked, and each step is one batched step of all.

All clients of a round start from the same model and take plain gradient steps, so that client k's step s needs nothing
of the others. With K clients, of which those with more steps come first, step s stacks the weights (k, ...) of the k
that have one, and their rows (k, b, ...); a client whose batch is smaller than b is filled up with rows that weigh 0.
The stacked models run at once (`stacked`), losses are summed over clients, and one backward gives all gradients.

The numbers are those of one by one but for rounding (1e-5), except where a model looks at a batch as a whole or draws
random numbers: batch normalisation and dropout are refused, as are optimizers with a memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from horizontal.choices import Optimizer
from horizontal.config import HorizontalConfig
from horizontal.job import Job, MakeOptimizer, Trained
from horizontal.local import Named, Training
from horizontal.stacked import forward
from horizontal.weights import parameter_names

_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)


def why_apart(model: nn.Module, config: HorizontalConfig, optimizer: MakeOptimizer | None) -> str:
    """Why clients with this model and these settings have to be trained one by one, or ""."""
    if optimizer is not None or config.optimizer is not Optimizer.SGD:
        return "only plain SGD has no memory of its own"
    if any(True for _ in model.buffers()):
        return "the model has buffers, which may depend on a batch as a whole (batch normalisation)"
    if any(isinstance(module, _DROPOUTS) for module in model.modules()):
        return "dropout draws from each client's own generator"
    return ""


def train_together(model: nn.Module, jobs: Sequence[Job], config: HorizontalConfig) -> list[Trained]:
    """What each of the jobs, which start from the same model, ends with, in their order."""
    flat = [[part for epoch in job.steps for part in epoch] for job in jobs]
    order = sorted(range(len(jobs)), key=lambda i: -len(flat[i]))
    stack = _Stack(model, [jobs[i] for i in order], [flat[i] for i in order])
    totals = stack.train(config.learning_rate, config.weight_decay)
    found = {i: stack.trained(k, totals[k]) for k, i in enumerate(order)}
    return [found[i] for i in range(len(jobs))]


def _stacked(weight: Tensor, count: int) -> Tensor:
    """`count` copies (count, ...) of a weight; matrices lie in memory as their gradients will, which adds faster."""
    if weight.dim() != 2:
        return torch.stack([weight] * count)
    return torch.stack([weight.T] * count).transpose(1, 2)


class _Stack:
    """The jobs in order of falling numbers of steps, their weights stacked and their rows in one table."""

    def __init__(self, model: nn.Module, jobs: Sequence[Job], flat: Sequence[Sequence[Tensor]]) -> None:
        self.model, self.jobs, self.flat = model, jobs, flat
        self.features = torch.cat([job.examples.features for job in jobs])
        self.labels = torch.cat([job.examples.labels for job in jobs])
        self.starts = np.cumsum([0, *(len(job.examples) for job in jobs)])
        received = {name: torch.tensor(value) for name, value in jobs[0].received.items()}
        names = parameter_names(model)
        self.weights = {name: _stacked(received[name], len(jobs)) for name in names}
        self.forward = forward(model, {n: value for n, value in received.items() if n not in names})

    def train(self, learning_rate: float, weight_decay: float) -> list[list[float]]:
        """Takes all steps; the summed losses of each job's steps."""
        self.model.train()
        totals: list[list[float]] = [[] for _ in self.jobs]
        for step in range(len(self.flat[0]) if self.flat else 0):
            parts = [steps[step] for steps in self.flat if len(steps) > step]
            live = {
                name: value[: len(parts)].detach().requires_grad_() for name, value in self.weights.items()
            }
            losses = self._losses(live, parts)
            total = losses.sum()
            if (penalty := self.jobs[0].penalty) is not None:
                total = total + penalty(live)
            gradients = dict(zip(live, torch.autograd.grad(total, list(live.values())), strict=True))
            self._adjust(gradients, len(parts))
            with torch.no_grad():
                for name, gradient in gradients.items():
                    if weight_decay:
                        gradient = gradient + weight_decay * live[name]
                    self.weights[name][: len(parts)].sub_(gradient, alpha=learning_rate)
            for k, (loss, part) in enumerate(zip(losses.tolist(), parts, strict=True)):
                totals[k].append(loss * len(part))
        return totals

    def _losses(self, live: Named, parts: Sequence[Tensor]) -> Tensor:
        """The mean loss of each client's rows (k,)."""
        longest = max(len(part) for part in parts)
        rows = torch.zeros(len(parts), longest, dtype=torch.int64)
        weight = torch.zeros(len(parts), longest)
        for k, part in enumerate(parts):
            rows[k, : len(part)] = part + int(self.starts[k])
            rows[k, len(part) :] = rows[k, 0]
            weight[k, : len(part)] = 1 / len(part)
        features = self.features.index_select(0, rows.flatten())
        features = features.reshape(*rows.shape, *features.shape[1:])
        outputs = self.forward(live, features)  # (k, b, ...)
        losses = self.jobs[0].objective(outputs.flatten(0, 1), self.labels[rows].flatten(0, 1))
        return (losses.reshape(weight.shape) * weight).sum(dim=1)

    def _adjust(self, gradients: Named, live: int) -> None:
        for k, job in enumerate(self.jobs[:live]):
            if job.adjustment is not None:
                job.adjustment({name: value[k] for name, value in gradients.items()})

    def trained(self, k: int, losses: Sequence[float]) -> Trained:
        """What job k ended with."""
        job, done = self.jobs[k], iter(losses)
        means = [sum(next(done) for _ in epoch) / sum(map(len, epoch)) for epoch in job.steps if len(epoch)]
        arrays = dict(job.received) | {name: value[k].numpy().copy() for name, value in self.weights.items()}
        training = Training(examples=len(job.examples), steps=len(losses), losses=tuple(means))
        return Trained(arrays=arrays, training=training)
