"""The passive party's program of a FedCVT run; `vertical.active` lists the messages of both and what each teaches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from protocols.chunks import chunks
from protocols.program import Checkpoint, Observe, Outcome, Program, Send, receive
from protocols.psi import ALONE, Crew, psi_server
from protocols.seeds import PrivateSeed
from vertical.baselines import aligned_only_config
from vertical.config import FedCVTConfig
from vertical.encoders import ViewEncoder, view_encoder
from vertical.fedcvt import learning_rate, optimizer, set_learning_rate
from vertical.groups import Groups, exchange_groups
from vertical.manifest import ANY_ROWS, BlockRows, psi_terms
from vertical.messages import ALIGNED_ONLY, FEDCVT, AloneViews, MemoryViews, Phase
from vertical.model import PassivePart
from vertical.results import alignment_artifacts
from vertical.table import PartyData
from vertical.training import (
    Features,
    Run,
    State,
    expect_number,
    is_checkpoint,
    is_refresh,
    pack_training,
    parameters,
    received,
    restore_training,
    silent,
    tell_step,
    to_array,
)

ACTIVE = "active"


def passive_program(
    data: PartyData,
    config: FedCVTConfig,
    public_seed: int,
    private_seed: PrivateSeed,
    observe: Observe = silent,
    *,
    resume: State | None = None,
    rows: BlockRows = ANY_ROWS,
    crew: Crew = ALONE,
) -> Program[Outcome]:
    """The run as the party without labels sees it; leaves its encoders and the order of its passive-only rows.

    `rows` are the published rows of both blocks, from which the alignment's bounds follow; `crew` helps it.
    `resume` is the state of a checkpoint of this program; the active party must resume at the same step.
    Raises OverlapError before training if too few people are common, ProtocolError for a message out of turn.
    """
    run = Run(config, public_seed, private_seed, observe)
    align = _align(data, run, rows, crew)
    groups = (yield from align) if resume is None else Groups.unpack(resume)
    return (yield from train_and_evaluate(data, groups, run, resume))


def train_and_evaluate(
    data: PartyData, groups: Groups, run: Run, resume: State | None = None
) -> Program[Outcome]:
    """The run after the alignment, for groups that are known already."""
    config = run.config
    features = Features.of(data, groups, config.scaling, config.passive_view)

    encoder = yield from _train(FEDCVT, run, groups, features, resume)
    yield Send(ACTIVE, _memory(run, encoder, features, config.steps))
    yield from _send_test_views(FEDCVT, config, encoder, features.test)
    if config.final_vote:
        yield from _send_alone_views(config, encoder, features.alone)
    part = PassivePart(config=config, rules=features.rules, encoder=encoder, tag=groups.tag)
    artifacts = part.pack()

    if config.baselines:
        plain = run.with_config(aligned_only_config(config))
        encoder = yield from _train(ALIGNED_ONLY, plain, groups, features.aligned_only(), None)
        yield from _send_test_views(ALIGNED_ONLY, config, encoder, features.test)
        artifacts |= parameters("aligned_only.encoder", encoder)
    return _outcome(groups, artifacts)


def _align(data: PartyData, run: Run, rows: BlockRows, crew: Crew) -> Program[Groups]:
    terms = psi_terms(run.config, rows)
    alignment = yield from psi_server(
        data.keys, ACTIVE, run.private_seed, terms, crew=crew, observe=run.observe
    )
    return (
        yield from exchange_groups(
            data,
            alignment,
            run.config,
            run.private_seed,
            peer=ACTIVE,
            max_alone=run.config.max_passive_only,
        )
    )


def _train(
    phase: Phase, run: Run, groups: Groups, features: Features, resume: State | None
) -> Program[ViewEncoder]:
    """One training: this party's encoders after all steps."""
    config = run.config
    weights = run.generator(f"{phase.name} weights")
    encoder = view_encoder(config, config.passive_view, features.width, weights)
    optimiser = optimizer(config, encoder.parameters())
    start = 0 if resume is None else int(resume["at"])
    if resume is not None:
        restore_training(encoder, optimiser, resume)
    batch = _batch(phase, run, encoder, features, start)
    for step in range(start, config.steps):
        if phase.memory and step > start and is_checkpoint(config, step):
            state = {"at": np.array(step), **groups.pack(), **pack_training(encoder, optimiser)}
            yield Checkpoint(step, state)
        if phase.memory and is_refresh(config, step):
            yield Send(ACTIVE, _memory(run, encoder, features, step))
        views, b = encoder.encode(batch.noisy, batch.generator).joined(), batch.aligned
        yield Send(ACTIVE, phase.views(step, to_array(views[:b]), to_array(views[b:])))
        if step + 1 < config.steps:  # while the active party computes
            batch = _batch(phase, run, encoder, features, step + 1)
        gradients = yield from _receive_gradients(phase, step, views, b)
        optimiser.zero_grad()
        views.backward(gradients)  # type: ignore[no-untyped-call]
        set_learning_rate(optimiser, learning_rate(config, step))
        optimiser.step()
        tell_step(run.observe, phase.name, step, config.steps)
    return encoder


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Batch:
    """A step's input (b + e, f) with its noise, the first b = `aligned` rows of aligned people, and its generator."""

    noisy: Tensor
    aligned: int
    generator: torch.Generator


