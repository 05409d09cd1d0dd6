"""Pseudo labels by the vote of the three heads. Shapes: m rows, k classes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vertical.heads import HeadLogits


@dataclass(frozen=True, slots=True, eq=False)
class Vote:
    """label int64 (m,): the joint head's class; accepted bool (m,): whether it may be used as a label."""

    label: Tensor
    accepted: Tensor

    @classmethod
    def on_nobody(cls) -> Vote:
        """The vote on no row."""
        return cls(torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.bool))


@torch.no_grad()
def vote(logits: HeadLogits, thresholds: tuple[float, float, float]) -> Vote:
    """The vote on logits (m, k) of f^AB, f^A, f^B, which is the order of the thresholds too; no gradient.

    Accepted where all three name the same class and each one's top probability is strictly greater than
    its threshold (FedCVT, section 4.2). A logit that isn't finite never gets a row accepted.
    """
    top, choice = torch.softmax(logits.stacked(), dim=2).max(dim=2)  # (3, m)
    sure = top > torch.tensor(thresholds, dtype=top.dtype, device=top.device)[:, None]
    agree = (choice == choice[0]).all(dim=0)
    return Vote(choice[0], agree & sure.all(dim=0))
