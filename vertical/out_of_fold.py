"""What the trainings of a search say of people whom they didn't train on.

Shapes: n aligned training rows, a active-only ones that some fold holds out, h and g of them held out by one fold,
k classes. Situations and heads stand in the order of `SITUATIONS` and `HEADS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vertical.encoders import Representation
from vertical.heads import HEADS
from vertical.predict import SITUATIONS, Predictor, Situation
from vertical.table import Rows

_AT = {situation: index for index, situation in enumerate(SITUATIONS)}


@dataclass(frozen=True, slots=True, eq=False)
class OutOfFold:
    """Logits of held-out rows from one candidate after one number of steps, filled in fold by fold; NaN where none is.

    aligned (3, 3, n, k) by situation and head; alone (3, a, k) by head, of which only the active party's view is known.
    """

    aligned: Tensor
    alone: Tensor

    @classmethod
    def blank(cls, n: int, a: int, classes: int) -> OutOfFold:
        """Nothing said yet."""
        nothing = float("nan")
        return cls(
            torch.full((len(SITUATIONS), len(HEADS), n, classes), nothing),
            torch.full((len(HEADS), a, classes), nothing),
        )

    def put(
        self,
        predictor: Predictor,
        aligned: tuple[Rows, Representation, Representation],
        alone: tuple[Rows, Representation],
    ) -> None:
        """Fills in one fold: positions of aligned people (h,) with both parties' views, of active-only ones (g,)."""
        rows, active, passive = aligned
        for situation, at in _AT.items():
            self.aligned[at][:, rows] = predictor.hide(situation, active, passive).stacked()
        rows, active = alone
        self.alone[:, rows] = predictor.head_logits(active, None).stacked()

    def logits(self, situation: Situation, head: str) -> NDArray[np.float64]:
        """Logits of the aligned rows (n, k), and with only the active party's view of the active-only ones too."""
        head_at = HEADS.index(head)
        logits = self.aligned[_AT[situation], head_at]
        if situation == Situation.ACTIVE_ONLY:
            logits = torch.cat([logits, self.alone[head_at]])
        result: NDArray[np.float64] = logits.numpy().astype(np.float64)
        return result

    def pack(self, prefix: str) -> dict[str, NDArray[np.generic]]:
        """As arrays, for a checkpoint (copies)."""
        return {
            f"{prefix}.aligned": self.aligned.numpy().copy(),
            f"{prefix}.alone": self.alone.numpy().copy(),
        }

    @classmethod
    def unpack(cls, prefix: str, state: Mapping[str, NDArray[np.generic]]) -> OutOfFold:
        """What `pack` kept."""
        return cls(torch.tensor(state[f"{prefix}.aligned"]), torch.tensor(state[f"{prefix}.alone"]))
