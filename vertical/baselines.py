"""The aligned-only network, a baseline of every FedCVT report, as the same step with empty pools.

f^AB on the aligned rows, no alone rows, no fill, no pseudo labels; the same two programs.
"""

from __future__ import annotations

from dataclasses import replace

from vertical.config import FedCVTConfig


def aligned_only_config(config: FedCVTConfig) -> FedCVTConfig:
    """Settings of the aligned-only network: those of the run, without all that needs unaligned people."""
    return replace(
        config,
        steps=config.baseline_steps,
        alone_batch=0,
        memory_pool=0,
        max_passive_only=0,
        fill=False,
        live_keys=False,
        pseudo=False,
        l1=0.0,
        l2=0.0,
        l3=0.0,
        l4=0.0,
        l5=0.0,
    )
