"""Drift: the worked values."""

from __future__ import annotations

import numpy as np
import pytest

from horizontal.drift import cosine, difference, distance, flat


def change(received: list[float], trained: list[float]) -> np.ndarray:
    return difference({"w": np.array(received)}, {"w": np.array(trained)}, ("w",))


def test_distance_by_hand() -> None:
    moved = change([3.0, 3.0], [0.8, 1.1])
    assert moved @ moved == pytest.approx(8.45)  # 2.2^2 + 1.9^2
    assert distance(moved) == pytest.approx(2.9069, abs=5e-5)


@pytest.mark.parametrize(("gradient", "trained", "drift"), [(-0.5, 3.05, 0.05), (22.0, 0.8, 2.2)])
def test_a_steps_drift_is_its_rate_times_its_gradient(gradient: float, trained: float, drift: float) -> None:
    assert 3.0 - 0.1 * gradient == pytest.approx(trained)
    assert distance(change([3.0], [trained])) == pytest.approx(drift)


def test_length_without_agreement_wastes_the_round() -> None:
    one, other = change([3.0], [0.8]), change([3.0], [5.2])
    assert (0.8 + 5.2) / 2 == 3.0
    assert cosine(one, other) == pytest.approx(-1.0)


def test_all_layers_count_and_only_those_named() -> None:
    received = {"a": np.zeros((1, 2), np.float32), "b": np.zeros(1), "count": np.array(1)}
    trained = {"a": np.array([[2, 3]], np.float32), "b": np.array([6.0]), "count": np.array(9)}
    assert distance(difference(received, trained, iter(("a", "b")))) == 7.0  # 4 + 9 + 36 = 49
    assert flat(trained, ("b", "a")).tolist() == [6, 2, 3]
    assert flat(trained, ()).tolist() == []


def test_cosine_of_nothing_is_0() -> None:
    assert cosine(np.zeros(2), np.ones(2)) == 0.0
