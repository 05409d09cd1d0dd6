"""Agreement of a client's change with the mean change."""

from __future__ import annotations

import numpy as np
import pytest

from horizontal.average import Contribution
from horizontal.fedalign import agreement

RECEIVED = {"w": np.array([1.0, 1.0]), "seen": np.array(5)}


def moved(client: str, x: float, y: float, examples: int = 1) -> Contribution:
    return Contribution(
        client=client, examples=examples, arrays={"w": np.array([1.0 + x, 1.0 + y]), "seen": np.array(9)}
    )


def test_by_hand() -> None:
    # mean change (1*(3, 0) + 1*(0, 3) + 2*(-1, .5))/4 = (.25, 1); cosines: .25, 1, (-.25 + .5)/1.118 over 1.0308
    sent = [moved("a", 3, 0), moved("b", 0, 3), moved("c", -1, 0.5, examples=2)]
    length = np.hypot(0.25, 1.0)
    expected = [0.25 / length, 1 / length, 0.25 / (np.hypot(1, 0.5) * length)]
    assert agreement(RECEIVED, sent, ("w",)).tolist() == pytest.approx(expected)


def test_whoever_moves_against_the_mean_scores_nothing_and_so_does_nobody_moving() -> None:
    sent = [moved("a", 3, 0), moved("b", -1, 0), moved("c", 0, 0)]
    assert agreement(RECEIVED, sent, ("w",)).tolist() == [1.0, 0.0, 0.0]


def test_changes_that_cancel_score_nothing() -> None:
    assert agreement(RECEIVED, [moved("a", 2, 0), moved("b", -2, 0)], ("w",)).tolist() == [0.0, 0.0]
