"""Each term with its arithmetic, its gradient and its empty case."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.vertical.tensors import D, random
from vertical.losses import class_weights, cross_entropy, difference, similarity


def test_cross_entropy_worked() -> None:
    logits = torch.tensor([[0.92, 0.05, 0.03], [0.35, 0.6, 0.05]], dtype=D).log()
    got = cross_entropy(logits, torch.tensor([0, 0]))
    assert float(got) == pytest.approx((0.0834 + 1.0498) / 2, abs=1e-4)
    torch.testing.assert_close(got, torch.nn.functional.cross_entropy(logits, torch.tensor([0, 0])))


def test_smoothing_equals_torchs() -> None:
    logits, labels = random(5, 3), torch.tensor([0, 2, 1, 1, 0])
    torch.testing.assert_close(
        cross_entropy(logits, labels, smoothing=0.1),
        torch.nn.functional.cross_entropy(logits, labels, label_smoothing=0.1),
    )


def test_weights_make_a_weighted_mean() -> None:
    logits = torch.tensor([[0.5, 0.5], [0.25, 0.75]], dtype=D).log()
    # losses ln 2 and ln 4, weights 3 and 1: (3 ln 2 + ln 4) / 4 = 1.25 ln 2
    got = cross_entropy(logits, torch.tensor([0, 0]), weights=torch.tensor([3.0, 1.0], dtype=D))
    assert float(got) == pytest.approx(1.25 * math.log(2))


def test_weights_that_are_all_zero_give_zero() -> None:
    logits = random(2, 3).requires_grad_()
    loss = cross_entropy(logits, torch.tensor([0, 1]), weights=torch.zeros(2, dtype=D))
    loss.backward()
    assert loss.item() == 0.0
    assert logits.grad is not None
    assert not bool(logits.grad.any())


def test_duplicated_rows_change_no_mean() -> None:
    logits, labels, weights = (
        random(4, 3),
        torch.tensor([0, 1, 2, 1]),
        torch.tensor([1.0, 2.0, 0.5, 2.0], dtype=D),
    )
    twice = cross_entropy(logits.repeat(2, 1), labels.repeat(2), weights=weights.repeat(2), smoothing=0.1)
    torch.testing.assert_close(cross_entropy(logits, labels, weights=weights, smoothing=0.1), twice)
    left, right = random(4, 3), random(4, 3, seed=1)
    torch.testing.assert_close(difference(left, right), difference(left.repeat(2, 1), right.repeat(2, 1)))
    torch.testing.assert_close(similarity(left, right), similarity(left.repeat(2, 1), right.repeat(2, 1)))


def test_difference_averages_over_rows_and_width() -> None:
    left = torch.tensor([[1.0, 2.0], [3.0, 4.0], [0.0, 0.0]])
    right = torch.tensor([[1.0, 0.0], [0.0, 4.0], [0.0, 1.0]])
    assert float(difference(left, right)) == pytest.approx((4 + 9 + 1) / 6)


def test_similarity_is_the_mean_squared_cosine() -> None:
    unique = torch.tensor([[1.0, 0.0], [1.0, 0.0], [3.0, 0.0]])
    common = torch.tensor([[0.0, 2.0], [-5.0, 0.0], [1.0, 1.0]])
    # orthogonal 0, opposite 1, 45 degrees 1/2
    assert float(similarity(unique, common)) == pytest.approx(0.5)


def test_similarity_of_two_widths_pads_the_smaller_with_zeros() -> None:
    unique, common = random(4, 5), random(4, 3, seed=1)
    padded = torch.nn.functional.pad(common, (0, 2))
    torch.testing.assert_close(similarity(unique, common), similarity(unique, padded))
    torch.testing.assert_close(similarity(common, unique), similarity(padded, unique))


def test_similarity_ignores_lengths_and_survives_zero_rows() -> None:
    unique, common = random(4, 3), random(4, 3, seed=1)
    torch.testing.assert_close(similarity(unique * 7, common / 5), similarity(unique, common))
    zero = torch.zeros(2, 3, requires_grad=True)
    loss = similarity(zero, zero * 1.0)
    loss.backward()
    assert loss.item() == 0.0
    assert zero.grad is not None
    assert bool(zero.grad.isfinite().all())


@pytest.mark.parametrize(
    "term",
    [
        lambda a, b: cross_entropy(a, torch.tensor([0, 1, 1])),
        lambda a, b: cross_entropy(
            a, torch.tensor([0, 1, 1]), weights=torch.tensor([1.0, 2.0, 0.0], dtype=D), smoothing=0.05
        ),
        difference,
        similarity,
    ],
)
def test_gradients_are_right(term: Callable[[Tensor, Tensor], Tensor]) -> None:
    inputs = (random(3, 2).requires_grad_(), random(3, 2, seed=1).requires_grad_())
    assert torch.autograd.gradcheck(term, inputs)


@pytest.mark.parametrize(
    "term",
    [
        lambda a, b: cross_entropy(a, torch.zeros(0, dtype=torch.int64)) + b.sum() * 0.0,
        difference,
        similarity,
    ],
)
def test_no_rows_give_exactly_zero_with_a_graph(term: Callable[[Tensor, Tensor], Tensor]) -> None:
    source = random(3, 2).requires_grad_()
    loss = term(source[:0], source[3:])
    loss.backward()
    assert loss.item() == 0.0
    assert source.grad is not None
    assert not bool(source.grad.any())


def test_class_weights_balance_the_classes() -> None:
    labels = torch.tensor([0, 0, 0, 1, -1, -1])  # 4 labelled, 2 classes present of 3
    torch.testing.assert_close(class_weights(labels, 3), torch.tensor([4 / 6, 4 / 2, 0.0]))
    torch.testing.assert_close(class_weights(torch.tensor([0, 1, 2]), 3), torch.ones(3))
    assert class_weights(torch.zeros(0, dtype=torch.int64), 2).tolist() == [0.0, 0.0]
    assert float(class_weights(labels, 3)[labels[:4]].mean()) == pytest.approx(1.0)
