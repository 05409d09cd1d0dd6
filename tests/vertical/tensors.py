"""Tensors of the tests of formulas: double precision, so that gradients can be checked."""

from __future__ import annotations

import torch
from torch import Tensor

D = torch.float64


def random(*shape: int, seed: int = 0, dtype: torch.dtype = D) -> Tensor:
    """Normal numbers, the same for the same seed."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)
