"""FedCVT as one person would write it who holds all the data: one process, one autograd graph, one optimiser.

The reference that `benchmarks.overhead` compares with: no parties, no messages, and no more work than the mathematics
needs. It gives the product's losses (tests/benchmarks) for the settings that it takes: linear encoders and heads of one
width, the fill with live keys, every aligned row in every step, all labels known, pseudo labels by share.

What makes it quicker than the product's step, which has to be two halves: the unique and the common encoder of a party
are one matrix; alone rows (to fill) and aligned rows (to compare fill and truth) ask in one attention; the keys are the
step's own rows and the pool, never a memory that is copied and overwritten; heads read only the rows they need; AdamW
is fused.

Shapes: n aligned, a active-only, p passive-only rows of a step, N rows of a pool, d width, k classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from protocols.errors import ConfigError
from protocols.seeds import PrivateSeed, derive, public_order
from vertical.choices import EncoderKind, PseudoWeighting
from vertical.config import FedCVTConfig
from vertical.encoders import view_encoder
from vertical.fedcvt import pseudo_weight
from vertical.heads import Heads
from vertical.optimiser import learning_rate
from vertical.preprocess import Preprocessor
from vertical.table import PartyData

Tick = Callable[[int, float], None]
Artifacts = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Joined:
    """The joined training set: scaled features (rows, f) of both parties by group, and the class codes (rows,)."""

    active_aligned: Tensor
    active_alone: Tensor
    passive_aligned: Tensor
    passive_alone: Tensor
    labels_aligned: Tensor
    labels_alone: Tensor
    classes: int

    @classmethod
    def of(cls, data: Mapping[str, PartyData], artifacts: Mapping[str, Artifacts]) -> Joined:
        """The people of a finished run in the order of its groups, from both parties' data and artifacts by role."""
        active, passive = data["active"], data["passive"]
        own, other = artifacts["active"], artifacts["passive"]
        assert active.labels is not None
        features = [
            *_scaled(active, own, "rows.active_only"),
            *_scaled(passive, other, "rows.passive_only"),
        ]
        return cls(
            active_aligned=features[0],
            active_alone=features[1],
            passive_aligned=features[2],
            passive_alone=features[3],
            labels_aligned=torch.tensor(active.labels[own["rows.aligned_train"]]),
            labels_alone=torch.tensor(active.labels[own["rows.active_only"]]),
            classes=len(active.classes),
        )


def _scaled(party: PartyData, kept: Artifacts, alone: str) -> list[Tensor]:
    """Features of a party's aligned and alone rows by its own rules."""
    rules = Preprocessor.from_text(kept["preprocessing"].tobytes().decode())
    groups = (kept[name].astype(np.int64) for name in ("rows.aligned_train", alone))
    return [torch.tensor(rules.transform(party.table.take(rows))) for rows in groups]


def silent(step: int, loss: float) -> None:
    """A listener that does nothing."""


