"""FLASH's bandit against plain linear algebra, its memory over rounds, early stop in both readings."""

from __future__ import annotations

import math

import numpy as np
import pytest

from horizontal.average import Contribution, UpdateError
from horizontal.flash import (
    Bandit,
    Memory,
    check_signals,
    choose,
    default_context,
    default_reward,
    patience,
    width,
)

NAN = float("nan")


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def test_the_estimate_is_ridge_regression_on_all_rounds() -> None:
    rounds = [(drawn(3, 4, seed=s), drawn(3, seed=s + 10)) for s in range(5)]
    bandit = Bandit.of(4, 0.5)
    for contexts, rewards in rounds:
        bandit = bandit.learned(contexts, rewards)
    x, r = np.concatenate([c for c, _ in rounds]), np.concatenate([r for _, r in rounds])
    slow = np.linalg.inv(0.5 * np.eye(4) + x.T @ x) @ x.T @ r
    np.testing.assert_allclose(bandit.estimate(), slow)
    assert Bandit.of(2, 1.0).estimate().tolist() == [0.0, 0.0]


def test_draws_have_the_stated_mean_and_covariance() -> None:
    bandit = Bandit.of(2, 1.0).learned(np.array([[2.0, 1.0], [0.0, 1.0]]), np.array([1.0, -1.0]))
    generator = np.random.default_rng(3)
    thetas = np.stack([bandit.draw(0.5, generator) for _ in range(5_000)])
    np.testing.assert_allclose(thetas.mean(axis=0), bandit.estimate(), atol=0.02)
    np.testing.assert_allclose(np.cov(thetas.T), 0.25 * np.linalg.inv(bandit.gram), atol=0.006)
    assert bandit.draw(0.0, generator).tolist() == bandit.estimate().tolist()


def test_width_by_hand() -> None:
    # sqrt(4) + sqrt(3 ln((1 + 5 * 20)/.1))
    assert width(5, 20, 3, lam=4.0, delta=0.1) == pytest.approx(2 + math.sqrt(3 * math.log(1010)))


@pytest.mark.parametrize(("rounds", "limit"), [(1, 3), (300, 3), (301, 4), (1000, 10)])
def test_patience(rounds: int, limit: int) -> None:
    assert patience(rounds) == limit


def test_the_largest_scores_are_chosen_among_those_who_may() -> None:
    scores, may = np.array([0.5, 0.9, 0.9, 0.1, 2.0]), np.array([True, True, True, True, False])
    assert choose(scores, may, 2) == [1, 2]
    assert choose(scores, may, 9) == [0, 1, 2, 3]
    assert choose(scores, ~may, 2) == [4]


def test_context_by_hand() -> None:
    signals = np.array([[0.5, 1.0, 3.0, 0.2, 4.0], [1.0, 0.0, 0.0, 0.0, 2.0]])
    x = default_context(signals, np.array([10.0, 40.0]), np.array([0.0, 3.0]))
    assert x.tolist() == [
        [0.25, 0.5, 0.5, 0.75, 0.2, 1.0, 0.0, 1.0],
        [1.0, 1.0, 0.0, 0.0, 0.0, 0.5, 0.75, 1.0],
    ]
    nobody = default_context(np.zeros((2, 5)), np.zeros(2), np.zeros(2))
    assert not nobody[:, :7].any()


def test_reward_by_hand() -> None:
    # drop .6 shared 1:2:0; a tenth of the share of the longest time is taken off
    rewards = default_reward(0.1)(0.6, np.array([0.3, 0.6, -0.5]), np.array([5.0, 0.0, 10.0]))
    assert rewards.tolist() == pytest.approx([0.2 - 0.05, 0.4, -0.1])
    assert default_reward(0.0)(0.6, np.zeros(2), np.zeros(2)).tolist() == [
        0.3,
        0.3,
    ]  # nobody agrees: equal parts


def signals(*losses: float) -> np.ndarray:
    """Signals of clients that differ in their loss only; NaN for one that sent none."""
    return np.stack(
        [np.full(5, NAN) if math.isnan(loss) else np.array([0, loss, 0, 0, 1.0]) for loss in losses]
    )


