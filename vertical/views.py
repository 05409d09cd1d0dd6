"""Filling the view that a person lacks, both ways, from people who have it.

Shapes: N aligned training rows in all, n of them in this step, m queries, u_A and u_B width of the active and of the
passive party's unique representation, d width of the common ones, P_A and P_B rows of the active and of the passive
party's common pool. Active queries look for passive views and the other way round.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vertical.attention import attend
from vertical.config import FedCVTConfig
from vertical.encoders import Representation
from vertical.pool_attention import Pool, attend_pool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Memory:
    """Keys and values of the fill, without gradient, refreshed every few steps.

    active_unique (N, u_A), passive_unique (N, u_B): row i of both is the same person.
    active_common (P_A, d), passive_common (P_B, d): pools of each party's own training rows.
    active_position, passive_position int64 (N,): where aligned row i stands in that party's pool, -1 if
    nowhere; a row that asks is hidden there from itself.
    """

    active_unique: Tensor
    passive_unique: Tensor
    active_common: Tensor
    passive_common: Tensor
    active_position: Tensor
    passive_position: Tensor

    @classmethod
    def blank(cls, config: FedCVTConfig, n: int) -> Memory:
        """A memory with nothing in it of n aligned rows; of nobody, n = 0, every fill is the zero vector."""
        active, passive = config.active_view, config.passive_view
        nowhere = torch.full((n,), -1, dtype=torch.int64)
        return cls(
            active_unique=torch.zeros(n, active.unique),
            passive_unique=torch.zeros(n, passive.unique),
            active_common=torch.zeros(0, active.common),
            passive_common=torch.zeros(0, passive.common),
            active_position=nowhere,
            passive_position=nowhere,
        )

    def active_pool(self) -> Pool:
        """The active party's common representations."""
        return Pool(self.active_common)

    def passive_pool(self) -> Pool:
        """The passive party's common representations."""
        return Pool(self.passive_common)

    def passive_aligned(self) -> Representation:
        """The passive party's views of the N aligned rows, all of which must stand in its pool."""
        return Representation(self.passive_unique, self.passive_common[self.passive_position])


def fill_passive(
    active: Representation, memory: Memory, *, temperature: float, rows: Tensor | None = None
) -> Representation:
    """The passive view, (m, u_B) and (m, d), filled for m people of whom only the active view is known.

    Unique: match inside the active party, copy from the passive one. Common: match across the parties.
    `rows` int64 (m,) are the aligned positions of the queries when they are aligned people themselves: each
    one's own row is then hidden (ours: else attention learns to pick the row itself).
    """
    own_common = None if rows is None else memory.passive_position[rows]
    unique = attend(
        active.unique, memory.active_unique, memory.passive_unique, temperature=temperature, own=rows
    )
    pool = memory.passive_pool()
    return Representation(unique, attend_pool(active.common, pool, temperature=temperature, own=own_common))


def fill_active(
    passive: Representation, memory: Memory, *, temperature: float, rows: Tensor | None = None
) -> Representation:
    """The active view, (m, u_A) and (m, d), of m people of whom only the passive view is known; see fill_passive."""
    own_common = None if rows is None else memory.active_position[rows]
    unique = attend(
        passive.unique, memory.passive_unique, memory.active_unique, temperature=temperature, own=rows
    )
    pool = memory.active_pool()
    return Representation(unique, attend_pool(passive.common, pool, temperature=temperature, own=own_common))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LiveMemory(Memory):
    """A memory in which a step's aligned rows stand in place of their remembered copies.

    The unique representations have the live rows' history; the common ones have only their values, the history is in
    the pools.
    """

    active_live: Pool
    passive_live: Pool

    def active_pool(self) -> Pool:
        """The active party's common representations, the live rows with their history."""
        return self.active_live

    def passive_pool(self) -> Pool:
        """The passive party's common representations, the live rows with their history."""
        return self.passive_live


def with_live_rows(
    memory: Memory, active: Representation, passive: Representation, rows: Tensor
) -> LiveMemory:
    """The memory with the step's n aligned rows in place of their remembered copies, gradient included.

    `rows` int64 (n,) are their aligned positions. So a fill learns through the keys and values that are at
    hand anyway, and only absent rows are stale.
    """
    active_live = _replace(memory.active_common, memory.active_position[rows], active.common)
    passive_live = _replace(memory.passive_common, memory.passive_position[rows], passive.common)
    return LiveMemory(
        active_unique=memory.active_unique.index_copy(0, rows, active.unique),
        passive_unique=memory.passive_unique.index_copy(0, rows, passive.unique),
        active_common=active_live.rows,
        passive_common=passive_live.rows,
        active_position=memory.active_position,
        passive_position=memory.passive_position,
        active_live=active_live,
        passive_live=passive_live,
    )


def _replace(pool: Tensor, positions: Tensor, live: Tensor) -> Pool:
    inside = positions >= 0
    at, live = positions[inside], live[inside]
    return Pool(pool.index_copy(0, at, live.detach()), live, at)