class PlainFedCVT:
    """The joint model with the product's own initial weights, and its training."""

    def __init__(
        self, data: Joined, config: FedCVTConfig, public_seed: int, seeds: tuple[PrivateSeed, PrivateSeed]
    ) -> None:
        """`seeds` are the private ones, active first. Raises ConfigError for settings that it doesn't take."""
        _check(data, config)
        self.data, self.config, self.public_seed, self.seeds = data, config, public_seed, seeds
        own = torch.Generator().manual_seed(derive(seeds[0], "fedcvt weights"))
        other = torch.Generator().manual_seed(derive(seeds[1], "fedcvt weights"))
        self.active = _stacked(view_encoder(config, config.active_view, data.active_aligned.shape[1], own))
        heads = Heads(config, data.classes, own)
        self.heads = {name: _parameters(getattr(heads, name)) for name in ("joint", "active", "passive")}
        self.passive = _stacked(
            view_encoder(config, config.passive_view, data.passive_aligned.shape[1], other)
        )
        parameters = [*self.active, *self.passive, *(p for pair in self.heads.values() for p in pair)]
        self.optimiser = torch.optim.AdamW(
            parameters, lr=config.learning_rate, weight_decay=config.weight_decay, fused=True
        )
        self.noise = torch.Generator()
        self.scale = 1.0 / (config.temperature * math.sqrt(config.d))
        self.pools = data.active_alone[:0], data.passive_alone[:0]

    def train(self, tick: Tick = silent) -> list[float]:
        """The loss of every step; `tick(step, loss)` is called after each."""
        losses = []
        for step in range(self.config.steps):
            losses.append(self.step(step))
            tick(step, losses[-1])
        return losses

    def step(self, step: int) -> float:
        """The loss of one optimiser step."""
        config, data = self.config, self.data
        if step % config.memory_every == 0:
            self.pools = self._remember(step // config.memory_every)
        active_rows = self._rows("active only", len(data.active_alone), config.alone_batch, step)
        passive_rows = self._rows("passive only", len(data.passive_alone), config.alone_batch, step)
        labels = torch.cat([data.labels_aligned, data.labels_alone[active_rows]])  # (n + a,)
        active = functional.linear(
            self._noisy(0, step, data.active_aligned, data.active_alone[active_rows]), *self.active
        )  # (n + a, 2d)
        passive = functional.linear(
            self._noisy(1, step, data.passive_aligned, data.passive_alone[passive_rows]), *self.passive
        )  # (n + p, 2d)
        loss = self._loss(active, passive, labels, pseudo_weight(config, step))
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.param_groups[0]["lr"] = learning_rate(config, step)
        self.optimiser.step()
        return loss.item()

    def _loss(self, active: Tensor, passive: Tensor, labels: Tensor, ramp: float) -> Tensor:
        """`CE_AB + CE_A + CE_B + l1 L_diff^AB + l2 L_diff^A + l3 L_diff^B + l4 L_sim^A + l5 L_sim^B`."""
        config, n = self.config, len(self.data.active_aligned)
        active_pool, passive_pool = self.pools
        filled_passive = self._fill(active, passive[:n], passive_pool)  # (n + a, 2d), for the active rows
        filled_active = self._fill(passive, active[:n], active_pool)  # (n + p, 2d), for the passive rows

        active_view = torch.cat([active, filled_active[n:]])  # (n + a + p, 2d)
        passive_view = torch.cat([passive[:n], filled_passive[n:], passive[n:]])
        joint = functional.linear(torch.cat([active_view, passive_view], dim=1), *self.heads["joint"])
        known = len(labels)
        loss = (
            functional.cross_entropy(joint[:known], labels)
            + functional.cross_entropy(functional.linear(active, *self.heads["active"]), labels)
            + functional.cross_entropy(functional.linear(passive[:n], *self.heads["passive"]), labels[:n])
        )
        if ramp > 0.0 and len(joint) > known:
            label, accepted = self._vote(joint[known:], filled_active[n:], passive[n:])
            each = functional.cross_entropy(joint[known:], label, reduction="none")
            loss = loss + ramp * (each * accepted).mean()  # the accepted rows' mean, times their share
        d = config.d
        return (
            loss
            + config.l1 * functional.mse_loss(active[:n, d:], passive[:n, d:])
            + config.l2 * functional.mse_loss(filled_active[:n], active[:n])
            + config.l3 * functional.mse_loss(filled_passive[:n], passive[:n])
            + config.l4 * _squared_cosine(active, d)
            + config.l5 * _squared_cosine(passive, d)
        )

    def _fill(self, own: Tensor, other: Tensor, other_pool: Tensor) -> Tensor:
        """The other party's view (m, 2d) of m people, the first n of them aligned and hidden from themselves.

        own (m, 2d); other (n, 2d) the aligned people's true view; other_pool (N, d) more common representations.
        """
        d, n = self.config.d, len(other)
        unique = self._attend(own[:, :d], own[:n, :d], other[:, :d])
        common = torch.cat([other[:, d:], other_pool])
        return torch.cat([unique, self._attend(own[:, d:], common, common)], dim=1)

    def _attend(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        products = (query * self.scale) @ keys.T  # (m, keys)
        with torch.no_grad():  # a hidden key's weight is 0, and with it its gradient, without autograd's help
            products.diagonal()[: len(self.data.active_aligned)].fill_(-math.inf)
        return torch.softmax(products, dim=1) @ values

    @torch.no_grad()
    def _vote(self, joint: Tensor, active: Tensor, passive: Tensor) -> tuple[Tensor, Tensor]:
        """Label and acceptance (p,) of the passive-only rows, from f^AB's logits and both views."""
        logits = torch.stack(
            [
                joint,
                functional.linear(active, *self.heads["active"]),
                functional.linear(passive, *self.heads["passive"]),
            ]
        )
        top, choice = torch.softmax(logits, dim=2).max(dim=2)  # (3, p)
        sure = top > torch.tensor(self.config.thresholds)[:, None]
        return choice[0], (sure & (choice == choice[0])).all(dim=0)

    @torch.no_grad()
    def _remember(self, refresh: int) -> tuple[Tensor, Tensor]:
        """Common representations (N, d) of both parties' pools, in evaluation form, active first."""
        data, size = self.data, self.config.memory_pool
        active = data.active_alone[self._rows("active pool", len(data.active_alone), size, refresh)]
        passive = data.passive_alone[self._rows("passive pool", len(data.passive_alone), size, refresh)]
        d = self.config.d
        return (
            functional.linear(active, self.active[0][d:], self.active[1][d:]),
            functional.linear(passive, self.passive[0][d:], self.passive[1][d:]),
        )

    def _rows(self, group: str, size: int, batch: int, step: int) -> np.ndarray:
        return public_order(self.public_seed, group, size, batch, step)

    def _noisy(self, party: int, step: int, aligned: Tensor, alone: Tensor) -> Tensor:
        """Features of a step's rows plus the noise that this party would draw, (rows, f)."""
        features = torch.cat([aligned, alone])
        if self.config.input_noise == 0.0:
            return features
        self.noise.manual_seed(derive(self.seeds[party], f"fedcvt step {step}"))
        noise = torch.randn(features.shape, generator=self.noise)
        return features.add_(noise, alpha=self.config.input_noise)


def _squared_cosine(views: Tensor, d: int) -> Tensor:
    """Mean over rows of the squared cosine of the unique and the common half of views (rows, 2d)."""
    unique, common = views[:, :d], views[:, d:]
    dot = (unique * common).sum(dim=1)
    lengths = unique.square().sum(dim=1) * common.square().sum(dim=1)
    return (dot.square() / (lengths + 1e-12)).mean()


def _stacked(encoder: torch.nn.Module) -> tuple[Tensor, Tensor]:
    """Weights (2d, f) and biases (2d,) of a party's unique and common encoder in one."""
    pairs = [_parameters(part) for part in (encoder.unique, encoder.common)]
    weight, bias = (torch.cat([pair[i].detach() for pair in pairs]) for i in (0, 1))
    return weight.requires_grad_(), bias.requires_grad_()


def _parameters(linear: torch.nn.Module) -> tuple[Tensor, Tensor]:
    weight, bias = linear.parameters()
    return weight, bias


def _check(data: Joined, config: FedCVTConfig) -> None:
    taken = {
        "linear encoders": config.encoder == EncoderKind.LINEAR,
        "linear heads": config.head_hidden == 0,
        "equal widths": config.active_view.unique == config.passive_view.unique == config.d,
        "fill and live keys": config.fill and config.live_keys,
        "all aligned rows in each step": config.aligned_batch >= len(data.active_aligned) > 1,
        "alone rows": min(config.alone_batch, config.memory_pool) > 0,
        "all labels": bool((data.labels_aligned >= 0).all() and (data.labels_alone >= 0).all()),
        "pseudo labels by share": config.pseudo_weighting == PseudoWeighting.SHARE
        and not config.pseudo_passive,
        "no smoothing, no class weights": config.label_smoothing == 0.0 and not config.class_balance,
    }
    lacking = ", ".join(name for name, holds in taken.items() if not holds)
    if lacking:
        raise ConfigError(f"the plain reference takes only: {lacking}")
