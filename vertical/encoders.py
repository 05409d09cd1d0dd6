"""The two encoders of a party and the representation they give.

Shapes: n rows, f features of the party, u width of its unique representation, d of its common one.
Nothing here reads torch's global random state: initial weights, dropout and input noise come from
an explicit generator, so a party's private seed decides them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from vertical.choices import EncoderKind, Normalisation, ViewShape
from vertical.config import FedCVTConfig
from vertical.layers import add_noise, convolution, drop, linear, normalisation
from vertical.table import Rows


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

    def take(self, rows: Tensor | Rows | slice) -> Representation:
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


class Encoder(nn.Module):
    """Linear layers, between them normalisation, ReLU and dropout: (n, first width) -> (n, last width)."""

    def __init__(
        self,
        widths: Sequence[int],
        dropout: float,
        generator: torch.Generator,
        kind: Normalisation = Normalisation.NONE,
    ) -> None:
        super().__init__()
        pairs = pairwise(widths)
        self.layers = nn.ModuleList(linear(inputs, outputs, generator) for inputs, outputs in pairs)
        self.norms = nn.ModuleList(normalisation(kind, width) for width in widths[1:-1])
        self.dropout = dropout

    def forward(self, features: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Output of the last layer; training form with a generator, evaluation without."""
        for norm, layer in zip(self.norms, self.layers, strict=False):  # the last layer has no norm
            hidden = norm(layer(features), generator is not None)
            features = drop(torch.relu(hidden), self.dropout, generator)
        return cast(Tensor, self.layers[-1](features))


class ImageEncoder(nn.Module):
    """A small convolutional network for images of height h and width w, row by row: (n, h w) -> (n, last width).

    Twice: 3x3 convolution, normalisation, ReLU and the maximum over 2x2 pixels, the second time with twice the
    channels. Then dropout and a linear layer.
    """

    def __init__(
        self, image: tuple[int, int], width: int, config: FedCVTConfig, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.image, self.dropout = image, config.dropout
        channels = (1, config.channels, 2 * config.channels)
        self.layers = nn.ModuleList(convolution(*pair, generator) for pair in pairwise(channels))
        self.norms = nn.ModuleList(normalisation(config.normalisation, count) for count in channels[1:])
        height, across = (-(-side // 4) for side in image)
        self.last = linear(channels[-1] * height * across, width, generator)

    def forward(self, features: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Representation of pixels (n, h w); training form with a generator, evaluation without."""
        maps = features.reshape(-1, 1, *self.image)  # (n, 1, h, w)
        for norm, layer in zip(self.norms, self.layers, strict=True):
            hidden = torch.relu(norm(layer(maps), generator is not None))
            maps = functional.max_pool2d(hidden, 2, ceil_mode=True)
        return cast(Tensor, self.last(drop(maps.flatten(1), self.dropout, generator)))


def encoder(
    config: FedCVTConfig, inputs: int, width: int, image: tuple[int, int] | None, generator: torch.Generator
) -> nn.Module:
    """A fresh encoder of the settings' kind from `inputs` features to `width`; they are the pixels of `image`, if any.

    A CNN becomes an MLP where there is no image.
    """
    if config.encoder == EncoderKind.CNN and image is not None:
        return ImageEncoder(image, width, config, generator)
    widths = (inputs, width) if config.encoder == EncoderKind.LINEAR else (inputs, config.hidden, width)
    return Encoder(widths, config.dropout, generator, config.normalisation)


class ViewEncoder(nn.Module):
    """Both encoders of one party; they read the same (noisy) input."""

    def __init__(self, unique: nn.Module, common: nn.Module, input_noise: float) -> None:
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
        encoder(config, inputs, width, shape.image, generator) for width in (shape.unique, shape.common)
    )
    return ViewEncoder(unique, common, config.input_noise)
