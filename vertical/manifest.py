"""The release manifest of a FedCVT run: upper bounds that follow from the settings and the published row counts.

No torch: a request is made and reviewed without it. Bounds are those of the largest possible run: `max_common` people
in common, of whom `max_aligned_train` and `max_aligned_test` are used, and `max_passive_only` others. A run with these
numbers fills every bound but for rounding; one with fewer people fills less.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from protocols.psi import UNBOUNDED, PsiTerms, psi_manifest
from protocols.releases import floats, parts, release
from protocols.request import Release
from vertical.config import FedCVTConfig
from vertical.messages import (
    ALIGNED_ONLY,
    FEDCVT,
    AloneViews,
    Choice,
    LinearViews,
    MemoryViews,
    Phase,
    Splits,
)
from vertical.roles import ACTIVE, PASSIVE
from vertical.schedule import evaluation_points, has_choice, search_trainings, step_config

BlockRows: TypeAlias = tuple[int, int]
"""Published upper bounds of the rows of the active and of the passive block."""
ANY_ROWS: BlockRows = (UNBOUNDED, UNBOUNDED)
"""For a run without a manifest."""


def psi_terms(config: FedCVTConfig, rows: BlockRows) -> PsiTerms:
    """The terms of the run's alignment between such blocks, the same for its programs and its manifest."""
    active, passive = rows
    return PsiTerms(
        client_rows=active,
        server_rows=passive,
        bucket=config.size_bucket,
        least=config.minimum_overlap,
        most=config.max_common,
    )


def manifest(config: FedCVTConfig, active_rows: int, passive_rows: int) -> tuple[Release, ...]:
    """All releases of a run between blocks of at most these many rows."""
    common = min(config.max_common, active_rows, passive_rows)
    train, test = min(config.max_aligned_train, common), min(config.max_aligned_test, common)
    alone = min(config.max_passive_only, passive_rows)
    batch = step_config(config, train).aligned_batch
    trainings = len(search_trainings(config, 0, train)) + 1
    releases = [
        *psi_manifest(ACTIVE, PASSIVE, psi_terms(config, (active_rows, passive_rows))),
        *_splits(common),
        *_linear(config, min(train + test, common)),
        _memory(config, train, alone, trainings),
        *_phase(FEDCVT, config, (config.steps, trainings), min(batch, train), min(config.alone_batch, alone)),
        *_choice(config, train),
        *_test(FEDCVT, config, test),
    ]
    if config.final_vote:
        releases.append(_alone(config, alone))
    if config.baselines:
        releases += _phase(ALIGNED_ONLY, config, (config.baseline_steps, 1), min(batch, train), 0)
        releases += _test(ALIGNED_ONLY, config, test)
    return tuple(releases)


def _splits(common: int) -> list[Release]:
    largest = Splits(np.zeros(common, np.uint8))
    learns = "which common people the sender trains, validates and tests on"
    return [
        release(largest, sender, receiver, 1, learns)
        for sender, receiver in ((ACTIVE, PASSIVE), (PASSIVE, ACTIVE))
    ]


def _linear(config: FedCVTConfig, rows: int) -> list[Release]:
    """One release, or none without linear experts."""
    if config.linear_views == 0:
        return []
    length, messages = parts(
        rows, config.max_aligned_train + config.max_aligned_test, config.evaluation_batch
    )
    largest = LinearViews(length * (messages - 1), floats(length, config.linear_views))
    learns = (
        "principal components of the passive party's features of all aligned people, which can be most of these"
        " features up to a rotation"
    )
    return [release(largest, PASSIVE, ACTIVE, messages, learns)]


def _choice(config: FedCVTConfig, train: int) -> list[Release]:
    """One release, or none when nothing is compared."""
    if not has_choice(config, train):
        return []
    compared = len(config.candidate_names) * len(evaluation_points(config))
    learns = (
        f"which of {compared} configurations and numbers of steps predicts the labels of held-out people best,"
        f" after {len(search_trainings(config, 0, train))} trainings with held-out people"
    )
    return [release(Choice(len(config.candidate_names) - 1, config.steps), ACTIVE, PASSIVE, 1, learns)]


def _memory(config: FedCVTConfig, train: int, alone: int, trainings: int) -> Release:
    largest = MemoryViews(
        config.steps,
        floats(train, config.passive_view.width),
        floats(min(config.memory_pool, alone), config.d),
    )
    refreshes = -(-config.steps // config.memory_every) + 1
    learns = (
        "representations of all aligned training people and, in part, of a pool of passive-only people;"
        " features can partly be inferred from representations"
    )
    return release(largest, PASSIVE, ACTIVE, refreshes * trainings, learns)


def _phase(
    phase: Phase, config: FedCVTConfig, steps_of: tuple[int, int], aligned: int, alone: int
) -> list[Release]:
    """`steps_of`: steps of a training, and number of trainings."""
    steps, trainings = steps_of
    arrays = (floats(aligned, config.passive_view.width), floats(alone, config.passive_view.width))
    views, gradients = phase.views(steps - 1, *arrays), phase.gradients(steps - 1, *arrays)
    return [
        release(
            views,
            PASSIVE,
            ACTIVE,
            steps * trainings,
            "representations of the step's people; features can partly be inferred from them",
        ),
        release(
            gradients,
            ACTIVE,
            PASSIVE,
            steps * trainings,
            "gradients of the loss in these representations; labels can partly be inferred from them",
        ),
    ]


def _test(phase: Phase, config: FedCVTConfig, test: int) -> list[Release]:
    """One release, or none if there are no test people."""
    if test == 0:
        return []
    length, messages = parts(test, config.max_aligned_test, config.evaluation_batch)
    largest = phase.test(length * (messages - 1), floats(length, config.passive_view.width))
    return [release(largest, PASSIVE, ACTIVE, messages, "representations of the aligned test people")]


def _alone(config: FedCVTConfig, alone: int) -> Release:
    length, messages = parts(alone, config.max_passive_only, config.evaluation_batch)
    largest = AloneViews(length * (messages - 1), alone, floats(length, config.passive_view.width))
    learns = "how many passive-only people there are, and the representations of all of them"
    return release(largest, PASSIVE, ACTIVE, messages, learns)
