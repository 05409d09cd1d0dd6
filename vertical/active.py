"""The active party's program of a FedCVT run, and with it the protocol of both.

Messages in order (A active, P passive):

1. `PsiRequest`, `PsiSetup`, `PsiResponse`, `PsiMatches`, `PsiSecret`: the alignment with A as client, see
   `protocols.psi`. Both learn who is common and how many people the other has.
2. `Splits` both ways: the split of every common person. Both learn which common people the other
   trains on; a person whose splits differ is left out. Too few aligned training rows end the run here, at both.
3. `LinearViews` P -> A: principal components of P's features of all aligned rows, for A's linear experts. A learns of
   these people what the components say, which can be most of P's features up to a rotation; P learns nothing: a
   regression split between the two would have told P the sign of every label.
4. FedCVT training. Every `memory_every` steps and at the end `MemoryViews` P -> A: P's views of all aligned training
   rows, and its common representations of a pool of passive-only rows. Each step `PassiveViews` P -> A, P's views of
   the step's rows, then `ViewGradients` A -> P, the loss's gradients in them. Which rows a step uses follows from the
   public seed and the group sizes, never from labels. A learns representations, from which features can
   partly be inferred; P learns gradients, from which labels can partly be inferred.
   With `folds` it happens once for each candidate and fold, with the fold's people left out of the steps (the search),
   and then once more on all rows. Between the two `Choice` A -> P: the best candidate and number of steps on the
   people left out, two small numbers of which P learns that they fit A's labels best. Then P waits while A fits its
   linear experts and trains a network of its own.
5. Evaluation. `TestViews` P -> A: P's views of the aligned test rows. With `final_vote`,
   `AloneViews` P -> A: P's views of all its passive-only rows, which A's heads vote on. A learns how many they are.
6. With `baselines`, the aligned-only network, as 4 and 5 without search, memory and alone rows: `BaselineViews`,
   `BaselineGradients`, `BaselineTestViews`.

Labels, pseudo labels, losses, heads and metrics never leave A; features, encoders and keys of other people never
leave their party. What A knows at the end is in its Outcome: the report may be released, the artifacts stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from protocols.errors import DataMissingError
from protocols.program import Json, Observe, Outcome, Program, Send, silent
from protocols.psi import ALONE, Crew, psi_client
from protocols.seeds import PrivateSeed
from vertical.active_messages import receive_linear_views, receive_test_views, receive_votes
from vertical.active_side import ActiveSide, Labels
from vertical.active_training import Trained, train
from vertical.arrays import Arrays
from vertical.config import FedCVTConfig
from vertical.ensemble import Known
from vertical.groups import Groups, exchange_groups
from vertical.manifest import ANY_ROWS, BlockRows, psi_terms
from vertical.messages import ALIGNED_ONLY, FEDCVT, Choice
from vertical.model import ActivePart
from vertical.own_network import uses_own_network
from vertical.own_training import OwnExpert, own_expert
from vertical.pooling import ExpertPool, fit_linear, fit_pools
from vertical.predict import Situation
from vertical.results import (
    Baselines,
    active_network_scores,
    aligned_network_scores,
    alignment_artifacts,
    group_sizes,
    loss_curve,
    method_scores,
    model_artifacts,
    pseudo_report,
    row_artifacts,
    told_people,
    vote_artifacts,
)
from vertical.roles import PASSIVE
from vertical.schedule import (
    Training,
    baseline_training,
    final_training,
    has_choice,
    pack_choice,
    unpack_choice,
)
from vertical.search import Search
from vertical.search_report import pool_report, search_report
from vertical.table import PartyData
from vertical.training import Features, Run
from vertical.vote import Vote


def active_program(
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
    data: PartyData, groups: Groups, run: Run, resume: Arrays | None = None
) -> Program[Outcome]:
    """The run from message 3 on, for groups that are known already."""
    features, labels = Features.of(data, groups, run.config, run.config.active_view), _labels(data, groups)
    fitted = yield from _fit(groups, run, features, labels, resume)
    return (yield from _evaluate(groups, fitted))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Fitted:
    """What the search and the final training leave; components (n + t, w) of the aligned training and test rows."""

    search: Search
    choice: Choice
    components: NDArray[np.float32]
    network: OwnExpert | None
    pools: Mapping[Situation, ExpertPool]
    final: Training
    trained: Trained
    part: ActivePart


def _fit(
    groups: Groups, run: Run, features: Features, labels: Labels, resume: Arrays | None
) -> Program[_Fitted]:
    """Messages 3 and 4: the search, the experts that need no message, and the final training."""
    config, n = run.config, len(groups.aligned_train)
    components = yield from _components(config, groups, resume)
    search = Search.start(run, features, labels, resume)

    def keep() -> Arrays:
        return {**groups.pack(), "components": components, **search.pack()}

    yield from search.explore(keep, resume)
    choice = yield from _choose(search, n, resume)
    linear, held_out = fit_linear(search, components[:n])
    network = own_expert(search, choice, resume or {}) if uses_own_network(config) else None
    pools = fit_pools(search, choice, held_out, network)
    found = {**pack_choice(choice), **(network.pack() if network else {})}
    final, temperatures = final_training(config, n, choice), search.temperatures(choice)
    side = ActiveSide.start(run.with_config(final.config), final.name, features, labels, temperatures)
    trained = yield from train(final, side, lambda: {**keep(), **found}, resume)
    part = ActivePart(
        config=final.config,
        rules=features.rules,
        model=side.model,
        memory=trained.memory,
        temperatures=temperatures,
        linear=linear,
        network=network.network if network else None,
        mixtures={situation: pool.mixture for situation, pool in pools.items()},
        classes=labels.classes,
        tag=groups.tag,
    )
    return _Fitted(
        search=search,
        choice=choice,
        components=components,
        network=network,
        pools=pools,
        final=final,
        trained=trained,
        part=part,
    )


def _evaluate(groups: Groups, fitted: _Fitted) -> Program[Outcome]:
    """Messages 5 and 6, and the report."""
    search, part, network, trained = fitted.search, fitted.part, fitted.network, fitted.trained
    run, features, labels, side = search.run, search.features, search.labels, trained.side
    test = yield from receive_test_views(FEDCVT, side)
    own = Known(side.test_views(), features.test.numpy().astype(np.float64))
    other = Known(test, fitted.components[len(groups.aligned_train) :].astype(np.float64))
    methods = method_scores(part.ensemble(filling=True), own, other, labels)
    votes = (yield from _vote(part, side)) if run.config.final_vote else {}
    baselines = Baselines()
    if run.config.baselines:
        baselines = yield from _baselines(fitted.final, run, features, labels)
        if network is not None:
            methods["active_alone_network"] = active_network_scores(network.network, features, labels)
    report: dict[str, Json] = {
        "groups": group_sizes(groups, len(votes["passive_only"].label) if votes else None),
        "methods": {**methods, **baselines.methods},
        "experts": pool_report(fitted.pools, labels.classes),
        "pseudo_labels": pseudo_report(votes or {"passive_only": trained.vote}, groups),
        "loss": {"fedcvt": _curve(trained), **baselines.curves},
        **search_report(search, fitted.choice, network),
    }
    artifacts = {**part.pack(), **vote_artifacts(votes), **baselines.artifacts}
    kept = {**alignment_artifacts(groups), **row_artifacts(groups)}
    return Outcome(report, {**artifacts, **kept}, told_people(groups, labels))


def _components(config: FedCVTConfig, groups: Groups, resume: Arrays | None) -> Program[NDArray[np.float32]]:
    """The passive party's principal components of the aligned training and test rows, in this order."""
    if resume is not None:
        return resume["components"].astype(np.float32)
    rows = len(groups.aligned_train) + len(groups.aligned_test)
    components = yield from receive_linear_views(config, rows)
    return components


