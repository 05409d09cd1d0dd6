"""The same attention as `vertical.attention`, a chunk of keys at a time: memory doesn't grow with their number.

Forth, a running maximum and a running sum make the softmax exact (Milakov and Gimelshein, arXiv 1805.02867); back, the
weights are computed again from each query's log-sum-exp instead of being kept (Dao et al., arXiv 2205.14135).

Shapes: m queries, n keys, c keys of a chunk, d width of query and key, v width of a value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

PRODUCTS_AT_ONCE = 1 << 22
"""Largest number m c of products held at once (16 MB in float32), unless there are more queries than that."""


def attend_in_chunks(
    query: Tensor, keys: Tensor, values: Tensor, scale: float, hidden: Tensor | None = None
) -> Tensor:
    """`softmax(scale query keys^T) values`, (m, v), with gradients; the zero vector for a query without a visible key.

    `hidden` is int64 (m,), one hidden key of each query (-1: none), or bool (m, n), True where hidden.
    """
    result: Tensor = _Chunked.apply(query, keys, values, scale, hidden)  # type: ignore[no-untyped-call]
    return result


class _Chunked(torch.autograd.Function):
    """`attend_in_chunks` with its gradients in query, keys and values."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, query: Tensor, keys: Tensor, values: Tensor, scale: float, hidden: Tensor | None
    ) -> Tensor:
        rows = query.shape[0]
        top = query.new_full((rows, 1), -math.inf)  # the largest product so far
        total = query.new_zeros(rows, 1)  # sum of exp(product - top)
        mean = query.new_zeros(rows, values.shape[1])  # the same sum, weighted by values
        for part in _chunks(rows, keys.shape[0]):
            products = _products(query, keys, scale, hidden, part)
            higher = torch.maximum(top, products.amax(dim=1, keepdim=True))
            base = _finite(higher)
            kept = torch.exp(top - base)
            weights = products.sub_(base).exp_()
            total = total * kept + weights.sum(dim=1, keepdim=True)
            mean = mean * kept + weights @ values[part]
            top = higher
        mean = mean / torch.where(total > 0, total, 1.0)
        log_sum = _finite(top) + torch.log(torch.where(total > 0, total, 1.0))
        ctx.save_for_backward(query, keys, values, hidden, mean, log_sum)  # type: ignore[arg-type]  # None is fine
        ctx.scale = scale  # type: ignore[attr-defined]
        return mean

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, keys, values, hidden, mean, log_sum = ctx.saved_tensors  # type: ignore[attr-defined]
        scale: float = ctx.scale  # type: ignore[attr-defined]
        wanted: tuple[bool, ...] = ctx.needs_input_grad  # type: ignore[attr-defined]
        to_query = torch.zeros_like(query)
        to_keys = torch.empty_like(keys) if wanted[1] else None  # a memory wants none
        to_values = torch.empty_like(values) if wanted[2] else None
        common = (gradient * mean).sum(dim=1, keepdim=True)
        for part in _chunks(query.shape[0], keys.shape[0]):
            weights = _products(query, keys, scale, hidden, part).sub_(log_sum).exp_()  # (m, c)
            if to_values is not None:
                to_values[part] = weights.T @ gradient
            slope = (gradient @ values[part].T).sub_(common).mul_(weights).mul_(scale)  # (m, c)
            to_query += slope @ keys[part]
            if to_keys is not None:
                to_keys[part] = slope.T @ query
        return to_query, to_keys, to_values, None, None


def _chunks(rows: int, keys: int) -> Iterator[slice]:
    size = max(1, PRODUCTS_AT_ONCE // max(rows, 1))
    return (slice(start, min(start + size, keys)) for start in range(0, keys, size))


def _products(query: Tensor, keys: Tensor, scale: float, hidden: Tensor | None, part: slice) -> Tensor:
    """Scaled products (m, c) of the queries with the chunk's keys, -inf where hidden."""
    products = (query @ keys[part].T).mul_(scale)
    if hidden is None:
        return products
    if hidden.dtype == torch.bool:
        return products.masked_fill_(hidden[:, part], -math.inf)
    inside = torch.nonzero((hidden >= part.start) & (hidden < part.stop)).squeeze(1)
    products[inside, hidden[inside] - part.start] = -math.inf
    return products


def _finite(top: Tensor) -> Tensor:
    """The largest products, 0 for a query that has seen no visible key: -inf less -inf would be NaN."""
    return torch.where(top == -math.inf, 0.0, top)