def _batch(phase: Phase, run: Run, encoder: ViewEncoder, features: Features, step: int) -> _Batch:
    """What a step needs that doesn't depend on the encoders' parameters."""
    aligned = run.rows("aligned", len(features.aligned), run.config.aligned_batch, step)
    alone = run.rows("passive only", len(features.alone), run.config.alone_batch, step)
    generator = run.generator(f"{phase.name} step {step}")
    rows = torch.cat([features.aligned[aligned], features.alone[alone]])
    return _Batch(noisy=encoder.noisy(rows, generator), aligned=len(aligned), generator=generator)


def _receive_gradients(phase: Phase, step: int, views: Tensor, b: int) -> Program[Tensor]:
    """The gradients, (b + e, view width), of a step's views, the first b of aligned rows."""
    answer = yield from receive(ACTIVE, phase.gradients)
    what = f"{phase.gradients.__name__} from {ACTIVE}, step {step}"
    expect_number(answer.step, step, what)
    aligned = received(answer.aligned, (b, views.shape[1]), what)
    alone = received(answer.alone, (len(views) - b, views.shape[1]), what)
    return torch.cat([aligned, alone])


@torch.no_grad()
def _memory(run: Run, encoder: ViewEncoder, features: Features, step: int) -> MemoryViews:
    """Views of all aligned rows and common representations of this refresh's pool, in evaluation form."""
    refresh = -(-step // run.config.memory_every)
    pool = run.rows("passive pool", len(features.alone), run.config.memory_pool, refresh)
    common = encoder.common(features.alone[pool])
    return MemoryViews(step, to_array(encoder(features.aligned).joined()), to_array(common))


def _send_test_views(
    phase: Phase, config: FedCVTConfig, encoder: ViewEncoder, features: Tensor
) -> Program[None]:
    for part in chunks(len(features), config.max_aligned_test, config.evaluation_batch):
        yield Send(ACTIVE, phase.test(part.start, _views(encoder, features[part])))


def _send_alone_views(config: FedCVTConfig, encoder: ViewEncoder, features: Tensor) -> Program[None]:
    total = len(features)
    parts = chunks(total, config.max_passive_only, config.evaluation_batch)
    for part in parts or [slice(0, 0)]:  # with nobody there, one empty message says so
        yield Send(ACTIVE, AloneViews(part.start, total, _views(encoder, features[part])))


@torch.no_grad()
def _views(encoder: ViewEncoder, features: Tensor) -> NDArray[np.float32]:
    return to_array(encoder(features).joined())


def _outcome(groups: Groups, artifacts: dict[str, NDArray[np.generic]]) -> Outcome:
    people = {
        "aligned_train": len(groups.aligned_train),
        "aligned_test": len(groups.aligned_test),
        "passive_only": len(groups.alone),
    }
    rows = {
        "rows.aligned_train": groups.aligned_train,
        "rows.aligned_test": groups.aligned_test,
        "rows.passive_only": groups.alone,
    }
    return Outcome(report={"groups": people}, artifacts={**artifacts, **alignment_artifacts(groups), **rows})
