"""The two encoders of a party and the representation they give.

Shapes: n rows, f features of the party, u width of its unique representation, d of its common one.
Nothing here reads torch's global random state: initial weights, dropout and input noise come from
an explicit generator, so a party's private seed decides them all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from vertical.config import EncoderKind, FedCVTConfig, ViewShape


@dataclass(frozen=True, slots=True, eq=False)
class Representation:
    """The two representations of the same n rows of one party: unique (n, u) and common (n, d)."""

    unique: Tensor
    common: Tensor

    def joined(self) -> Tensor:
        """`[unique ; common]`, (n, u + d): what a head reads and what a message carries."""
        return torch.cat([self.unique, self.common], dim=1)

    @classmethod
    def split(cls, joined: Tensor, d: int) -> Representation:
        """The representation inside (n, u + d), the inverse of `joined`; d is the common width."""
        u = joined.shape[1] - d
        return cls(joined[:, :u], joined[:, u:])

    @classmethod
    def stack(cls, parts: Sequence[Representation]) -> Representation:
        """The rows of all parts, one after another."""
        return cls(torch.cat([part.unique for part in parts]), torch.cat([part.common for part in parts]))

    @property
    def rows(self) -> int:
        """Number of rows n."""
        return self.unique.shape[0]

    def take(self, rows: Tensor | slice) -> Representation:
        """Only these rows, in this order."""
        return Representation(self.unique[rows], self.common[rows])

    def zeros(self, rows: int) -> Representation:
        """So many rows of zero vectors of the same widths, without history."""
        return Representation(
            self.unique.new_zeros(rows, self.unique.shape[1]),
            self.common.new_zeros(rows, self.common.shape[1]),
        )

    def detach(self) -> Representation:
        """The same values without history."""
        return Representation(self.unique.detach(), self.common.detach())


def linear(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    """A linear layer, weights and bias uniform in +-1/sqrt(inputs) as torch's own, drawn from `generator`."""
    layer = nn.Linear(inputs, outputs, device="meta")  # no storage: torch's own draw doesn't happen
    layer = layer.to_empty(device="cpu")
    bound = 1.0 / math.sqrt(max(inputs, 1))
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.uniform_(-bound, bound, generator=generator)
    return layer


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


class Encoder(nn.Module):
    """Linear layers with ReLU and dropout between them: (n, first width) -> (n, last width)."""

    def __init__(self, widths: Sequence[int], dropout: float, generator: torch.Generator) -> None:
        super().__init__()
        pairs = pairwise(widths)
        self.layers = nn.ModuleList(linear(inputs, outputs, generator) for inputs, outputs in pairs)
        self.dropout = dropout

    def forward(self, features: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Output of the last layer; training form with a generator, evaluation without."""
        for index, layer in enumerate(self.layers):
            if index:
                features = drop(torch.relu(features), self.dropout, generator)
            features = layer(features)
        return features


def encoder(
    kind: EncoderKind, inputs: int, width: int, *, hidden: int, dropout: float, generator: torch.Generator
) -> Encoder:
    """A fresh encoder from `inputs` features to `width`; `hidden` and `dropout` matter to the MLP only."""
    widths = (inputs, width) if kind == EncoderKind.LINEAR else (inputs, hidden, width)
    return Encoder(widths, dropout, generator)


class ViewEncoder(nn.Module):
    """Both encoders of one party; they read the same (noisy) input."""

    def __init__(self, unique: Encoder, common: Encoder, input_noise: float) -> None:
        super().__init__()
        self.unique = unique
        self.common = common
        self.input_noise = input_noise

    def forward(self, features: Tensor, generator: torch.Generator | None = None) -> Representation:
        """Unique and common representation of features (n, f).

        With a generator: training form, drawing input noise, then the unique and the common encoder's
        dropout, in this order. Without: evaluation form, no draw.
        """
        return self.encode(self.noisy(features, generator), generator)

    def noisy(self, features: Tensor, generator: torch.Generator | None) -> Tensor:
        """The first half of `forward`, which no parameter enters: features (n, f) with their noise."""
        return add_noise(features, self.input_noise, generator)

    def encode(self, noisy: Tensor, generator: torch.Generator | None) -> Representation:
        """The second half of `forward`, with the same generator."""
        return Representation(self.unique(noisy, generator), self.common(noisy, generator))


def view_encoder(
    config: FedCVTConfig, shape: ViewShape, inputs: int, generator: torch.Generator
) -> ViewEncoder:
    """The two encoders of the party whose view has this shape, from `inputs` features.

    Initial weights come from the party's private `generator`: unique first, then common.
    """
    unique, common = (
        encoder(
            config.encoder,
            inputs,
            width,
            hidden=config.hidden,
            dropout=config.dropout,
            generator=generator,
        )
        for width in (shape.unique, shape.common)
    )
    return ViewEncoder(unique, common, config.input_noise)
