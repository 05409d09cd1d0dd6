"""The passive party's program of a FedCVT run; `vertical.active` lists the messages of both and what each teaches."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from protocols.chunks import chunks
from protocols.errors import ProtocolError
from protocols.program import Observe, Outcome, Program, Send, receive, silent
from protocols.psi import ALONE, Crew, psi_server
from protocols.seeds import PrivateSeed
from vertical.arrays import Arrays, parameters, to_array
from vertical.components import Components, fit_components
from vertical.config import FedCVTConfig
from vertical.encoders import ViewEncoder
from vertical.groups import Groups, exchange_groups
from vertical.manifest import ANY_ROWS, BlockRows, psi_terms
from vertical.messages import ALIGNED_ONLY, FEDCVT, AloneViews, Choice, LinearViews, Phase
from vertical.model import PassivePart
from vertical.passive_training import train
from vertical.results import alignment_artifacts
from vertical.roles import ACTIVE
from vertical.schedule import (
    baseline_training,
    evaluation_points,
    final_training,
    first_choice,
    has_choice,
    pack_choice,
    search_trainings,
    unpack_choice,
)
from vertical.table import PartyData
from vertical.training import Features, Run


def passive_program(
    data: PartyData,
    config: FedCVTConfig,
    public_seed: int,
    private_seed: PrivateSeed,
    observe: Observe = silent,
    *,
    resume: Arrays | None = None,
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
    data: PartyData, groups: Groups, run: Run, resume: Arrays | None = None
) -> Program[Outcome]:
    """The run after the alignment, for groups that are known already."""
    config, n = run.config, len(groups.aligned_train)
    features = Features.of(data, groups, config, config.passive_view)
    components = fit_components(to_array(features.training()), config.linear_views)
    if resume is None:
        yield from _send_linear_views(config, components, features)

    for training in search_trainings(config, run.public_seed, n):
        if resume is None or training.end > int(resume["at"]):
            yield from train(training, run, features, groups.pack(), resume)
    choice = yield from _hear_choice(config, n, resume)
    final = final_training(config, n, choice)
    encoder = yield from train(final, run, features, {**groups.pack(), **pack_choice(choice)}, resume)

    yield from _send_test_views(FEDCVT, config, encoder, features.test)
    if config.final_vote:
        yield from _send_alone_views(config, encoder, features.alone)
    part = PassivePart(
        config=final.config, rules=features.rules, encoder=encoder, components=components, tag=groups.tag
    )
    artifacts = part.pack()
    if config.baselines:
        encoder = yield from train(baseline_training(final), run, features.aligned_only(), {}, None)
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


def _send_linear_views(config: FedCVTConfig, components: Components, features: Features) -> Program[None]:
    """What of this party's features the active party's linear experts read, in parts; no label entered them."""
    if config.linear_views == 0:
        return
    rows = to_array(torch.cat([features.aligned, features.test]))
    sent = components.padded(rows, config.linear_views)
    bound = config.max_aligned_train + config.max_aligned_test
    for part in chunks(len(rows), bound, config.evaluation_batch):
        yield Send(ACTIVE, LinearViews(part.start, sent[part]))


def _hear_choice(config: FedCVTConfig, aligned: int, resume: Arrays | None) -> Program[Choice]:
    """The candidate and the number of steps of the final training; ProtocolError for one that wasn't compared."""
    if resume is not None and (told := unpack_choice(resume)) is not None:
        return told
    if not has_choice(config, aligned):
        return first_choice(config)
    choice = yield from receive(ACTIVE, Choice)
    if not 0 <= choice.candidate < len(config.candidate_names) or choice.steps not in evaluation_points(
        config
    ):
        raise ProtocolError(
            f"{ACTIVE} chose candidate {choice.candidate} after {choice.steps} steps, which the search didn't compare"
        )
    return choice


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
    rows = {
        "aligned_train": groups.aligned_train,
        "aligned_test": groups.aligned_test,
        "passive_only": groups.alone,
    }
    kept = {f"rows.{name}": each for name, each in rows.items()}
    return Outcome(
        report={"groups": {name: len(each) for name, each in rows.items()}},
        artifacts={**artifacts, **alignment_artifacts(groups), **kept},
        people={f"people.{name}": each for name, each in rows.items()},
    )
