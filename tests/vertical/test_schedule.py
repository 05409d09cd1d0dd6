"""The trainings of a run: how many, in which order, on which rows, and when their state is stored."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.vertical.runs import SMALL
from vertical.choices import EncoderKind
from vertical.config import FedCVTConfig
from vertical.messages import ALIGNED_ONLY, Choice
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

SEARCH = replace(SMALL, candidates="linear,small", folds=3, steps=100, memory_every=20, checkpoint_every=50)


def test_one_training_per_candidate_and_fold_and_then_the_final_one() -> None:
    trainings = search_trainings(SEARCH, 5, 40)
    assert [training.title for training in trainings] == [
        f"search {name}, fold {number} of 3" for name in ("linear", "small") for number in (1, 2, 3)
    ]
    assert [training.first for training in trainings] == [0, 100, 200, 300, 400, 500]
    assert len({training.name for training in trainings}) == 6
    assert [training.config.encoder for training in trainings] == [EncoderKind.LINEAR] * 3 + [
        EncoderKind.MLP
    ] * 3
    final = final_training(SEARCH, 40, Choice(1, 60))
    assert (final.first, final.stop, final.end) == (600, 60, 660)
    assert final.config.encoder is EncoderKind.MLP
    assert final.config.steps == 100  # the learning rate falls as it did in the search
    assert final.fold.kept.tolist() == list(range(40))
    baseline = baseline_training(final)
    assert (baseline.phase, baseline.stop) == (ALIGNED_ONLY, SEARCH.baseline_steps)


def test_every_training_takes_equally_many_rows_a_step() -> None:
    """With 10 rows each fold keeps 7 (10 - 10 // 3): so does a step of the final training."""
    config = replace(SEARCH, aligned_batch=256)
    trainings = [*search_trainings(config, 5, 10), final_training(config, 10, first_choice(config))]
    assert {training.config.aligned_batch for training in trainings} == {7}
    assert {len(training.fold.kept) for training in trainings[:-1]} == {7}
    held = np.concatenate([training.fold.held for training in trainings[:3]])
    assert len(set(held.tolist())) == 9


@pytest.mark.parametrize("aligned", [0, 1])
def test_nothing_is_searched_without_a_row_to_hold_out_and_one_to_train_on(aligned: int) -> None:
    assert search_trainings(SEARCH, 5, aligned) == ()
    assert not has_choice(SEARCH, aligned)
    assert final_training(SEARCH, aligned, first_choice(SEARCH)).first == 0


def test_two_rows_are_two_folds() -> None:
    assert len(search_trainings(SEARCH, 5, 2)) == 4
    assert final_training(SEARCH, 2, first_choice(SEARCH)).first == 400


def test_without_folds_the_settings_stand_as_they_are() -> None:
    config = replace(SEARCH, folds=0, encoder=EncoderKind.MLP)
    assert search_trainings(config, 5, 40) == ()
    assert not has_choice(config, 40)
    final = final_training(config, 40, first_choice(config))
    assert (final.first, final.stop, final.config.encoder) == (0, 100, EncoderKind.MLP)
    assert evaluation_points(config) == (100,)


@pytest.mark.parametrize(
    ("changes", "points"),
    [
        ({}, (60, 80, 100)),
        ({"early_stopping": False}, (100,)),
        (
            {"candidates": "given"},
            (80, 100),
        ),  # 3 + .6 of 4 trainings would be 90 %, less a few bytes of headers
        ({"candidates": "given", "folds": 2}, (80, 100)),  # 2 + .8 of 3 are 93 %
        ({"memory_every": 25}, (75, 100)),  # .6 and .8 of the steps, rounded up to refreshes: 75, 100
        ({"memory_every": 64}, (64, 100)),  # 128 is beyond the end
        ({"steps": 7, "memory_every": 3}, (6, 7)),
        ({"steps": 1}, (1,)),
    ],
    ids=str,
)
def test_evaluation_points_are_refreshes_and_leave_nine_tenths_of_the_steps(changes, points) -> None:
    config = replace(SEARCH, **changes)
    assert evaluation_points(config) == points
    searched = len(config.candidate_names) * config.folds
    assert (searched * config.steps + points[0]) / ((searched + 1) * config.steps) >= 0.9
    assert all(point % config.memory_every == 0 for point in points[:-1])


def test_a_choice_needs_something_to_choose_from() -> None:
    assert has_choice(SEARCH, 40)
    alone = replace(SEARCH, candidates="linear")
    assert has_choice(alone, 40)
    assert not has_choice(replace(alone, early_stopping=False), 40)


def test_checkpoints_stand_at_the_start_of_a_training_and_at_refreshes() -> None:
    training = search_trainings(SEARCH, 5, 40)[1]  # 50 rounded up to refreshes, every 20
    assert [step for step in range(100) if training.is_checkpoint(step)] == [0, 60]
    assert [training.local_step(at) for at in (0, 100, 130, 200, 700)] == [0, 0, 30, 100, 100]
    assert not any(baseline_training(training).is_checkpoint(step) for step in range(4))


def test_the_choice_is_only_in_states_of_the_final_training() -> None:
    assert unpack_choice(pack_choice(Choice(2, 60))) == Choice(2, 60)
    assert unpack_choice({}) is None


def test_the_default_settings_search() -> None:
    config = FedCVTConfig()
    assert len(search_trainings(config, 0, 200)) == 6
    assert (
        len(search_trainings(replace(config, image_active="2x2"), 0, 200)) == 9
    )  # one more that is for images
    assert evaluation_points(config) == (240, 320, 400)
