"""Randomness, split by who may know it.

The *public* seed is part of the request. It decides the order of rows, nothing else. Each party draws a
*private* seed for initial weights, dropout and noise and keeps it: a peer who knew it could subtract the
noise, or invert an encoder whose first weights it then knows. Tests, simulations and the demo inject private
seeds, so that every way of running a program gives the same numbers.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

PrivateSeed: TypeAlias = bytes
"""32 bytes that never leave their party."""

SEED_BYTES = 32


def draw() -> PrivateSeed:
    """A new private seed from the operating system."""
    return os.urandom(SEED_BYTES)


def injected(n: int, role: str) -> PrivateSeed:
    """The private seed number `n` of a role, for tests, `simulate` and the demo: everybody can compute it."""
    return hashlib.sha256(f"fedaccord injected seed\n{n}\n{role}".encode()).digest()


def derive(seed: bytes, purpose: str) -> int:
    """63 bits for one purpose: HMAC-SHA256(seed, purpose), cut. ValueError for an empty seed."""
    if not seed:
        raise ValueError("the seed is empty")
    return int.from_bytes(hmac.digest(seed, purpose.encode(), "sha256")[:8], "big") >> 1


def numpy_generator(seed: PrivateSeed | int, purpose: str) -> np.random.Generator:
    """A generator for one purpose, from a private seed (bytes) or a public one (int)."""
    return np.random.default_rng(derive(_as_bytes(seed), purpose))


def public_order(public_seed: int, group: str, size: int, batch: int, step: int) -> NDArray[np.int64]:
    """The rows, of 0..size-1, that all parties use of `group` at `step` (from 0): (min(batch, size),).

    An endless row of epochs. Each epoch is a new permutation cut into batches; rows that don't fill a batch
    sit this epoch out, so that every step has the same shape and no row is in a batch twice. With `batch >=
    size` each step has all rows in order. The result depends on these five values only, never on labels or
    features.
    """
    if size < 0 or batch < 1 or step < 0:
        raise ValueError(f"size {size}, batch {batch}, step {step}: expected at least 0, 1, 0")
    if batch >= size:
        return np.arange(size, dtype=np.int64)
    epoch, position = divmod(step, size // batch)
    return _permutation(public_seed, group, size, epoch)[position * batch : (position + 1) * batch].copy()


@lru_cache(maxsize=16)
def _permutation(public_seed: int, group: str, size: int, epoch: int) -> NDArray[np.int64]:
    # Parties may run different releases of numpy. It promises the same raw stream of a bit generator, but
    # not the same `Generator.permutation`: so sort random 64-bit numbers (a tie keeps its order).
    bits = np.random.PCG64(derive(_as_bytes(public_seed), f"order\n{group}\n{size}\n{epoch}"))
    order = np.argsort(bits.random_raw(size), kind="stable").astype(np.int64)
    order.flags.writeable = False
    return order


def _as_bytes(seed: bytes | int) -> bytes:
    return b"public %d" % seed if isinstance(seed, int) else seed
