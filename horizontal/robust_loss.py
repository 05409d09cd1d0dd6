"""The robust loss and the signals of FLASH's clients (arXiv 2402.08769); see `flash` for what they are for."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from horizontal.local import Examples, Objective, cross_entropy, outputs
from protocols.errors import ConfigError

_LOG_ZERO = -4.0
"""A: what stands for log 0 in the reverse cross-entropy."""


def robust_loss(alpha: float, beta: float) -> Objective:
    """`alpha CE + beta RCE` by row, with the reverse cross-entropy `RCE = -A (1 - p_y)`, A = -4.

    RCE is bounded, so that a wrong label can't dominate (Wang et al., "Symmetric cross entropy", arXiv 1908.06112).
    """

    def robust(outputs: Tensor, labels: Tensor) -> Tensor:
        p = torch.softmax(outputs, dim=1).gather(1, labels[:, None])[:, 0]
        return alpha * cross_entropy(outputs, labels) - beta * _LOG_ZERO * (1 - p)

    return robust


def pseudo_labels(outputs: Tensor) -> Tensor:
    """The model's own answers, int64 (n,), from logits (n, k)."""
    return outputs.argmax(dim=1)


def label_entropy(labels: Tensor, classes: int) -> float:
    """Entropy of the shares of the labels (n,) in units of ln k: 0 for one class, 1 for k equal ones."""
    if len(labels) == 0 or classes < 2:
        return 0.0
    share = torch.bincount(labels, minlength=classes).double() / len(labels)
    return float(-(share * torch.log(share.clamp(min=1e-300))).sum() / math.log(classes))


def signals(
    model: nn.Module, training: Examples, validation: Examples, seconds: float
) -> NDArray[np.float64]:
    """A client's signals (5,) with the received model; without validation rows both losses are of the training rows.

    All 0 but the seconds for a client without rows. Raises ConfigError unless these are rows of a classification.
    """
    if not len(training):
        return np.array([0.0, 0.0, 0.0, 0.0, seconds])
    seen = outputs(model, training.features)
    if seen.ndim != 2 or training.labels.ndim != 1:
        shapes = f"{tuple(seen.shape)} and {tuple(training.labels.shape)}"
        raise ConfigError(
            f"FLASH needs rows of one class each: expected logits (n, k) and labels (n,), came {shapes}"
        )
    wrong = float((pseudo_labels(seen) != training.labels).double().mean())
    rows, held = (validation, outputs(model, validation.features)) if len(validation) else (training, seen)
    given = float(cross_entropy(held, rows.labels).double().mean())
    pseudo = float(cross_entropy(held, pseudo_labels(held)).double().mean())
    return np.array([label_entropy(training.labels, seen.shape[1]), given, pseudo, wrong, seconds])
