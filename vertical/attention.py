"""Scaled dot-product attention that copies a missing view from people who have it.

Shapes: m queries, n keys, d width of query and key, v width of a value.
FedCVT (arXiv 2008.10838), section 4.1; the temperature divides the scaled products, 1 is the paper's form.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from vertical.chunked_attention import attend_in_chunks

WHOLE = 1 << 24
"""Up to so many products of queries and keys the whole matrix of weights is formed: 64 MB in float32."""


def attention_weights(
    query: Tensor, keys: Tensor, *, temperature: float, own: Tensor | None = None
) -> Tensor:
    """Weights (m, n) of `softmax(query keys^T / (temperature sqrt(d)))`, query (m, d), keys (n, d).

    `own` hides keys: int64 (m,) gives the column of each query's own person, -1 for none; bool (m, n) is
    True where hidden. A row with any visible key is a convex combination (sums to 1); a row with none is
    all zero, with finite gradients.
    """
    products = query @ keys.T  # (m, n)
    products /= temperature * math.sqrt(query.shape[1])  # in place: a copy costs more than the division
    if own is None:
        return torch.softmax(products, dim=1)
    if own.dtype != torch.bool and keys.shape[0] > 1:
        _hide(products, own)
        return torch.softmax(products, dim=1)
    hidden = hidden_keys(own, keys.shape[0])
    # Finite, not -inf: a wholly hidden row would pass through 0/0 before it is zeroed.
    products = products.masked_fill(hidden, torch.finfo(products.dtype).min)
    return torch.softmax(products, dim=1).masked_fill(hidden, 0.0)


@torch.no_grad()
def _hide(products: Tensor, own: Tensor) -> None:
    """Hides at most one key (column `own`, -1 for none) of each row, where another one stays visible.

    Autograd needn't know: the hidden weight comes out as 0, and the softmax's gradient there is 0 with it. A mask of
    the whole matrix, forth and back, would cost more than the attention itself.
    """
    rows = torch.nonzero(own >= 0).squeeze(1)
    products[rows, own[rows]] = torch.finfo(products.dtype).min


def attend(
    query: Tensor, keys: Tensor, values: Tensor, *, temperature: float, own: Tensor | None = None
) -> Tensor:
    """Attention-weighted mean (m, v) of values (n, v), found by query (m, d) among keys (n, d).

    A query without a visible key, and every query when n = 0, gets the zero vector (ours; the paper
    doesn't meet this case). Above `WHOLE` products the keys are taken in chunks, with the same result up to rounding.
    """
    if query.shape[0] * keys.shape[0] > WHOLE:
        scale = 1.0 / (temperature * math.sqrt(query.shape[1]))
        return attend_in_chunks(query, keys, values, scale, own)
    return attention_weights(query, keys, temperature=temperature, own=own) @ values


def hidden_keys(own: Tensor, n: int) -> Tensor:
    """Bool (m, n), True where a key is hidden, from either form of `own`."""
    if own.dtype == torch.bool:
        return own
    return own[:, None] == torch.arange(n, device=own.device)[None, :]
