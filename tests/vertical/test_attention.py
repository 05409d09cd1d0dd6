"""Attention: the worked value, a slow loop, masks, and nothing to attend to (AC-08)."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.vertical.tensors import D, random
from vertical.attention import attend, attention_weights


def slow(query: Tensor, keys: Tensor, values: Tensor, temperature: float, hidden: list[set[int]]) -> Tensor:
    """One row and one key at a time, straight from the formula."""
    out = torch.zeros(len(query), values.shape[1], dtype=D)
    for i, q in enumerate(query):
        scores = {
            j: math.exp(float(q @ k) / (temperature * math.sqrt(len(q))))
            for j, k in enumerate(keys)
            if j not in hidden[i]
        }
        for j, score in scores.items():
            out[i] += score / sum(scores.values()) * values[j]
    return out


def test_worked_value() -> None:
    # d = 1, query 1, keys ln .6, ln .3, ln .1: weights .6 .3 .1; on (1,0) (0,1) (1,1): (.7, .4)
    keys = torch.tensor([[0.6], [0.3], [0.1]], dtype=D).log()
    values = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], dtype=D)
    query = torch.ones(1, 1, dtype=D)
    weights = attention_weights(query, keys, temperature=1.0)
    torch.testing.assert_close(weights, torch.tensor([[0.6, 0.3, 0.1]], dtype=D))
    torch.testing.assert_close(
        attend(query, keys, values, temperature=1.0), torch.tensor([[0.7, 0.4]], dtype=D)
    )


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_equals_the_slow_loop_with_own_columns_hidden(temperature: float) -> None:
    query, keys, values = random(4, 3), random(5, 3, seed=1), random(5, 2, seed=2)
    own = torch.tensor([2, -1, 0, 4])
    expected = slow(query, keys, values, temperature, [{2}, set(), {0}, {4}])
    torch.testing.assert_close(attend(query, keys, values, temperature=temperature, own=own), expected)
    expected = slow(query, keys, values, temperature, [set()] * 4)
    torch.testing.assert_close(attend(query, keys, values, temperature=temperature), expected)


def test_index_and_mask_hide_the_same() -> None:
    query, keys = random(3, 2), random(4, 2, seed=1)
    mask = torch.zeros(3, 4, dtype=torch.bool)
    mask[0, 3] = mask[2, 1] = True
    by_index = attention_weights(query, keys, temperature=1.0, own=torch.tensor([3, -1, 1]))
    assert torch.equal(by_index, attention_weights(query, keys, temperature=1.0, own=mask))
    assert by_index[0, 3] == 0.0
    assert by_index[2, 1] == 0.0


def test_every_row_sums_to_one_or_is_all_zero_at_any_scale() -> None:
    mask = torch.tensor([[True, True, True], [False, True, True], [False, False, False]])
    for scale in (1e-6, 1.0, 1e4):
        weights = attention_weights(
            random(3, 2).float() * scale, random(3, 2, seed=1).float(), temperature=1.0, own=mask
        )
        torch.testing.assert_close(weights.sum(dim=1), torch.tensor([0.0, 1.0, 1.0]))
        assert torch.equal(weights[0], torch.zeros(3))
        assert bool((weights >= 0).all())


def test_a_lone_key_is_copied_whatever_the_query() -> None:
    value = random(1, 4, seed=2)
    out = attend(random(3, 2), random(1, 2, seed=1), value, temperature=1.0)
    torch.testing.assert_close(out, value.expand(3, 4))


def test_no_visible_key_gives_zero_and_finite_gradients() -> None:
    query, keys, values = (random(2, 3, seed=s).requires_grad_() for s in range(3))
    mask = torch.tensor([[True, True], [False, True]])
    out = attend(query, keys, values, temperature=1.0, own=mask)
    assert torch.equal(out[0], torch.zeros(3, dtype=D))
    torch.testing.assert_close(out[1], values[0])
    out.square().sum().backward()
    for tensor in (query, keys, values):
        assert tensor.grad is not None
        assert bool(tensor.grad.isfinite().all())
    assert query.grad is not None
    assert torch.equal(query.grad[0], torch.zeros(3, dtype=D))


@pytest.mark.parametrize("own", [None, torch.tensor([-1, -1]), torch.zeros(2, 0, dtype=torch.bool)])
def test_no_keys_at_all_give_zero_and_a_graph(own: Tensor | None) -> None:
    query = random(2, 3).requires_grad_()
    out = attend(query, random(0, 3), random(0, 4), temperature=1.0, own=own)
    assert torch.equal(out, torch.zeros(2, 4, dtype=D))
    out.sum().backward()
    assert query.grad is not None
    assert torch.equal(query.grad, torch.zeros(2, 3, dtype=D))


def test_no_queries_give_no_rows() -> None:
    out = attend(
        random(0, 3), random(5, 3), random(5, 2), temperature=1.0, own=torch.zeros(0, dtype=torch.int64)
    )
    assert out.shape == (0, 2)


@pytest.mark.parametrize("own", [None, torch.tensor([1, -1, 0])])
def test_gradient_is_right(own: Tensor | None) -> None:
    inputs = tuple(
        random(*shape, seed=s).requires_grad_() for s, shape in enumerate([(3, 2), (4, 2), (4, 2)])
    )
    assert torch.autograd.gradcheck(lambda q, k, v: attend(q, k, v, temperature=0.7, own=own), inputs)


def test_the_only_key_hidden_by_its_index_gives_zero_and_finite_gradients() -> None:
    query = random(2, 3).requires_grad_()
    out = attend(query, random(1, 3), random(1, 4), temperature=1.0, own=torch.tensor([0, -1]))
    assert torch.equal(out[0], torch.zeros_like(out[0]))
    assert out[1].abs().min() > 0
    out.sum().backward()
    assert query.grad is not None
    assert query.grad.isfinite().all()
