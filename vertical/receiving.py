"""Arrays from the peer, each checked: nothing here trusts a shape, a position or a number.

A ProtocolError says what was expected and what came. Shapes: r rows in all, w their width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from protocols.errors import ProtocolError
from protocols.program import Program, receive
from vertical.arrays import to_array
from vertical.messages import AloneViews, Part

P = TypeVar("P", bound=Part)


def received(array: NDArray[np.float32], shape: tuple[int, int], what: str) -> Tensor:
    """The peer's array as a tensor of its own; ProtocolError if it isn't of this shape or not finite."""
    if array.shape != shape:
        raise ProtocolError(f"{what}: expected shape {shape}, came {array.shape}")
    if not np.isfinite(array).all():
        raise ProtocolError(f"{what}: some values are not finite")
    return torch.tensor(array)


def expect_number(came: int, expected: int, what: str) -> None:
    """ProtocolError unless the peer's step or position is the expected one."""
    if came != expected:
        raise ProtocolError(f"{what}: expected {expected}, came {came}")


def receive_rows(
    peer: str,
    kind: type[P],
    values: Callable[[P], NDArray[np.float32]],
    parts: Sequence[slice],
    width: int,
) -> Program[NDArray[np.float32]]:
    """The rows (r, w) that come in messages of one kind, one for each of the consecutive `parts`."""
    rows = np.zeros((parts[-1].stop if parts else 0, width), np.float32)
    what = f"{kind.__name__} from {peer}"
    for part in parts:
        message = yield from receive(peer, kind)
        expect_number(message.start, part.start, what)
        rows[part] = to_array(received(values(message), (part.stop - part.start, width), what))
    return rows


def receive_alone(
    peer: str, kind: type[AloneViews], most: int, width: int
) -> Program[list[NDArray[np.float32]]]:
    """The parts, each (c, w), of a list of which only the peer knows the length, `most` rows at most."""
    parts: list[NDArray[np.float32]] = []
    what = f"{kind.__name__} from {peer}"
    position, total = 0, -1
    while position < total or total < 0:
        message = yield from receive(peer, kind)
        if total < 0:
            total = message.of
        if not 0 <= total <= most:
            raise ProtocolError(f"{what}: {total} people, at most {most} are allowed")
        expect_number(message.start, position, what)
        expect_number(message.of, total, what)
        rows = len(message.views)
        if not rows <= total - position or (total and not rows):
            raise ProtocolError(f"{what}: {rows} rows at {position} of {total}")
        parts.append(to_array(received(message.views, (rows, width), what)))
        position += rows
    return parts
