"""The active party's program of a FedCVT run, and with it the protocol of both.

Messages in order (A active, P passive):

1. `PsiRequest`, `PsiSetup`, `PsiResponse`, `PsiMatches`, `PsiSecret`: the alignment with A as client, see
   `protocols.psi`. Both learn who is common and how many people the other has.
2. `Splits` both ways: the split of every common person. Both learn which common people the other
   trains on; a person whose splits differ is left out. Too few aligned training rows end the run here, at both.
3. FedCVT training. Every `memory_every` steps `MemoryViews` P -> A: P's views of all aligned training rows, and its
   common representations of a pool of passive-only rows. Each step `PassiveViews` P -> A, P's views of the
   step's rows, then `ViewGradients` A -> P, the loss's gradients in them. Which rows a step uses follows from the
   public seed and the group sizes, never from labels. A learns representations, from which features can
   partly be inferred; P learns gradients, from which labels can partly be inferred.
4. Evaluation. A last `MemoryViews`, then `TestViews` P -> A: P's views of the aligned test rows. With `final_vote`,
   `AloneViews` P -> A: P's views of all its passive-only rows, which A's heads vote on. A learns how many they are.
5. With `baselines`, the aligned-only network, as 3 and 4 without memory and alone rows: `BaselineViews`,
   `BaselineGradients`, `BaselineTestViews`. The active-alone model needs no message.

Labels, pseudo labels, losses, heads and metrics never leave A; features, encoders and keys of other people never
leave their party. What A knows at the end is in its Outcome: the report may be released, the artifacts stay.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from protocols.errors import DataMissingError
from protocols.program import Checkpoint, Json, Observe, Outcome, Program
from protocols.psi import ALONE, Crew, psi_client
from protocols.seeds import PrivateSeed
from vertical.active_messages import PASSIVE, exchange_step, receive_memory, receive_test_views, receive_votes
from vertical.active_side import ActiveSide, Labels, train_active_alone
from vertical.baselines import aligned_only_config
from vertical.config import FedCVTConfig
from vertical.groups import Groups, exchange_groups
from vertical.manifest import ANY_ROWS, BlockRows, psi_terms
from vertical.messages import ALIGNED_ONLY, FEDCVT, Phase
from vertical.model import ActivePart
from vertical.results import (
    PseudoCount,
    active_alone_scores,
    aligned_only_scores,
    alignment_artifacts,
    group_sizes,
    loss_curve,
    model_artifacts,
    row_artifacts,
    situation_scores,
    vote_artifacts,
)
from vertical.table import PartyData
from vertical.training import (
    Features,
    Run,
    State,
    is_checkpoint,
    is_refresh,
    pack_training,
    restore_training,
    silent,
    tell_step,
)
from vertical.views import Memory


def active_program(
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
    """The run as the party with labels sees it; its Outcome has the metrics and this party's part of the model.

    `rows` are the published rows of both blocks, from which the alignment's bounds follow; `crew` helps it.
    `resume` is the state of a checkpoint of this program; the passive party must resume at the same step.
    Raises DataMissingError without labels, OverlapError before training if too few people are common, ProtocolError
    for a message out of turn.
    """
    run = Run(config, public_seed, private_seed, observe)
    _check_labels(data)
    align = _align(data, run, rows, crew)
    groups = (yield from align) if resume is None else Groups.unpack(resume)
    return (yield from train_and_evaluate(data, groups, run, resume))


def train_and_evaluate(
    data: PartyData, groups: Groups, run: Run, resume: State | None = None
) -> Program[Outcome]:
    """The run from message 3 on, for groups that are known already."""
    config = run.config
    features, labels = Features.of(data, groups, config.scaling, config.active_view), _labels(data, groups)

    side = ActiveSide.start(run, FEDCVT.name, features, labels)
    losses, pseudo = yield from _train(FEDCVT, side, groups, resume)
    memory = yield from receive_memory(side, config.steps)
    part = ActivePart(
        config=config,
        rules=features.rules,
        model=side.model,
        memory=memory,
        classes=labels.classes,
        tag=groups.tag,
    )
    predictor = part.predictor(filling=True)
    test = yield from receive_test_views(FEDCVT, side)
    methods = {"fedcvt": situation_scores(predictor, side.test_views(), test, labels)}
    curves = {"fedcvt": _curve(side, losses)}
    artifacts = part.pack()
    passive_only = None
    if config.final_vote:
        votes = yield from receive_votes(predictor)
        passive_only = len(votes.label)
        pseudo = PseudoCount(int(votes.accepted.sum()), passive_only)
        artifacts |= vote_artifacts(votes)

    if config.baselines:
        plain = run.with_config(aligned_only_config(config))
        aligned = ActiveSide.start(plain, ALIGNED_ONLY.name, features.aligned_only(), labels.aligned_only())
        losses, _ = yield from _train(ALIGNED_ONLY, aligned, groups, None)
        test = yield from receive_test_views(ALIGNED_ONLY, aligned)
        alone = train_active_alone(run, features, labels)
        methods |= {
            "aligned_only": aligned_only_scores(aligned, test),
            "active_alone": active_alone_scores(alone),
        }
        curves |= {"aligned_only": _curve(aligned, losses)}
        artifacts |= {**model_artifacts(aligned), **model_artifacts(alone)}
    report: dict[str, Json] = {
        "groups": group_sizes(groups, passive_only),
        "methods": methods,
        "pseudo_labels": pseudo.report(),
        "loss": curves,
    }
    return Outcome(report, {**artifacts, **alignment_artifacts(groups), **row_artifacts(groups)})


def _curve(side: ActiveSide, losses: list[float]) -> Json:
    """The loss curve with this party's people behind it: in the whole training, and in one step."""
    aligned, alone = len(side.features.aligned), len(side.features.alone)
    config = side.run.config
    step = min(aligned, config.aligned_batch) + min(alone, config.alone_batch)
    return loss_curve(losses, aligned + alone, step)


