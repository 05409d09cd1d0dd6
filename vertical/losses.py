"""The terms of the joint objective, each a free function of tensors that gives a scalar.

Shapes: n rows, d width, u width of a unique representation, k classes. A term over zero rows is exactly 0 with zero
gradients.
FedCVT (arXiv 2008.10838), section 4.3.
"""

from __future__ import annotations

import torch
from torch import Tensor

_SMALL = 1e-12  # squared length under which a representation has no direction


def cross_entropy(
    logits: Tensor, labels: Tensor, *, weights: Tensor | None = None, smoothing: float = 0.0
) -> Tensor:
    """Mean cross-entropy of logits (n, k) and class codes int64 (n,).

    `smoothing` s trains towards `(1 - s) one-hot + s / k`. With `weights` (n,) the mean is over weights, so
    that repeating every row changes nothing; it is 0 where all weights are 0.
    """
    if labels.shape[0] == 0:
        return logits.sum() * 0.0
    log_p = torch.log_softmax(logits, dim=1)
    picked = log_p.gather(1, labels[:, None]).squeeze(1)
    loss = -((1.0 - smoothing) * picked + smoothing * log_p.mean(dim=1))  # (n,)
    if weights is None:
        return loss.mean()
    return (weights * loss).sum() / weights.sum().clamp(min=_SMALL)


def difference(left: Tensor, right: Tensor) -> Tensor:
    """Mean squared difference of two (n, d), over rows and over d (L_diff)."""
    if left.shape[0] == 0:
        return (left.sum() + right.sum()) * 0.0
    return (left - right).square().mean()


def similarity(unique: Tensor, common: Tensor) -> Tensor:
    """Mean over rows of the squared cosine of unique (n, u) and common (n, d): 0 when orthogonal (L_sim).

    Ours; the authors' released code takes the norm of the n x n Gram matrix, whose weights don't transfer.
    A row with a zero representation counts 0. Of two widths the smaller counts as padded with zeros.
    """
    if unique.shape[0] == 0:
        return (unique.sum() + common.sum()) * 0.0
    shared = min(unique.shape[1], common.shape[1])
    dot = (_first(unique, shared) * _first(common, shared)).sum(dim=1)
    lengths = unique.square().sum(dim=1) * common.square().sum(dim=1)
    return (dot.square() / (lengths + _SMALL)).mean()


def _first(values: Tensor, columns: int) -> Tensor:
    """The first columns; all of them cost no copy in the backward pass."""
    return values if values.shape[1] == columns else values[:, :columns]


def class_weights(labels: Tensor, classes: int) -> Tensor:
    """Loss weight (k,) of each class, rows / (classes present * rows of the class); 0 for an absent class.

    labels int64 (n,), -1 where missing: those don't count. Balanced classes all weigh 1.
    """
    counts = torch.bincount(labels[labels >= 0], minlength=classes).to(torch.float32)
    present = (counts > 0).sum().clamp(min=1)
    return torch.where(counts > 0, counts.sum() / (present * counts.clamp(min=1.0)), torch.zeros(()))
