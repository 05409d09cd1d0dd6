"""The vote's worked values, AC-09, and a slow loop."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from vertical.heads import HeadLogits
from vertical.vote import Vote
from vertical.vote import vote as vote_on

HALF = (0.5, 0.5, 0.5)


def vote(joint: Tensor, active: Tensor, passive: Tensor, thresholds: tuple[float, float, float]) -> Vote:
    """The vote on the three heads' logits."""
    return vote_on(HeadLogits(joint, active, passive), thresholds)


def logits(*probabilities: list[float]) -> Tensor:
    """Logits (m, k) whose softmax is these probabilities."""
    return torch.tensor(probabilities).log()


def test_agreement_above_every_threshold_is_accepted() -> None:
    got = vote(logits([0.8, 0.2]), logits([0.7, 0.3]), logits([0.9, 0.1]), HALF)
    assert (got.label.tolist(), got.accepted.tolist()) == ([0], [True])


@pytest.mark.parametrize(
    ("joint", "active", "passive"),
    [
        ([0.8, 0.2], [0.7, 0.3], [0.1, 0.9]),  # the passive head says dog
        ([0.4, 0.3, 0.3], [0.4, 0.3, 0.3], [0.4, 0.3, 0.3]),  # nobody is sure
        ([0.9, 0.1], [0.9, 0.1], [0.5, 0.5]),  # exactly at the threshold
        ([0.95, 0.03, 0.02], [0.03, 0.95, 0.02], [0.02, 0.03, 0.95]),  # three opinions
        ([0.0, 1.0], [0.9, 0.1], [0.9, 0.1]),
    ],
)
def test_anything_less_is_rejected(joint: list[float], active: list[float], passive: list[float]) -> None:
    assert vote(logits(joint), logits(active), logits(passive), HALF).accepted.tolist() == [False]


def test_thresholds_belong_to_their_heads() -> None:
    row = logits([0.7, 0.3])
    for strict in range(3):
        limits = [0.5, 0.5, 0.5]
        limits[strict] = 0.75
        assert not vote(row, row, row, (limits[0], limits[1], limits[2])).accepted.item()
        rows = [row, row, row]
        rows[strict] = logits([0.8, 0.2])
        assert vote(rows[0], rows[1], rows[2], (limits[0], limits[1], limits[2])).accepted.item()


def test_zero_logits_never_pass_nine_tenths() -> None:
    zero = torch.zeros(5, 2)
    assert int(vote(zero, zero, zero, (0.9, 0.9, 0.9)).accepted.sum()) == 0


def test_no_gradient_and_no_rows() -> None:
    row = torch.zeros(0, 3, requires_grad=True)
    got = vote(row, row, row, HALF)
    assert got.label.shape == got.accepted.shape == (0,)
    some = torch.ones(2, 3, requires_grad=True)
    assert not vote(some, some, some, HALF).label.requires_grad


def test_a_logit_that_is_not_finite_is_never_accepted() -> None:
    good, bad = torch.tensor([[5.0, 0.0]]), torch.tensor([[float("nan"), 0.0]])
    assert not vote(bad, good, good, HALF).accepted.item()
    assert not vote(torch.tensor([[float("inf"), 0.0]]), good, good, HALF).accepted.item()


row_of_three = st.lists(st.floats(-4, 4, width=32), min_size=9, max_size=9)


@settings(max_examples=50, deadline=None)
@given(st.lists(row_of_three, min_size=1, max_size=6), st.floats(0.3, 0.9))
def test_equals_a_slow_loop(values: list[list[float]], threshold: float) -> None:
    stacked = torch.tensor(values).reshape(-1, 3, 3)  # (m, head, k)
    got = vote(stacked[:, 0], stacked[:, 1], stacked[:, 2], (threshold,) * 3)
    for i, row in enumerate(stacked):
        probabilities = [torch.softmax(head, dim=0) for head in row]
        tops = [p.max() for p in probabilities]
        choices = {int(p.argmax()) for p in probabilities}
        assert bool(got.accepted[i]) == (len(choices) == 1 and all(bool(t > threshold) for t in tops))
        if got.accepted[i]:
            assert {int(got.label[i])} == choices
