"""The plain early stop by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from horizontal.average import Contribution
from horizontal.early_stop import START, overfitting


def sent(*losses: tuple[float, float, float], examples: tuple[int, ...] = (30, 10)) -> list[Contribution]:
    return [
        Contribution(client=str(n), examples=n, arrays={}, extras={"losses": np.array(three)})
        for n, three in zip(examples, losses, strict=True)
    ]


def test_losses_are_means_over_rows() -> None:
    # training (30 * 1 + 10 * 2)/40, validation (1 * 4 + 3 * 8)/4
    now = overfitting(START, sent((1.0, 4.0, 1.0), (2.0, 8.0, 3.0)), None)
    assert now.tolist() == [1.25, 7.0, 0.0]
    assert overfitting(START, sent((1.0, 4.0, 1.0), (2.0, 8.0, 3.0)), 0.5).tolist() == [1.25, 0.5, 0.0]


@pytest.mark.parametrize(
    ("training", "validation", "rounds"), [(0.9, 2.1, 5.0), (1.1, 2.1, 0.0), (0.9, 1.9, 0.0), (1.0, 2.0, 0.0)]
)
def test_only_rising_validation_and_falling_training_count_in_a_row(training, validation, rounds) -> None:
    before = np.array([1.0, 2.0, 4.0])
    now = overfitting(before, sent((training, validation, 1.0), (training, validation, 1.0)), None)
    assert now[2] == rounds


def test_without_validation_rows_nothing_is_said() -> None:
    now = overfitting(np.array([1.0, 2.0, 4.0]), sent((0.5, 0.0, 0.0), (0.5, 0.0, 0.0)), None)
    assert math.isnan(now[1])
    assert now[2] == 0.0
