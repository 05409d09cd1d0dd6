"""The messages of a FedCVT run after the alignment; `vertical.active` has their order and what each teaches whom.

Shapes: m common people, n aligned training rows, q passive-only training rows, b rows of a step's aligned batch,
e rows of its passive-only batch, c rows of one part of a longer list, d width of a common representation; a view of
the passive party is [unique ; common], v wide. Float32 throughout. Rows are positions in an order both sides hold; no
key occurs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from protocols.psi import PSI_KINDS
from protocols.wire import Message, array


@dataclass(frozen=True, slots=True, eq=False)
class Splits(Message):
    """The sender's split code of every common person, in the common order, (m,)."""

    split: NDArray[np.uint8] = array(np.uint8, 1)


@dataclass(frozen=True, slots=True, eq=False)
class Part(Message):
    """Rows of a list that is sent in parts: those from position `start` on. Its kinds add the rows."""

    start: int


@dataclass(frozen=True, slots=True, eq=False)
class LinearViews(Part):
    """Principal components of the passive party's features, of aligned rows from `start` on, (c, linear_views).

    The aligned training rows come first, then the aligned test rows. The components know no label. Columns beyond those
    that the features have are zero: the size follows from the settings, but the receiver sees how many there are.
    """

    components: NDArray[np.float32] = array(np.float32, 2)


@dataclass(frozen=True, slots=True, eq=False)
class MemoryViews(Message):
    """The passive party's detached representations from `step` on: keys and values of the attention fill.

    aligned: views of all aligned training rows (n, v); pool: common representations of the
    passive-only rows in the pool (up to memory_pool, d).
    """

    step: int
    aligned: NDArray[np.float32] = array(np.float32, 2)
    pool: NDArray[np.float32] = array(np.float32, 2)


@dataclass(frozen=True, slots=True, eq=False)
class PassiveViews(Message):
    """The passive party's views of one step's rows: aligned (b, v) and passive-only (e, v)."""

    step: int
    aligned: NDArray[np.float32] = array(np.float32, 2)
    alone: NDArray[np.float32] = array(np.float32, 2)


@dataclass(frozen=True, slots=True, eq=False)
class ViewGradients(Message):
    """The gradients of the step's loss in the views of `PassiveViews`, of the same shapes."""

    step: int
    aligned: NDArray[np.float32] = array(np.float32, 2)
    alone: NDArray[np.float32] = array(np.float32, 2)


@dataclass(frozen=True, slots=True, eq=False)
class Choice(Message):
    """What the active party found best on held-out rows: the candidate's place in the list, and its number of steps."""

    candidate: int
    steps: int


@dataclass(frozen=True, slots=True, eq=False)
class TestViews(Part):
    """The passive party's views of the aligned test rows from position `start` on, (c, v)."""

    __test__ = False  # not a test class, whatever pytest thinks of the name

    views: NDArray[np.float32] = array(np.float32, 2)


@dataclass(frozen=True, slots=True, eq=False)
class AloneViews(Part):
    """The passive party's views of its passive-only rows from `start` on, (c, v), for the final pseudo labels.

    `of` is their number q, so that the receiver knows when they are complete.
    """

    of: int
    views: NDArray[np.float32] = array(np.float32, 2)


@dataclass(frozen=True, slots=True, eq=False)
class BaselineViews(PassiveViews):
    """As its parent, from the aligned-only baseline's own encoders; `alone` has no rows."""


@dataclass(frozen=True, slots=True, eq=False)
class BaselineGradients(ViewGradients):
    """As its parent, for the aligned-only baseline."""


@dataclass(frozen=True, slots=True, eq=False)
class BaselineTestViews(TestViews):
    """As its parent, from the aligned-only baseline's own encoders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One training with evaluation inside a run: its name, whether it has a memory, and its own kinds of messages."""

    name: str
    memory: bool
    views: type[PassiveViews]
    gradients: type[ViewGradients]
    test: type[TestViews]


FEDCVT = Phase(name="fedcvt", memory=True, views=PassiveViews, gradients=ViewGradients, test=TestViews)
ALIGNED_ONLY = Phase(
    name="aligned_only",
    memory=False,
    views=BaselineViews,
    gradients=BaselineGradients,
    test=BaselineTestViews,
)

KINDS: tuple[type[Message], ...] = (
    *PSI_KINDS,
    Splits,
    LinearViews,
    MemoryViews,
    PassiveViews,
    ViewGradients,
    Choice,
    TestViews,
    AloneViews,
    BaselineViews,
    BaselineGradients,
    BaselineTestViews,
)
"""Every kind that a worker of this computation accepts."""
