"""What a classifier is worth on rows that one has: loss, accuracy, and what a constant answer would reach."""

from __future__ import annotations

import torch
from torch import nn

from horizontal.local import Examples, Objective, cross_entropy, outputs


def metrics(model: nn.Module, examples: Examples, objective: Objective = cross_entropy) -> dict[str, float]:
    """`loss` (mean cross-entropy), `accuracy`, `balanced_accuracy` (mean over the classes that occur), `majority_rate`.

    Logits (n, k), labels int64 (n,); of anything else there is only the `loss`, the mean objective. Empty without rows:
    there is nothing to say.
    """
    if not len(examples):
        return {}
    logits, labels = outputs(model, examples.features), examples.labels
    if logits.ndim != 2 or labels.ndim != 1 or labels.is_floating_point():
        return {"loss": float(objective(logits, labels).double().mean())}
    right = (logits.argmax(dim=1) == labels).double()
    counts = torch.bincount(labels, minlength=logits.shape[1])
    present = counts > 0
    recalls = (
        torch.zeros(len(counts), dtype=torch.float64).index_add_(0, labels, right)[present] / counts[present]
    )
    return {
        "loss": float(cross_entropy(logits, labels).double().mean()),
        "accuracy": float(right.mean()),
        "balanced_accuracy": float(recalls.mean()),
        "majority_rate": float(counts.max() / counts.sum()),
    }
