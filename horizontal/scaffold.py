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
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from horizontal.average import Array, Arrays, Contribution, uniform_mean
from horizontal.local import Adjustment, Examples, Named, Objective

CONTROL = "control."
"""Before the name of a parameter: its entry of a control variate, in what travels beside a model."""


def zero_control(model: Arrays, parameters: Sequence[str]) -> dict[str, Array]:
    """The control variate that server and clients start with, by name of parameter."""
    return {name: np.zeros_like(model[name]) for name in parameters}


def correction(own: Arrays, server: Arrays) -> Adjustment:
    """Adds `c - c_i` to the gradients."""
    difference = {name: torch.tensor(server[name]) - torch.tensor(own[name]) for name in own}

    def correct(gradients: Named) -> None:
        for name, gradient in gradients.items():
            gradient += difference[name]

    return correct


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


def from_steps(
    own: Arrays, server: Arrays, received: Arrays, trained: Arrays, *, steps: int, learning_rate: float
) -> dict[str, Array]:
    """Option II: `c_i - c + (x - y) / (K lr)` with this client's own number of steps K; c_i itself if it made none."""
    if steps == 0:
        return dict(own)
    scale = 1 / (steps * learning_rate)
    changes = {
        name: scale * (_real(received[name]) - _real(trained[name])) - _real(server[name]) for name in own
    }
    return {name: _plus(value, 1.0, changes[name]) for name, value in own.items()}


def server_step(
    model: Arrays, control: Arrays, contributions: Sequence[Contribution], *, clients: int, server_rate: float
) -> tuple[dict[str, Array], dict[str, Array]]:
    """The next model x and control variate c of the server, of N `clients` in all, with `server_rate` lr_g.

    A contribution is a trained model y_i, with `c_i+ - c_i` among its extras. Clients without rows are not in S.
    Raises NoExamplesError if nobody has any, UpdateError as `uniform_mean`.
    """
    sampled = [contribution for contribution in contributions if contribution.examples > 0]
    mean = uniform_mean(sampled)
    change = uniform_mean([replace(c, arrays=_control_of(c.extras)) for c in sampled])
    share = len(sampled) / clients
    moved = {
        name: _plus(model[name], server_rate, _real(mean[name]) - _real(model[name])) for name in control
    }
    return mean | moved, {name: _plus(value, share, _real(change[name])) for name, value in control.items()}


def _control_of(extras: Arrays) -> dict[str, Array]:
    return {name.removeprefix(CONTROL): value for name, value in extras.items() if name.startswith(CONTROL)}


def _real(value: Array) -> NDArray[np.float64]:
    return value.astype(np.float64)


def _plus(value: Array, factor: float, change: NDArray[np.float64]) -> Array:
    """`value + factor * change` in float64, rounded to the dtype of `value`."""
    return (_real(value) + factor * change).astype(value.dtype)
