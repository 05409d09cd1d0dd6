"""The trainings of a run in order: one for each candidate and fold, then the final one on all rows.

Both parties derive the same list from the settings, the public seed and the number n of aligned training rows. All
trainings use equally many rows and steps, so that the messages of the search are those of the final training.
Steps are counted through the run: the first step of a training is number `first`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vertical.baselines import aligned_only_config
from vertical.config import FedCVTConfig
from vertical.folds import Fold, aligned_folds, everyone, fold_count, kept_rows
from vertical.messages import ALIGNED_ONLY, FEDCVT, Choice, Phase

FRACTIONS = (0.6, 0.8, 1.0)
"""Shares of the steps after which a training of the search is evaluated."""
LEAST_USE = 0.91
"""Share of the approved steps that a run takes at least: a rehearsal asks for nine tenths of the bytes."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Training:
    """One training: `stop` steps of the schedule of its `config`, on the aligned rows that `fold` keeps.

    `name` keeps its randomness apart from that of other trainings, `title` is for those who watch. `points` are the
    numbers of steps after which the held-out rows are evaluated.
    """

    phase: Phase
    config: FedCVTConfig
    name: str
    title: str
    candidate: int
    fold: Fold
    fold_number: int = 0
    first: int
    stop: int
    points: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        """Steps of the run up to its end."""
        return self.first + self.stop

    def is_checkpoint(self, step: int) -> bool:
        """Whether the state is stored before `step`: the first and each `checkpoint_every` steps, never of a baseline.

        Rounded up to a refresh: a resumed run starts with one, so it must start where an unbroken run has one.
        """
        period = self.config.memory_every
        return self.phase.memory and step % (-(-self.config.checkpoint_every // period) * period) == 0

    def is_refresh(self, step: int) -> bool:
        """Whether the memory is sent before `step`; after the last one it always is. Never in a baseline."""
        return self.phase.memory and (step % self.config.memory_every == 0 or step == self.stop)

    def local_step(self, at: int) -> int:
        """The step of this training where step `at` of the run stands: 0 before it, `stop` after it."""
        return min(max(at - self.first, 0), self.stop)


def refresh_number(config: FedCVTConfig, step: int) -> int:
    """Which refresh of the memory the one before `step` is, from 0; each has a pool of its own."""
    return -(-step // config.memory_every)


def evaluation_points(config: FedCVTConfig) -> tuple[int, ...]:
    """Numbers of steps that a search compares, ascending; the last is `steps`.

    Each is a refresh of the memory, so that evaluating changes no training. With few trainings the early ones are left
    out: the manifest allows all steps, and a run that uses much less would have asked for too much.
    """
    searched = len(config.candidate_names) * config.folds
    if searched == 0 or not config.early_stopping:
        return (config.steps,)
    least = LEAST_USE * (searched + 1) - searched
    period = config.memory_every
    points = {-(-round(share * config.steps) // period) * period for share in FRACTIONS if share >= least}
    return tuple(sorted({*(point for point in points if point < config.steps), config.steps}))


def step_config(config: FedCVTConfig, aligned: int) -> FedCVTConfig:
    """The settings of every training between `aligned` common rows: no batch is larger than what a fold keeps."""
    kept = max(1, kept_rows(aligned, config.folds))
    return replace(config, aligned_batch=min(config.aligned_batch, kept))


def search_trainings(config: FedCVTConfig, public_seed: int, aligned: int) -> tuple[Training, ...]:
    """The trainings of the search, candidate by candidate; none without folds or with a single aligned row."""
    folds = aligned_folds(public_seed, aligned, config.folds)
    points = evaluation_points(config)
    cases = [(c, k) for c in range(len(config.candidate_names)) for k in range(len(folds))]
    trainings = []
    for index, (candidate, number) in enumerate(cases):
        name = config.candidate_names[candidate]
        trainings.append(
            Training(
                phase=FEDCVT,
                config=step_config(config.candidate(name), aligned),
                name=f"search {name} {number + 1}",
                title=f"search {name}, fold {number + 1} of {len(folds)}",
                candidate=candidate,
                fold=folds[number],
                fold_number=number,
                first=index * config.steps,
                stop=config.steps,
                points=points,
            )
        )
    return tuple(trainings)


def final_training(config: FedCVTConfig, aligned: int, choice: Choice) -> Training:
    """The training of the chosen candidate on all rows, for the chosen number of steps."""
    searched = len(config.candidate_names) * fold_count(aligned, config.folds)
    return Training(
        phase=FEDCVT,
        config=step_config(config.candidate(config.candidate_names[choice.candidate]), aligned),
        name=FEDCVT.name,
        title=FEDCVT.name,
        candidate=choice.candidate,
        fold=everyone(aligned),
        first=searched * config.steps,
        stop=choice.steps,
    )


def baseline_training(final: Training) -> Training:
    """The aligned-only network with the settings of the `final` training."""
    config = aligned_only_config(final.config)
    return replace(
        final,
        phase=ALIGNED_ONLY,
        config=config,
        name=ALIGNED_ONLY.name,
        title=ALIGNED_ONLY.name,
        stop=config.steps,
    )


def first_choice(config: FedCVTConfig) -> Choice:
    """What is trained when nothing was compared: the first candidate, for all steps."""
    return Choice(0, config.steps)


def has_choice(config: FedCVTConfig, aligned: int) -> bool:
    """Whether a run compares anything, so that the active party has to tell its choice."""
    options = len(config.candidate_names) * len(evaluation_points(config))
    return bool(config.folds) and aligned >= 2 and options > 1


def pack_choice(choice: Choice) -> dict[str, NDArray[np.generic]]:
    """The choice as an array, for a checkpoint of the final training."""
    return {"choice": np.array([choice.candidate, choice.steps], dtype=np.int64)}


def unpack_choice(state: Mapping[str, NDArray[np.generic]]) -> Choice | None:
    """The choice of `pack_choice`; None in a state of the search."""
    return Choice(*state["choice"].tolist()) if "choice" in state else None
