"""One training at the passive party: what it sends each step, and what it does with the gradients that come back.

Shapes: n aligned training rows, b and e aligned and passive-only rows of a step, v width of a view.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from protocols.program import Checkpoint, Program, Send, receive
from vertical.arrays import Arrays, pack_training, restore_training, to_array
from vertical.encoders import ViewEncoder, view_encoder
from vertical.fedcvt import learning_rate, optimizer, set_learning_rate
from vertical.messages import MemoryViews
from vertical.receiving import expect_number, received
from vertical.roles import ACTIVE
from vertical.schedule import Training
from vertical.training import Features, Run, is_refresh, tell_step


def train(
    training: Training,
    run: Run,
    features: Features,
    kept: Mapping[str, NDArray[np.generic]],
    resume: Arrays | None,
) -> Program[ViewEncoder]:
    """This party's encoders after the training.

    `kept` is what a checkpoint holds besides the training itself; `resume` the state that the run goes on from, which
    may lie before this training.
    """
    config, first = training.config, training.first
    weights = run.generator(f"{training.name} weights")
    encoder = view_encoder(config, config.passive_view, features.width, weights)
    optimiser = optimizer(config, encoder.parameters())
    at = 0 if resume is None else int(resume["at"])
    start = training.local_step(at)
    if resume is not None and start > 0:
        restore_training(encoder, optimiser, resume)
    batch = _batch(training, run, encoder, features, start)
    for step in range(start, training.stop):
        if first + step > at and training.is_checkpoint(step):
            trained = pack_training(encoder, optimiser) if step > 0 else {}
            yield Checkpoint(first + step, {"at": np.array(first + step), **kept, **trained})
        if training.phase.memory and is_refresh(config, step):
            yield Send(ACTIVE, _memory(training, run, encoder, features, step))
        views, b = encoder.encode(batch.noisy, batch.generator).joined(), batch.aligned
        yield Send(ACTIVE, training.phase.views(step, to_array(views[:b]), to_array(views[b:])))
        if step + 1 < training.stop:  # while the active party computes
            batch = _batch(training, run, encoder, features, step + 1)
        gradients = yield from _receive_gradients(training, step, views, b)
        optimiser.zero_grad()
        views.backward(gradients)  # type: ignore[no-untyped-call]
        set_learning_rate(optimiser, learning_rate(config, step))
        optimiser.step()
        tell_step(run.observe, training.title, step, training.stop)
    if training.phase.memory:
        yield Send(ACTIVE, _memory(training, run, encoder, features, training.stop))
    return encoder


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Batch:
    """A step's input (b + e, f) with its noise, the first b = `aligned` rows of aligned people, and its generator."""

    noisy: Tensor
    aligned: int
    generator: torch.Generator


def _batch(training: Training, run: Run, encoder: ViewEncoder, features: Features, step: int) -> _Batch:
    """What a step needs that doesn't depend on the encoders' parameters."""
    config, kept = training.config, training.fold.kept
    aligned = kept[run.rows("aligned", len(kept), config.aligned_batch, step)]
    alone = run.rows("passive only", len(features.alone), config.alone_batch, step)
    generator = run.generator(f"{training.name} step {step}")
    rows = torch.cat([features.aligned[aligned], features.alone[alone]])
    return _Batch(noisy=encoder.noisy(rows, generator), aligned=len(aligned), generator=generator)


def _receive_gradients(training: Training, step: int, views: Tensor, b: int) -> Program[Tensor]:
    """The gradients of a step's views (b + e, v), the first b of aligned rows."""
    kind = training.phase.gradients
    answer = yield from receive(ACTIVE, kind)
    what = f"{kind.__name__} from {ACTIVE}, step {step}"
    expect_number(answer.step, step, what)
    aligned = received(answer.aligned, (b, views.shape[1]), what)
    alone = received(answer.alone, (len(views) - b, views.shape[1]), what)
    return torch.cat([aligned, alone])


@torch.no_grad()
def _memory(training: Training, run: Run, encoder: ViewEncoder, features: Features, step: int) -> MemoryViews:
    """Views of all aligned rows, also of held-out ones, and common representations of this refresh's pool."""
    config = training.config
    refresh = -(-step // config.memory_every)
    pool = run.rows("passive pool", len(features.alone), config.memory_pool, refresh)
    common = encoder.common(features.alone[pool])
    return MemoryViews(step, to_array(encoder(features.aligned).joined()), to_array(common))