def _check_labels(data: PartyData) -> None:
    if data.labels is None or len(data.classes) < 2:
        raise DataMissingError(
            f"the active party's block has labels of {len(data.classes)} classes, at least 2 are needed",
            remedy="name the label's column when adding the block",
        )


def _align(data: PartyData, run: Run, rows: BlockRows, crew: Crew) -> Program[Groups]:
    terms = psi_terms(run.config, rows)
    alignment = yield from psi_client(
        data.keys, PASSIVE, run.private_seed, terms, crew=crew, observe=run.observe
    )
    return (yield from exchange_groups(data, alignment, run.config, run.private_seed, peer=PASSIVE))


def _labels(data: PartyData, groups: Groups) -> Labels:
    assert data.labels is not None
    return Labels(
        aligned=torch.tensor(data.labels[groups.aligned_train]),
        alone=torch.tensor(data.labels[groups.alone]),
        test=torch.tensor(data.labels[groups.aligned_test]),
        classes=data.classes,
    )


def _train(
    phase: Phase, side: ActiveSide, groups: Groups, resume: State | None
) -> Program[tuple[list[float], PseudoCount]]:
    """One training: the loss of every step, and the pseudo labels of the last steps."""
    config, n = side.run.config, len(side.features.aligned)
    memory, start = Memory.blank(config, n), 0
    losses: list[float] = []
    if resume is not None:
        restore_training(side.model, side.optimiser, resume)
        start, losses = int(resume["at"]), resume["losses"].tolist()
    pseudo = PseudoCount(0, 0)
    for step in range(start, config.steps):
        if phase.memory and step > start and is_checkpoint(config, step):
            yield Checkpoint(step, _state(step, side, groups, losses))
        if phase.memory and is_refresh(config, step):
            memory = yield from receive_memory(side, step)
            pseudo = PseudoCount(0, 0)
        result = yield from exchange_step(phase, side, step, memory)
        losses.append(float(result.total.detach()))
        pseudo = pseudo.plus(result.accepted, result.candidates)
        tell_step(side.run.observe, phase.name, step, config.steps, losses)
    return losses, pseudo


def _state(
    step: int, side: ActiveSide, groups: Groups, losses: list[float]
) -> dict[str, NDArray[np.generic]]:
    return {
        "at": np.array(step),
        "losses": np.array(losses),
        **groups.pack(),
        **pack_training(side.model, side.optimiser),
    }
