"""FedBSS: Xu, Li, Wu, Ren, "Federated learning with sample-level client drift mitigation", AAAI 2025, arXiv 2501.11360.

A client's curriculum. After the warm-up, in each round, with m local rows and E local epochs:

1. Each row is scored once with the received global model, weights frozen and no dropout: p = softmax(z),
   loss = -ln p_true, spread s = max p - min p, uncertainty u = 1 - s.
2. Rows are ranked by loss, easy first, ranks 1..m; ties in the order of the rows, which are the samples' ids.
3. The cut is j* = argmax_j u(S_j), the first one on ties (ours): this client's own peak, never a shared threshold.
   Ranks up to j* are unbiased (green), those above are biased (red).
4. Epoch e trains on all green rows and the first round_half_up(|R| alpha(e)) red ones, easy to hard, with
   alpha(e) = (1 - cos(pi e / E)) / 2. alpha(E) = 1: nothing is ever dropped, only late.

Only rows and their order change, so that it combines with penalties, adjustments and all aggregations; what is
uploaded is as before. A client whose rows grew since it last took part warms up again for a few rounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from horizontal.average import Array, Arrays
from horizontal.config import Gate
from horizontal.local import Admission, cross_entropy
from protocols.errors import ConfigError


def alpha(epoch: int, epochs: int, gate: Gate = Gate.COSINE) -> float:
    """The share of red rows that local epoch e = 1..E admits."""
    if gate is Gate.LINEAR:
        return epoch / epochs
    return (1 - math.cos(math.pi * epoch / epochs)) / 2


def round_half_up(x: float) -> int:
    """x >= 0 to the nearest whole number, halves up although cos(pi/2) isn't exactly 0 in floating point (ours)."""
    return math.floor(x + 0.5 + 1e-9)


def uncertainty(outputs: Tensor) -> Tensor:
    """u = 1 - (max p - min p) of each row, from logits (m, k): (m,)."""
    p = torch.softmax(outputs, dim=1)
    return 1 - (p.amax(dim=1) - p.amin(dim=1))


def cut(by_rank: Tensor) -> int:
    """The number of unbiased rows: j* = argmax of the uncertainties (m,) by rank, the first of equal ones (ours)."""
    return int(torch.argmax(by_rank)) + 1 if len(by_rank) else 0  # torch gives the first of equal ones


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curriculum:
    """A client's rows in a round by rank: `order` (m,) of int64 rows, `losses` and `uncertainties` (m,) by rank.

    The first `green` ranks are unbiased; `red` is the number of the others.
    """

    order: Tensor
    losses: Tensor
    uncertainties: Tensor
    green: int

    @property
    def red(self) -> int:
        """Number of biased rows."""
        return len(self.order) - self.green

    def admitted(self, epochs: int, gate: Gate = Gate.COSINE) -> tuple[int, ...]:
        """The number of red rows that each local epoch admits."""
        return tuple(round_half_up(self.red * alpha(epoch, epochs, gate)) for epoch in range(1, epochs + 1))

    def admission(self, epochs: int, gate: Gate = Gate.COSINE, *, shuffle: bool = False) -> Admission:
        """The rows of each local epoch: easy to hard, or with `shuffle` those admitted in random order."""
        red = self.admitted(epochs, gate)

        def admit(epoch: int, generator: torch.Generator) -> Tensor:
            rows = self.order[: self.green + red[epoch - 1]]
            return rows[torch.randperm(len(rows), generator=generator)] if shuffle else rows

        return admit


def curriculum(outputs: Tensor, labels: Tensor) -> Curriculum:
    """The ranking and the cut, from the received model's logits (m, k) and the class codes (m,).

    Raises ConfigError unless these are the shapes of a classification. No rows give an empty curriculum.
    """
    if outputs.ndim != 2 or labels.ndim != 1:
        shapes = f"{tuple(outputs.shape)} and {tuple(labels.shape)}"
        raise ConfigError(
            f"FedBSS ranks rows of one class each: expected logits (m, k) and labels (m,), came {shapes}"
        )
    losses = cross_entropy(outputs, labels)
    order = torch.argsort(losses, stable=True)
    by_rank = uncertainty(outputs)[order]
    return Curriculum(order=order, losses=losses[order], uncertainties=by_rank, green=cut(by_rank))


@dataclass(frozen=True, slots=True)
class Stage:
    """What a client remembers between its rounds: its rows then, and until which round it warms up again."""

    rows: int = 0
    warm_until: int = 0

    def at(self, number: int, rows: int, rewarm_rounds: int) -> Stage:
        """The stage in round `number` with so many rows: growth since last time starts `rewarm_rounds` rounds.

        The first rows that a client ever has are no growth.
        """
        grew = 0 < self.rows < rows
        return Stage(rows=rows, warm_until=number + rewarm_rounds - 1 if grew else self.warm_until)

    def pack(self) -> dict[str, Array]:
        """The stage as named arrays."""
        return {"fedbss": np.array([self.rows, self.warm_until])}

    @classmethod
    def unpack(cls, memory: Arrays) -> Stage:
        """The stage in these arrays; the first one if there is none."""
        return cls() if "fedbss" not in memory else cls(*map(int, memory["fedbss"].tolist()))

    def warm(self, number: int, warmup_rounds: int) -> bool:
        """Whether round `number` is ordinary training."""
        return number <= max(warmup_rounds, self.warm_until)
