"""The search at the active party: which configuration, trained for how long, predicts best who it hasn't seen.

Every candidate is trained once per fold by the ordinary programs, with the fold's rows held out: aligned ones that both
parties derive from the public seed, and active-only ones that the active party chooses by itself. It alone sees what
comes of it, and tells its choice in two small numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from protocols.program import Program
from vertical.active_side import ActiveSide, Labels
from vertical.active_training import Validate, train
from vertical.arrays import Arrays
from vertical.calibration import calibrated_loss, fit_temperature
from vertical.encoders import Representation
from vertical.folds import Fold, aligned_folds, fold_count, own_folds
from vertical.heads import HEADS
from vertical.messages import Choice
from vertical.out_of_fold import OutOfFold
from vertical.predict import SITUATIONS, Predictor, Situation
from vertical.schedule import Training, evaluation_points, first_choice, search_trainings
from vertical.table import Rows
from vertical.training import Features, Run
from vertical.views import Memory


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Search:
    """What the search works on, and what it has found: out-of-fold logits by candidate and number of steps.

    own: this party's own folds of its active-only rows; own_held: what they hold out together, ascending.
    """

    run: Run
    features: Features
    labels: Labels
    own: tuple[Fold, ...]
    own_held: Rows
    found: dict[tuple[int, int], OutOfFold]

    @classmethod
    def start(cls, run: Run, features: Features, labels: Labels, resume: Arrays | None) -> Search:
        """A search before its first training, or as far as a checkpoint has it. Without folds it finds nothing."""
        n, a = len(features.aligned), len(features.alone)
        folds = fold_count(n, run.config.folds)
        own = own_folds(run.private_seed, a, folds)
        own_held = np.sort(np.concatenate([np.zeros(0, np.int64), *(fold.held for fold in own)]))
        cases = [
            (candidate, point)
            for candidate in range(len(run.config.candidate_names) if folds else 0)
            for point in evaluation_points(run.config)
        ]
        return cls(
            run=run,
            features=features,
            labels=labels,
            own=own,
            own_held=own_held,
            found={
                case: OutOfFold.blank(n, len(own_held), len(labels.classes))
                if resume is None
                else OutOfFold.unpack(_prefix(case), resume)
                for case in cases
            },
        )

    def explore(self, keep: Callable[[], Arrays], resume: Arrays | None) -> Program[None]:
        """All trainings of the search that are not done yet."""
        for training in search_trainings(self.run.config, self.run.public_seed, len(self.features.aligned)):
            if resume is None or training.end > int(resume["at"]):
                side = self._side(training)
                yield from train(training, side, keep, resume, self._validation(training, side))

    def choose(self) -> Choice:
        """The candidate and the number of steps with the least loss; the first and the longest when nothing was found.

        Of equal ones the first candidate, and the longest training.
        """
        best, least = first_choice(self.run.config), float("inf")
        for candidate, steps in sorted(self.found, key=lambda case: (case[0], -case[1])):
            loss = self.loss(self.found[candidate, steps])
            if loss is not None and loss < least:
                best, least = Choice(candidate, steps), loss
        return best

    def loss(self, found: OutOfFold) -> float | None:
        """Mean over the situations, since the model serves all three (ours), of the calibrated joint head's loss.

        A situation without a labelled held-out row doesn't count; None if none has any.
        """
        losses = np.array([self._loss(found, situation) for situation in SITUATIONS])
        return None if np.isnan(losses).all() else float(np.nanmean(losses))

    def temperatures(self, choice: Choice) -> torch.Tensor:
        """The temperature of each head in each situation, (3, 3), fitted on held-out rows; 1 without."""
        result = torch.ones(len(SITUATIONS), len(HEADS))
        found = self.found.get((choice.candidate, choice.steps))
        if found is not None:
            for row, situation in enumerate(SITUATIONS):
                truth = self.truth(situation)
                for column, head in enumerate(HEADS):
                    result[row, column] = fit_temperature(found.logits(situation, head), truth)
        return result

    def folds(self) -> list[tuple[Fold, Fold]]:
        """Each fold of the aligned rows with this party's own of its active-only ones."""
        config, n = self.run.config, len(self.features.aligned)
        return list(zip(aligned_folds(self.run.public_seed, n, config.folds), self.own, strict=True))

    def truth(self, situation: Situation) -> NDArray[np.int64]:
        """The labels of the rows that `OutOfFold.logits` speaks of, -1 where missing."""
        labels = self.labels.aligned
        if situation == Situation.ACTIVE_ONLY:
            labels = torch.cat([labels, self.labels.alone[self.own_held]])
        truth: NDArray[np.int64] = labels.numpy()
        return truth

    def held_out_truth(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The labels of the aligned and of the active-only people that some fold held out."""
        found, n = next(iter(self.found.values())), len(self.features.aligned)
        said = np.isfinite(found.logits(Situation.ACTIVE_ONLY, "joint")).all(axis=1)
        truth = self.truth(Situation.ACTIVE_ONLY)
        return truth[:n][said[:n]], truth[n:][said[n:]]

    def pack(self) -> Arrays:
        """What has been found, for a checkpoint."""
        return {
            name: array
            for case, found in self.found.items()
            for name, array in found.pack(_prefix(case)).items()
        }

    def _side(self, training: Training) -> ActiveSide:
        """The active party's half of a training, without the rows that it holds out."""
        aligned, alone = training.fold.kept, self.own[training.fold_number].kept
        return ActiveSide.start(
            self.run.with_config(training.config),
            training.name,
            self.features.keep(aligned, alone),
            self.labels.keep(aligned, alone),
        )

    def _validation(self, training: Training, side: ActiveSide) -> Validate:
        held, own = training.fold.held, self.own[training.fold_number].held

        def validate(step: int, memory: Memory, passive: Representation) -> None:
            predictor = Predictor(config=training.config, heads=side.model.heads, memory=memory)
            with torch.no_grad():
                active = side.model.encoder(self.features.aligned[held])
                alone = side.model.encoder(self.features.alone[own])
            place = np.searchsorted(self.own_held, own)
            self.found[training.candidate, step].put(predictor, (held, active, passive), (place, alone))

        return validate

    def _loss(self, found: OutOfFold, situation: Situation) -> float:
        """Mean cross-entropy of the joint head at its best temperature; NaN without a labelled held-out row."""
        return calibrated_loss(found.logits(situation, "joint"), self.truth(situation))


def _prefix(case: tuple[int, int]) -> str:
    return f"found.{case[0]}.{case[1]}"
