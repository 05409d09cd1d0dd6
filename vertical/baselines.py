"""The baselines that a FedCVT report carries, as the same step with empty pools.

- aligned-only: f^AB on the aligned rows, no alone rows, no fill, no pseudo labels; the same two programs.
- active alone: f^A on all training rows of the active party; no messages.
"""

from __future__ import annotations

from dataclasses import replace

from vertical.config import FedCVTConfig


def aligned_only_config(config: FedCVTConfig) -> FedCVTConfig:
    """Settings of the aligned-only network: those of the run, without all that needs unaligned people."""
    return replace(
        _plain(config), steps=config.baseline_steps, alone_batch=0, memory_pool=0, max_passive_only=0
    )


def active_alone_config(config: FedCVTConfig) -> FedCVTConfig:
    """Settings of f^A by itself: batches as large as the run's aligned and active-only ones together."""
    batch = config.alone_batch + config.aligned_batch
    return replace(_plain(config), alone_batch=batch)


def _plain(config: FedCVTConfig) -> FedCVTConfig:
    return replace(config, fill=False, live_keys=False, pseudo=False, l1=0.0, l2=0.0, l3=0.0, l4=0.0, l5=0.0)
