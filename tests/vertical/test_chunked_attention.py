"""Attention in chunks of keys: the plain result and gradients, in memory that doesn't grow with the keys."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tests.vertical.tensors import D, random
from vertical import attention, chunked_attention
from vertical.attention import attend
from vertical.chunked_attention import attend_in_chunks


@pytest.fixture
def two_keys_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of two keys for three queries."""
    monkeypatch.setattr(chunked_attention, "PRODUCTS_AT_ONCE", 6)


def mask(*rows: list[int]) -> Tensor:
    return torch.tensor(rows, dtype=torch.bool)


HIDDEN = {
    "nothing": None,
    "one of each": torch.tensor([4, -1, 0]),
    "a mask": mask([0, 1, 1, 0, 0], [0, 0, 0, 0, 0], [1, 0, 0, 1, 1]),
    "first chunks": mask([1, 1, 0, 0, 0], [1, 1, 1, 1, 0], [0, 0, 0, 0, 1]),
}


@pytest.mark.usefixtures("two_keys_at_once")
@pytest.mark.parametrize("hidden", HIDDEN.values(), ids=HIDDEN)
@pytest.mark.parametrize("size", [1.0, 1e3])
def test_equals_the_whole_matrix(hidden: Tensor | None, size: float) -> None:
    query, keys, values = random(3, 2) * size, random(5, 2, seed=1), random(5, 4, seed=2)
    whole = attend(query, keys, values, temperature=0.7, own=hidden)
    scale = 1 / (0.7 * math.sqrt(2))
    torch.testing.assert_close(attend_in_chunks(query, keys, values, scale, hidden), whole)


@pytest.mark.usefixtures("two_keys_at_once")
@pytest.mark.parametrize("hidden", HIDDEN.values(), ids=HIDDEN)
def test_gradients_are_right(hidden: Tensor | None) -> None:
    inputs = tuple(
        random(*shape, seed=i).requires_grad_() for i, shape in enumerate([(3, 2), (5, 2), (5, 4)])
    )
    assert torch.autograd.gradcheck(lambda q, k, v: attend_in_chunks(q, k, v, 0.9, hidden), inputs)


@pytest.mark.usefixtures("two_keys_at_once")
def test_keys_that_are_their_own_values_and_need_no_gradient() -> None:
    query, pool = random(3, 2).requires_grad_(), random(5, 2, seed=1)
    assert torch.autograd.gradcheck(lambda q: attend_in_chunks(q, pool, pool, 0.9), (query,))
    live = pool.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda p: attend_in_chunks(query.detach(), p, p, 0.9), (live,))


@pytest.mark.usefixtures("two_keys_at_once")
def test_no_visible_key_gives_zero_and_zero_gradients() -> None:
    query, keys, values = (random(3, 2, seed=s).requires_grad_() for s in range(3))
    out = attend_in_chunks(query, keys, values, 1.0, mask([1, 1, 1], [0, 1, 1], [1, 1, 1]))
    assert torch.equal(out[[0, 2]], torch.zeros(2, 2, dtype=D))
    torch.testing.assert_close(out[1], values[0])
    out.square().sum().backward()
    for tensor in (query, keys):  # a lone key is copied, whatever it is asked
        assert tensor.grad is not None
        torch.testing.assert_close(tensor.grad, torch.zeros(3, 2, dtype=D))


def test_no_keys_and_no_queries() -> None:
    query = random(3, 2).requires_grad_()
    out = attend_in_chunks(query, random(0, 2), random(0, 4), 1.0, torch.tensor([-1, -1, -1]))
    assert torch.equal(out, torch.zeros(3, 4, dtype=D))
    out.sum().backward()
    assert query.grad is not None
    assert not bool(query.grad.any())
    assert attend_in_chunks(random(0, 2), random(5, 2), random(5, 4), 1.0).shape == (0, 4)


def test_chosen_above_a_size_only(monkeypatch: pytest.MonkeyPatch) -> None:
    query, keys, values = random(3, 2), random(5, 2, seed=1), random(5, 4, seed=2)
    own = torch.tensor([4, -1, 0])
    chosen: list[int] = []

    def counting(*given: Tensor) -> Tensor:
        chosen.append(len(given[1]))
        return attend_in_chunks(*given)

    monkeypatch.setattr(attention, "attend_in_chunks", counting)
    whole = attend(query, keys, values, temperature=0.7, own=own)
    monkeypatch.setattr(attention, "WHOLE", 15)
    assert torch.equal(attend(query, keys, values, temperature=0.7, own=own), whole)
    assert chosen == []
    monkeypatch.setattr(attention, "WHOLE", 14)
    torch.testing.assert_close(attend(query, keys, values, temperature=0.7, own=own), whole)
    assert chosen == [5]


class Largest(TorchDispatchMode):
    """Notes the number of entries of the largest tensor that any operation gives, forth and back."""

    def __init__(self) -> None:
        super().__init__()
        self.entries = 0

    def __torch_dispatch__(self, func: Callable[..., object], types, args=(), kwargs=None) -> object:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else (out,):
            if isinstance(tensor, Tensor):
                self.entries = max(self.entries, tensor.numel())
        return out


@pytest.mark.slow
def test_200_000_keys_in_bounded_memory() -> None:
    people, keys, d = 100, 200_000, 4
    own = torch.arange(people) * 1999
    inputs = [random(n, d, seed=i, dtype=torch.float32) for i, n in enumerate((people, keys, keys))]
    for tensor in inputs:
        tensor.requires_grad_()
    with Largest() as seen:
        out = attend(*inputs, temperature=0.5, own=own)
        out.square().sum().backward()
    assert seen.entries <= chunked_attention.PRODUCTS_AT_ONCE < people * keys / 4

    wide = [tensor.detach().double().requires_grad_() for tensor in inputs]
    products = wide[0] @ wide[1].T
    products = products / (0.5 * math.sqrt(d))
    products = products.scatter(1, own[:, None], -math.inf)
    expected = torch.softmax(products, dim=1) @ wide[2]
    torch.testing.assert_close(out.double(), expected, atol=1e-5, rtol=0)
    expected.square().sum().backward()
    for tensor, like in zip(inputs, wide, strict=True):
        assert tensor.grad is not None
        assert like.grad is not None
        torch.testing.assert_close(tensor.grad.double(), like.grad, atol=1e-5, rtol=1e-4)