def _choose(search: Search, aligned: int, resume: Arrays | None) -> Program[Choice]:
    """The configuration of the final training, which the passive party is told if there was a choice."""
    if resume is not None and (told := unpack_choice(resume)) is not None:
        return told
    choice = search.choose()
    if has_choice(search.run.config, aligned):
        yield Send(PASSIVE, choice)
    return choice


def _vote(part: ActivePart, side: ActiveSide) -> Program[dict[str, Vote]]:
    """The final votes on all passive-only people and on this party's own people without a label, by group."""
    voter, labels, features = part.predictor(filling=True), side.labels, side.features
    votes = {"passive_only": (yield from receive_votes(voter))}
    aligned, alone = labels.aligned < 0, labels.alone < 0
    if bool(aligned.any() or alone.any()):
        with torch.no_grad():
            common, others = (
                side.model.encoder(rows) for rows in (features.aligned[aligned], features.alone[alone])
            )
        votes["aligned"] = voter.vote(common, voter.memory.passive_aligned().take(aligned))
        votes["active_only"] = voter.vote(others, None)
    return votes


def _baselines(final: Training, run: Run, features: Features, labels: Labels) -> Program[Baselines]:
    """Message 6."""
    training = baseline_training(final)
    plain = run.with_config(training.config)
    aligned = ActiveSide.start(plain, training.name, features.aligned_only(), labels.aligned_only())
    trained = yield from train(training, aligned, dict, None)
    test = yield from receive_test_views(ALIGNED_ONLY, aligned)
    return Baselines(
        methods={"aligned_only_network": aligned_network_scores(aligned, test)},
        curves={"aligned_only_network": _curve(trained)},
        artifacts=model_artifacts(aligned),
    )


def _curve(trained: Trained) -> Json:
    """The loss curve with this party's people behind it: in the whole training, and in one step."""
    side = trained.side
    aligned, alone = len(side.features.aligned), len(side.features.alone)
    config = side.run.config
    step = min(aligned, config.aligned_batch) + min(alone, config.alone_batch)
    return loss_curve(trained.losses, aligned + alone, step)


def _check_labels(data: PartyData) -> None:
    if data.labels is None or len(data.classes) < 2:
        raise DataMissingError(
            f"different labels in the active party's block: {len(data.classes)}, at least 2 are needed",
            remedy="name the label's column, one with two different values or more",
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
