"""A common model on one client's own rows: a program of one party, which sends and receives nothing.

The probabilities stay at the client as artifacts of the run, for its owner to join with its keys. The analyst gets the
number of rows.

Shapes: m rows, k classes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from horizontal.average import Array, Arrays
from horizontal.local import outputs
from protocols.errors import ModelError
from protocols.program import Observe, Outcome, Program, Progress, compute

CLASSES, ROWS, PROBABILITIES = "classes", "rows", "probabilities"
"""Names of the artifacts: texts, numbers (m,) of own rows, and (m, k)."""


def predict_program(
    model: nn.Module,
    features: Tensor,
    rows: NDArray[np.int64],
    classes: Sequence[str],
    observe: Observe,
) -> Program[Outcome]:
    """The class probabilities of the rows with these numbers and features (m, ...), by the model's outputs (m, k).

    Raises ModelError for a model whose outputs aren't finite.
    """
    observe(Progress("predict", 0, 1))
    probabilities = yield from compute(_probabilities, model, features, len(classes))
    observe(Progress("predict", 1, 1))
    artifacts: dict[str, Array] = {
        CLASSES: np.frombuffer(json.dumps(list(classes)).encode(), np.uint8),
        ROWS: rows,
        PROBABILITIES: probabilities,
    }
    return Outcome({"people": len(rows)}, artifacts, {"people": rows})


def _probabilities(model: nn.Module, features: Tensor, classes: int) -> NDArray[np.float32]:
    if not len(features):
        return np.zeros((0, classes), np.float32)
    with torch.no_grad():
        values = torch.softmax(outputs(model, features), dim=1).numpy()
    if not np.isfinite(values).all():
        raise ModelError("the model's outputs aren't all finite numbers", remedy="train again")
    return np.asarray(values, np.float32)


def columns_of(artifacts: Arrays) -> tuple[list[int], dict[str, list[str | float]]] | None:
    """Own row numbers and, column by column, the most probable class and each one's probability; None without any."""
    if CLASSES not in artifacts:
        return None
    classes = json.loads(artifacts[CLASSES].tobytes())
    values = artifacts[PROBABILITIES]
    columns: dict[str, list[str | float]] = {"prediction": [classes[at] for at in values.argmax(axis=1)]}
    columns.update({f"p({name})": values[:, at].tolist() for at, name in enumerate(classes)})
    return artifacts[ROWS].tolist(), columns
