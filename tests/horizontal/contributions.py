"""Contributions for tests."""

from __future__ import annotations

import numpy as np

from horizontal.average import Contribution


def made(*pairs, dtype=np.float32) -> list[Contribution]:
    """Contributions of client-1, client-2, ... from (values, examples)."""
    return [
        Contribution(client=f"client-{i}", examples=n, arrays={"w": np.array(values, dtype)})
        for i, (values, n) in enumerate(pairs, 1)
    ]