def only_one(signals: np.ndarray, examples: np.ndarray, since: np.ndarray) -> np.ndarray:
    """A context that is the same for all."""
    return np.ones((len(signals), 1))


def heard(memory: Memory, *losses: float, literal: bool = False, limit: int = 3) -> Memory:
    return memory.heard(
        signals(*losses), np.array([10.0, 30.0]), default_reward(0.0), literal=literal, limit=limit
    )


def test_the_reward_is_known_when_the_next_signals_come() -> None:
    memory = heard(Memory.of(2, 1, 1.0), 2.0, 4.0)
    assert memory.loss() == 3.5  # (10 * 2 + 30 * 4)/40
    memory = memory.trained(memory.context(only_one), np.array([0.9, NAN]))
    assert (memory.waiting.tolist(), memory.since.tolist()) == ([True, False], [0.0, 1.0])
    assert memory.bandit.moment.tolist() == [0.0]
    memory = heard(memory, NAN, 2.0)  # the loss falls to (10 * 2 + 30 * 2)/40: a drop of 1.5, all of client 1
    assert (memory.bandit.gram.tolist(), memory.bandit.moment.tolist()) == ([[2.0]], [1.5])
    assert not memory.waiting.any()
    assert heard(memory, 1.0, 1.0).bandit.moment.tolist() == [1.5]  # each round is learned from once


def test_nothing_is_learned_from_silence() -> None:
    memory = heard(Memory.of(2, 1, 1.0), NAN, 4.0)
    assert (memory.known.tolist(), memory.loss()) == ([False, True], 4.0)
    memory = memory.trained(memory.context(only_one), np.array([NAN, 1.0]))
    assert heard(memory, NAN, NAN).waiting.tolist() == [False, True]


@pytest.mark.parametrize("literal", [False, True])
def test_a_client_is_retired_after_rounds_in_a_row_in_which_it_disappoints(literal: bool) -> None:
    # Predictions start at 0. Losses that rise give rewards below them, losses that fall rewards above.
    def after(*losses: float) -> Memory:
        memory = heard(Memory.of(2, 1, 1e6), 5.0, 5.0)  # a large lam: the prediction stays near 0
        for loss in losses:
            memory = memory.trained(memory.context(only_one), np.array([1.0, NAN]))
            memory = heard(memory, loss, loss, literal=literal)
        return memory

    worse, better = (5.1, 5.2, 5.3), (4.9, 4.8, 4.7)
    disappointing, pleasing = (better, worse) if literal else (worse, better)
    assert after(*disappointing).retired.tolist() == [True, False]
    assert after(*pleasing).retired.tolist() == [False, False]
    assert after(*disappointing[:2]).retired.tolist() == [False, False]
    turned = (5.1, 5.2, 5.15, 5.3, 5.4) if not literal else (4.9, 4.8, 4.85, 4.7, 4.6)
    assert after(*turned).retired.tolist() == [False, False]  # not in a row


def test_it_learns_whom_to_choose() -> None:
    # Ten clients whose reward is their own first context entry: after 60 rounds the best are chosen most.
    quality = np.linspace(0, 1, 10)
    contexts, bandit, generator = (
        np.stack([quality, np.ones(10)], axis=1),
        Bandit.of(2, 1.0),
        np.random.default_rng(0),
    )
    times = np.zeros(10)
    for number in range(1, 61):
        theta = bandit.draw(0.2 * width(number, 10, 2, lam=1.0, delta=0.1), generator)
        chosen = choose(contexts @ theta, np.ones(10, np.bool_), 3)
        times[chosen] += 1
        bandit = bandit.learned(contexts[chosen], quality[chosen])
    assert times[7:].sum() > 0.6 * times.sum()


def test_a_negative_signal_names_the_client() -> None:
    for values, fine in (([0.0, 0, 0, 0, 0], True), ([1.0, 2, 3, 0.5, 9], True), ([0.0, -1, 0, 0, 0], False)):
        sent = Contribution(client="client-2", examples=1, arrays={}, extras={"signals": np.array(values)})
        if fine:
            check_signals(sent)
        else:
            with pytest.raises(UpdateError, match="client-2: expected signals of 0 or more"):
                check_signals(sent)
