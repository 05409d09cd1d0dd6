"""Attention to a pool whose live rows alone learn: the values and gradients that autograd gives."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.vertical.tensors import D, random
from vertical import pool_attention
from vertical.attention import attend
from vertical.pool_attention import Pool, attend_pool

AT = torch.tensor([3, 0])
OWN = torch.tensor([3, -1, 1])


def a_pool(live: Tensor, rows: int = 5, at: Tensor = AT) -> Pool:
    """A pool whose rows at `at` are live."""
    return Pool(random(rows, 2, seed=1).index_copy(0, at, live.detach()), live, at)


@pytest.mark.parametrize("own", [None, OWN])
def test_values_are_those_of_the_plain_attention_bit_for_bit(own: Tensor | None) -> None:
    pool, query = a_pool(random(2, 2, seed=2)), random(3, 2)
    plain = attend(query, pool.whole(), pool.whole(), temperature=0.7, own=own)
    assert torch.equal(attend_pool(query, pool, temperature=0.7, own=own), plain)


@pytest.mark.parametrize("own", [None, OWN])
def test_gradients_are_those_of_autograd(own: Tensor | None) -> None:
    grads = []
    for way in (attend_pool, lambda q, pool, **more: attend(q, pool.whole(), pool.whole(), **more)):
        query, live = random(3, 2).requires_grad_(), random(2, 2, seed=2).requires_grad_()
        way(query, a_pool(live), temperature=0.7, own=own).square().sum().backward()
        grads.append((query.grad, live.grad))
    torch.testing.assert_close(grads[0], grads[1])


@pytest.mark.parametrize("own", [None, OWN])
def test_gradients_are_right(own: Tensor | None) -> None:
    inputs = (random(3, 2).requires_grad_(), random(2, 2, seed=2).requires_grad_())
    assert torch.autograd.gradcheck(
        lambda query, live: attend_pool(query, a_pool(live), temperature=0.7, own=own), inputs
    )


def test_a_pool_without_live_rows_gives_gradients_to_the_queries_only() -> None:
    query = random(3, 2).requires_grad_()
    for pool in (Pool(random(5, 2, seed=1)), a_pool(random(0, 2), at=AT[:0])):
        out = attend_pool(query, pool, temperature=0.7)
        torch.testing.assert_close(out, attend(query, pool.rows, pool.rows, temperature=0.7))
        assert torch.autograd.grad(out.sum(), query)[0].any()


@pytest.mark.parametrize("rows", [0, 1])
def test_a_lone_row_and_no_row(rows: int) -> None:
    query, live = random(2, 2).requires_grad_(), random(rows, 2, seed=2).requires_grad_()
    pool = a_pool(live, rows=rows, at=torch.arange(rows))
    out = attend_pool(query, pool, temperature=0.7, own=torch.tensor([0, -1])[:2] if rows else None)
    assert torch.equal(out[0], torch.zeros(2, dtype=D))
    torch.testing.assert_close(out[1], live[0] if rows else torch.zeros(2, dtype=D))
    out.sum().backward()
    assert query.grad is not None
    assert bool(query.grad.isfinite().all())


def test_a_large_pool_is_taken_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    query, live = random(3, 2).requires_grad_(), random(2, 2, seed=2).requires_grad_()
    whole = attend_pool(query, a_pool(live), temperature=0.7, own=OWN)
    monkeypatch.setattr(pool_attention, "WHOLE", 14)
    monkeypatch.setattr("vertical.attention.WHOLE", 14)
    parts = attend_pool(query, a_pool(live), temperature=0.7, own=OWN)
    assert type(parts.grad_fn).__name__ == "_ChunkedBackward"
    torch.testing.assert_close(parts, whole)
    for one, other in zip(
        *(torch.autograd.grad(o.sum(), (query, live)) for o in (parts, whole)), strict=True
    ):
        torch.testing.assert_close(one, other)
