"""The messages of the computations that use a trained model, after the alignment.

Shapes: c people of one part of a longer list, w width of what the passive party shows of a person: its view
[unique ; common] and, in predictions, its principal components; k classes, e experts. Float32 throughout. Rows are
positions in an order both sides hold; no key occurs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from protocols.psi import PSI_KINDS
from protocols.wire import Message, array
from vertical.messages import AloneViews, Part

EXPERTS = (
    "joint",
    "active_head",
    "passive_head",
    "active_network",
    "aligned_only",
    "stack",
    "active_alone",
    "passive_alone",
)
"""Names of all experts that a prediction may weigh; `vertical.ensemble` has them."""


@dataclass(frozen=True, slots=True)
class SameModel(Message):
    """The tag of the alignment that the sender's part of the model was trained on; both must name the same one."""

    tag: str


@dataclass(frozen=True, slots=True, eq=False)
class CommonShown(Part):
    """What the passive party shows (c, w) of the common people from position `start` on."""

    views: NDArray[np.float32] = array(np.float32, 2)


@dataclass(frozen=True, slots=True, eq=False)
class AloneShown(AloneViews):
    """What the passive party shows (c, w) of its own other people from `start` on, of `of` in all."""


@dataclass(frozen=True, slots=True, eq=False)
class Probabilities(Part):
    """Probabilities (c, k) of the people shown from `start` on: the common ones, then the others."""

    values: NDArray[np.float32] = array(np.float32, 2)


@dataclass(frozen=True, slots=True, eq=False)
class ExpertWeights(Message):
    """Weights of the experts, (2, e) in predictions for common people and for the others, or (1, e) for the former."""

    weights: NDArray[np.float32] = array(np.float32, 2)


FILL_KINDS: tuple[type[Message], ...] = (*PSI_KINDS, SameModel, AloneShown)
VOTE_KINDS: tuple[type[Message], ...] = (*FILL_KINDS, CommonShown)
PREDICT_KINDS: tuple[type[Message], ...] = (*VOTE_KINDS, Probabilities, ExpertWeights)
