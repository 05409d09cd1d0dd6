"""A client's rows, as its work finds them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from horizontal.local import Examples
from protocols.seeds import PrivateSeed, numpy_generator

Rows: TypeAlias = Callable[[int], Examples]
"""The training rows that a client has in a round, by its number from 1."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClientData:
    """Rows for training, always the same ones or those of a round, and where there are any, for validation and test.

    `public_probe` (B, ...) is FedOUI's, the same for all clients; None: rows of the client's own. `seconds` is what a
    round is expected to take.
    """

    training: Examples | Rows
    validation: Examples | None = None
    test: Examples | None = None
    public_probe: Tensor | None = None
    seconds: float = 0.0

    def rows(self, number: int) -> Examples:
        """The training rows in a round."""
        return self.training if isinstance(self.training, Examples) else self.training(number)

    def held_out(self, rows: Examples) -> Examples:
        """The validation rows; if there are none, no rows of the shape of these."""
        return self.validation or Examples(rows.features[:0], rows.labels[:0])

    def probe(self, rows: Examples, size: int, seed: PrivateSeed) -> Tensor:
        """At most `size` rows for FedOUI's probe: the same ones each round, as long as the rows are the same."""
        if self.public_probe is not None:
            return self.public_probe
        # A number for each row, which stays its own when more rows come.
        keys = numpy_generator(seed, "probe").random(len(rows))
        return rows.features[torch.from_numpy(np.sort(np.argsort(keys)[:size]))]
