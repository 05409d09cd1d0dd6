"""The baselines that a FedCVT report carries, as the same step with empty pools.

- aligned-only: f^AB on the aligned rows, no alone rows, no fill, no pseudo labels; the same two programs.
- active alone: f^A on all training rows of the active party; no messages.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from vertical.config import FedCVTConfig
from vertical.views import Memory


def aligned_only_config(config: FedCVTConfig) -> FedCVTConfig:
    """Settings of the aligned-only network: those of the run, without all that needs unaligned people."""
    return replace(
        _plain(config), steps=config.baseline_steps, alone_batch=0, memory_pool=0, max_passive_only=0
    )


def active_alone_config(config: FedCVTConfig) -> FedCVTConfig:
    """Settings of f^A by itself: batches as large as the run's aligned and active-only ones together."""
    batch = config.alone_batch + config.aligned_batch
    return replace(_plain(config), alone_batch=batch)


def blank_memory(n: int, d: int) -> Memory:
    """The memory of a training without fill: n aligned rows with nothing remembered."""
    nothing, nowhere = torch.zeros(n, d), torch.full((n,), -1, dtype=torch.int64)
    return Memory(
        active_unique=nothing,
        passive_unique=nothing,
        active_common=torch.zeros(0, d),
        passive_common=torch.zeros(0, d),
        active_position=nowhere,
        passive_position=nowhere,
    )


def _plain(config: FedCVTConfig) -> FedCVTConfig:
    return replace(config, fill=False, live_keys=False, pseudo=False, l1=0.0, l2=0.0, l3=0.0, l4=0.0, l5=0.0)
