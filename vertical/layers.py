"""The layers of encoders and heads: drawn weights, noise, dropout, normalisation.

Nothing here reads torch's global random state: weights, noise and masks come from an explicit generator.
Shapes: n rows, w features or channels of a row, which may be followed by the height and width of an image.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from vertical.choices import Normalisation

_MOMENTUM = 0.1  # share of a batch in the new running statistics
_EPSILON = 1e-5


def linear(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    """A linear layer, weights and bias uniform in +-1/sqrt(inputs) as torch's own, drawn from `generator`."""
    layer = nn.Linear(inputs, outputs, device="meta")  # no storage: torch's own draw doesn't happen
    layer = layer.to_empty(device="cpu")
    _draw(layer.weight, layer.bias, inputs, generator)
    return layer


def convolution(inputs: int, outputs: int, generator: torch.Generator) -> nn.Conv2d:
    """A 3x3 convolution that keeps height and width, (n, inputs, h, w) -> (n, outputs, h, w), drawn as `linear`."""
    layer = nn.Conv2d(inputs, outputs, kernel_size=3, padding=1, device="meta")
    layer = layer.to_empty(device="cpu")
    assert layer.bias is not None
    _draw(layer.weight, layer.bias, 9 * inputs, generator)
    return layer


def _draw(weight: Tensor, bias: Tensor, inputs: int, generator: torch.Generator) -> None:
    bound = 1.0 / math.sqrt(max(inputs, 1))
    with torch.no_grad():
        weight.uniform_(-bound, bound, generator=generator)
        bias.uniform_(-bound, bound, generator=generator)


def drop(values: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
    """Inverted dropout, its mask drawn from `generator`; nothing is done when that is None or the rate 0."""
    if generator is None or rate == 0.0:
        return values
    kept = torch.rand(values.shape, generator=generator, dtype=values.dtype).to(values.device) >= rate
    return values * kept / (1.0 - rate)


def add_noise(values: Tensor, deviation: float, generator: torch.Generator | None) -> Tensor:
    """Values plus Gaussian noise from `generator`; nothing is done when that is None or the deviation 0."""
    if generator is None or deviation == 0.0:
        return values
    noise = torch.randn(values.shape, generator=generator, dtype=values.dtype).to(values.device)
    return values + deviation * noise


class NoNormalisation(nn.Module):
    """Leaves values as they are."""

    def forward(self, values: Tensor, training: bool) -> Tensor:
        """The values."""
        return values


class BatchNormalisation(nn.Module):
    """Batch normalisation (Ioffe and Szegedy 2015) that a batch of any size may pass, one or no row included.

    In training, two rows or more are normalised by their own mean and variance, which enter the running ones. A single
    row has no variance over rows: it is normalised by the running statistics (ours), as in evaluation. Those are
    buffers, and as much a part of the model as its parameters.
    """

    mean: Tensor
    variance: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.shift = nn.Parameter(torch.zeros(width))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    def forward(self, values: Tensor, training: bool) -> Tensor:
        """Values (n, w, ...) normalised per feature or channel."""
        return functional.batch_norm(
            values,
            self.mean,
            self.variance,
            self.scale,
            self.shift,
            training=training and values.shape[0] > 1,
            momentum=_MOMENTUM,
            eps=_EPSILON,
        )


class LayerNormalisation(nn.Module):
    """Layer normalisation (Ba et al. 2016): each row by its own mean and variance, over all its features and pixels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.shift = nn.Parameter(torch.zeros(width))

    def forward(self, values: Tensor, training: bool) -> Tensor:
        """Values (n, w, ...) normalised per row."""
        return functional.group_norm(values, 1, self.scale, self.shift, eps=_EPSILON)


def normalisation(kind: Normalisation, width: int) -> nn.Module:
    """A fresh normalisation of `width` features or channels; nothing is drawn."""
    if kind == Normalisation.BATCH:
        return BatchNormalisation(width)
    return LayerNormalisation(width) if kind == Normalisation.LAYER else NoNormalisation()
