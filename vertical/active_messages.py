"""What the active party hears from the passive one, each message checked, and what it answers.

Nothing here trusts a shape, a step or a number of the peer: a ProtocolError says what was expected and what came.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from protocols.chunks import chunks
from protocols.errors import ProtocolError
from protocols.program import Program, Send, receive
from vertical.active_side import ActiveSide
from vertical.arrays import to_array
from vertical.config import FedCVTConfig
from vertical.encoders import Representation
from vertical.fedcvt import Objective
from vertical.folds import Fold
from vertical.messages import AloneViews, LinearViews, MemoryViews, Phase
from vertical.predict import Predictor
from vertical.receiving import expect_number, receive_alone, receive_rows, received
from vertical.roles import PASSIVE
from vertical.training import check_converges
from vertical.views import Memory
from vertical.vote import Vote


def exchange_step(phase: Phase, side: ActiveSide, step: int, memory: Memory) -> Program[Objective]:
    """Receives the passive party's views, does this party's step and answers with the views' gradients.

    What needs nothing from the peer comes before the receipt, what the peer needn't wait for comes after the answer.
    """
    own = side.own_half(step)
    message = yield from receive(PASSIVE, phase.views)
    what = f"{phase.views.__name__} from {PASSIVE}, step {step}"
    expect_number(message.step, step, what)
    config, width = side.run.config, side.run.config.passive_view.width
    aligned = received(message.aligned, (len(own.rows), width), what).requires_grad_()
    if message.alone.shape[0] > config.alone_batch:
        raise ProtocolError(
            f"{what}: expected at most {config.alone_batch} alone rows, came {len(message.alone)}"
        )
    alone = received(message.alone, (len(message.alone), width), what).requires_grad_()
    result = side.differentiate(step, own, memory, aligned, alone)
    check_converges(
        side.name, result.total, *(each.grad for each in (aligned, alone) if each.grad is not None)
    )
    yield Send(PASSIVE, phase.gradients(step, _gradient(aligned), _gradient(alone)))
    side.update(step)
    return result


def _gradient(views: Tensor) -> NDArray[np.float32]:
    return to_array(torch.zeros_like(views) if views.grad is None else views.grad)


def receive_memory(side: ActiveSide, fold: Fold, step: int) -> Program[tuple[Memory, Representation]]:
    """The memory from `step` on, of the aligned rows that `fold` keeps, and the passive party's views of the others."""
    message = yield from receive(PASSIVE, MemoryViews)
    what, config = f"{MemoryViews.__name__} from {PASSIVE}, step {step}", side.run.config
    expect_number(message.step, step, what)
    if message.pool.shape[0] > config.memory_pool:
        raise ProtocolError(
            f"{what}: expected at most {config.memory_pool} pool rows, came {len(message.pool)}"
        )
    rows = len(fold.kept) + len(fold.held)
    views = received(message.aligned, (rows, config.passive_view.width), what)
    aligned = Representation.split(views, config.d)
    pool = received(message.pool, (len(message.pool), config.d), what)
    return side.memory(step, aligned.take(fold.kept), pool), aligned.take(fold.held)


def receive_linear_views(config: FedCVTConfig, rows: int) -> Program[NDArray[np.float32]]:
    """The principal components of `rows` aligned people, training people first, (rows, linear_views)."""
    if config.linear_views == 0:
        return np.zeros((rows, 0), np.float32)
    parts = chunks(rows, config.max_aligned_train + config.max_aligned_test, config.evaluation_batch)
    components = yield from receive_rows(
        PASSIVE, LinearViews, lambda part: part.components, parts, config.linear_views
    )
    return components


def receive_test_views(phase: Phase, side: ActiveSide) -> Program[Representation]:
    """The passive party's views of all aligned test rows."""
    config = side.run.config
    parts = chunks(len(side.features.test), config.max_aligned_test, config.evaluation_batch)
    views = yield from receive_rows(
        PASSIVE, phase.test, lambda part: part.views, parts, config.passive_view.width
    )
    return Representation.split(torch.from_numpy(views), config.d)


def receive_votes(predictor: Predictor) -> Program[Vote]:
    """The final pseudo labels of all passive-only people, in the passive party's order, (q,)."""
    config = predictor.config
    parts = yield from receive_alone(PASSIVE, AloneViews, config.max_passive_only, config.passive_view.width)
    views = [Representation.split(torch.from_numpy(part), config.d) for part in parts]
    votes = [predictor.vote(None, some) for some in views]
    return Vote(torch.cat([vote.label for vote in votes]), torch.cat([vote.accepted for vote in votes]))
