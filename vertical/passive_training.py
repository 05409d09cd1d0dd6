"""One training at the passive party: the rounds of messages around `PassiveSide`."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from protocols.program import Checkpoint, Program, Send, receive
from vertical.arrays import Arrays, pack_training, restore_training, to_array
from vertical.encoders import ViewEncoder
from vertical.passive_side import PassiveSide
from vertical.receiving import expect_number, received
from vertical.roles import ACTIVE
from vertical.schedule import Training
from vertical.training import Features, Run, check_converges, tell_step


def train(
    training: Training, run: Run, features: Features, kept: Arrays, resume: Arrays | None
) -> Program[ViewEncoder]:
    """This party's encoders after the training.

    `kept` is what a checkpoint holds besides the training itself; `resume` the state that the run goes on from, which
    may lie before this training.
    """
    first, stop, side = training.first, training.stop, PassiveSide.start(training, run, features)
    at = 0 if resume is None else int(resume["at"])
    start = training.local_step(at)
    if resume is not None and start > 0:
        restore_training(side.encoder, side.optimiser, resume)
    batch = side.batch(start)
    for step in range(start, stop):
        if first + step > at and training.is_checkpoint(step):
            trained = pack_training(side.encoder, side.optimiser) if step > 0 else {}
            yield Checkpoint(first + step, {"at": np.array(first + step), **kept, **trained})
        if training.is_refresh(step):
            yield Send(ACTIVE, side.memory(step))
        views, b = side.views(batch), batch.aligned
        check_converges(training.title, views)
        yield Send(ACTIVE, training.phase.views(step, to_array(views[:b]), to_array(views[b:])))
        if step + 1 < stop:  # while the active party computes
            batch = side.batch(step + 1)
        gradients = yield from _receive_gradients(training, step, views, b)
        side.update(step, views, gradients)
        tell_step(run.observe, training.title, step, stop)
    check_converges(training.title, *side.encoder.parameters())
    if training.is_refresh(stop):
        yield Send(ACTIVE, side.memory(stop))
    return side.encoder


def _receive_gradients(training: Training, step: int, views: Tensor, b: int) -> Program[Tensor]:
    """The gradients of a step's views (b + e, v), the first b of aligned rows."""
    kind = training.phase.gradients
    answer = yield from receive(ACTIVE, kind)
    what = f"{kind.__name__} from {ACTIVE}, step {step}"
    expect_number(answer.step, step, what)
    aligned = received(answer.aligned, (b, views.shape[1]), what)
    alone = received(answer.alone, (len(views) - b, views.shape[1]), what)
    return torch.cat([aligned, alone])
