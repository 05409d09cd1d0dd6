"""Attention to a pool that is keys and values at once, of which only a step's own rows learn.

A remembered row has no history. Autograd would still compute a gradient for each of a pool's rows, as keys and as
values, and throw nearly all away: a third of a step's arithmetic. Here the backward pass computes the live rows' alone.

Shapes: m queries, n rows of the pool, l of them live, d width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from vertical.attention import WHOLE, attend, attention_weights


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Common representations (n, d), without history.

    live (l, d), None if there are none, are the rows at positions `at` int64 (l,), with history.
    """

    rows: Tensor
    live: Tensor | None = None
    at: Tensor | None = None

    def whole(self) -> Tensor:
        """All rows, the live ones with their history."""
        if self.live is None or self.at is None:
            return self.rows
        return self.rows.index_copy(0, self.at, self.live)


def attend_pool(query: Tensor, pool: Pool, *, temperature: float, own: Tensor | None = None) -> Tensor:
    """As `attention.attend` with the pool's rows as keys and values; `own` int64 (m,) hides a row from each query."""
    lone_or_large = pool.rows.shape[0] < 2 or query.shape[0] * pool.rows.shape[0] > WHOLE
    if pool.live is None or lone_or_large:
        rows = pool.whole()
        return attend(query, rows, rows, temperature=temperature, own=own)
    result: Tensor = _Live.apply(query, pool.rows, pool.live, pool.at, temperature, own)  # type: ignore[no-untyped-call]
    return result


class _Live(torch.autograd.Function):
    """Attention to rows (n, d), two or more, with gradients in the queries and in the live rows, at positions `at`."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        query: Tensor,
        rows: Tensor,
        live: Tensor,
        at: Tensor,
        temperature: float,
        own: Tensor | None,
    ) -> Tensor:
        weights = attention_weights(query, rows, temperature=temperature, own=own)
        mean = weights @ rows
        ctx.save_for_backward(query, rows, at, weights, mean)
        ctx.divisor = temperature * math.sqrt(query.shape[1])  # type: ignore[attr-defined]
        return mean

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, rows, at, weights, mean = ctx.saved_tensors  # type: ignore[attr-defined]
        common = (gradient * mean).sum(dim=1, keepdim=True)
        slope = (gradient @ rows.T).sub_(common).mul_(weights)  # (m, n): gradient in the products
        slope /= ctx.divisor  # type: ignore[attr-defined]
        to_live = slope.index_select(1, at).T @ query + weights.index_select(1, at).T @ gradient
        return slope @ rows, None, to_live, None, None, None
