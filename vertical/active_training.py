"""One training at the active party: the rounds of messages around `ActiveSide`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from protocols.program import Checkpoint, Program
from vertical.active_messages import exchange_step, receive_memory
from vertical.active_side import ActiveSide
from vertical.arrays import Arrays, pack_training, restore_training
from vertical.encoders import Representation
from vertical.schedule import Training
from vertical.training import check_converges, tell_step
from vertical.views import Memory
from vertical.vote import Vote

Validate: TypeAlias = Callable[[int, Memory, Representation], None]
"""Told of a number of steps, the memory then and the passive party's views of the held-out aligned rows."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trained:
    """What a training leaves: model, memory, each step's loss, and the last step's vote on its passive-only people."""

    side: ActiveSide
    losses: list[float]
    vote: Vote
    memory: Memory


def train(
    training: Training,
    side: ActiveSide,
    keep: Callable[[], Arrays],
    resume: Arrays | None,
    validate: Validate | None = None,
) -> Program[Trained]:
    """The training after all its steps.

    `keep` gives what a checkpoint holds besides the training itself; `resume` is the state that the run goes on from,
    which may lie before this training. `validate` is called at each of its evaluation points.
    """
    first, losses = training.first, list[float]()
    at = 0 if resume is None else int(resume["at"])
    start = training.local_step(at)
    if resume is not None and start > 0:
        restore_training(side.model, side.optimiser, resume)
        losses = resume["losses"].tolist()
    memory, vote = Memory.blank(training.config, len(training.fold.kept)), Vote.on_nobody()
    for step in range(start, training.stop + 1):
        last = step == training.stop
        if not last and first + step > at and training.is_checkpoint(step):
            yield Checkpoint(first + step, {**keep(), **_state(first + step, step, side, losses)})
        if training.is_refresh(step):
            memory, held = yield from receive_memory(side, training.fold, step)
            if validate is not None and step in training.points:
                validate(step, memory, held)
        if last:
            break
        result = yield from exchange_step(training.phase, side, step, memory)
        losses.append(float(result.total.detach()))
        vote = result.passive_vote
        tell_step(side.run.observe, training.title, step, training.stop, losses)
    check_converges(training.title, *side.model.parameters())
    return Trained(side=side, losses=losses, vote=vote, memory=memory)


def _state(at: int, step: int, side: ActiveSide, losses: list[float]) -> Arrays:
    """Where the run is, and the training if it has begun."""
    begun = {"losses": np.array(losses), **pack_training(side.model, side.optimiser)} if step > 0 else {}
    return {"at": np.array(at), **begun}
