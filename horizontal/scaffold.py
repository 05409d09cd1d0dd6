"""SCAFFOLD: Karimireddy et al., "Stochastic controlled averaging for federated learning", arXiv 1910.06378.

The server has the model x and a control variate c, client i its own c_i; all control variates start at 0. They
estimate the gradients of all clients and of this one, and their difference corrects each local step for the drift that
differing data cause (algorithm 1):

    y_i <- y_i - lr (g_i(y_i) - c_i + c)                                 K local steps from y_i = x on
    c_i+ = g_i(x)  (option I)   or   c_i - c + (x - y_i) / (K lr)  (option II)
    x <- x + lr_g mean(y_i - x),   c <- c + |S|/N mean(c_i+ - c_i)       over the sampled S of N clients

Both means are uniform. Plain gradient descent only: with momentum or an adaptive rate, option II's (x - y) / (K lr) is
no mean gradient and a corrected gradient no corrected step. A model and a control variate travel each way, so twice
the bytes of FedAvg. Buffers have no control variate; they are averaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from horizontal.average import Array, Arrays, Contribution, unnamed
from horizontal.fedavg import uniform_mean
from horizontal.local import Adjustment, Examples, Named, Objective
from protocols.errors import ConfigError

CONTROL = "control"
"""Under this name (and a dot) the entries of a control variate travel beside a model."""


def zero_control(model: Arrays, parameters: Sequence[str]) -> dict[str, Array]:
    """The control variate that server and clients start with, by name of parameter."""
    return {name: np.zeros_like(model[name]) for name in parameters}


def check_plain(optimizer: torch.optim.Optimizer) -> None:
    """ConfigError unless it is plain gradient descent: no momentum, no adaptive rate."""
    plain = type(optimizer) is torch.optim.SGD and not any(
        group["momentum"] for group in optimizer.param_groups
    )
    if not plain:
        raise ConfigError(
            f"SCAFFOLD corrects plain gradient steps; the optimizer is {type(optimizer).__name__}",
            remedy="use torch.optim.SGD without momentum",
        )


def gradient_at(
    model: nn.Module, examples: Examples, objective: Objective, *, at_once: int = 1024
) -> dict[str, Array]:
    """Option I: the gradient of the mean objective of all rows, by name of parameter, in evaluation mode (ours)."""
    model.eval()
    model.zero_grad()
    for rows in torch.split(torch.arange(len(examples)), at_once):
        losses = objective(model(examples.features[rows]), examples.labels[rows])
        (losses.mean() * (len(rows) / len(examples))).backward()  # type: ignore[no-untyped-call]
    return {
        name: np.array(torch.zeros_like(value) if value.grad is None else value.grad)
        for name, value in model.named_parameters()
        if value.requires_grad
    }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Variates:
    """The control variates c_i (`own`) and c (`server`) of a client in a round; `gradient` at x, for option I."""

    own: Arrays
    server: Arrays
    gradient: Arrays | None = None

    def correction(self) -> Adjustment:
        """Adds `c - c_i` to the gradients."""
        difference = {
            name: torch.tensor(self.server[name]) - torch.tensor(self.own[name]) for name in self.own
        }

        def correct(gradients: Named) -> None:
            for name, gradient in gradients.items():
                gradient += difference[name]

        return correct

    def next(self, received: Arrays, trained: Arrays, *, steps: int, learning_rate: float) -> Arrays:
        """c_i+ after training from x to y_i in K = `steps` of this client's own steps; c_i itself if it made none."""
        if steps == 0:
            return self.own
        if self.gradient is not None:
            return self.gradient
        scale = 1 / (steps * learning_rate)
        moved = {name: scale * (_real(received[name]) - _real(trained[name])) for name in self.own}
        return {
            name: _plus(own, 1.0, moved[name] - _real(self.server[name])) for name, own in self.own.items()
        }

    def change(self, new: Arrays) -> dict[str, Array]:
        """`c_i+ - c_i`, what the client sends."""
        return {name: _plus(value, -1.0, _real(self.own[name])) for name, value in new.items()}


def server_step(
    model: Arrays, control: Arrays, contributions: Sequence[Contribution], *, clients: int, server_rate: float
) -> tuple[dict[str, Array], dict[str, Array]]:
    """The next model x and control variate c of the server, of N `clients` in all, with `server_rate` lr_g.

    A contribution is a trained model y_i, with `c_i+ - c_i` among its extras. Clients without rows are not in S.
    Raises NoExamplesError if nobody has any, UpdateError as `uniform_mean`.
    """
    sampled = [contribution for contribution in contributions if contribution.examples > 0]
    mean = uniform_mean(sampled)
    change = uniform_mean([replace(c, arrays=unnamed(CONTROL, c.extras)) for c in sampled])
    return step_by_means(model, control, mean, change, share=len(sampled) / clients, server_rate=server_rate)


def step_by_means(
    model: Arrays, control: Arrays, mean: Arrays, change: Arrays, *, share: float, server_rate: float
) -> tuple[dict[str, Array], dict[str, Array]]:
    """The same from the means of y_i and of `c_i+ - c_i` over the sampled clients, that are this share |S|/N of all."""
    moved = {
        name: _plus(model[name], server_rate, _real(mean[name]) - _real(model[name])) for name in control
    }
    after = {name: _plus(value, share, _real(change[name])) for name, value in control.items()}
    return {**mean, **moved}, after


def _real(value: Array) -> NDArray[np.float64]:
    return value.astype(np.float64)


def _plus(value: Array, factor: float, change: NDArray[np.float64]) -> Array:
    """`value + factor * change` in float64, rounded to the dtype of `value`."""
    return (_real(value) + factor * change).astype(value.dtype)
