"""Lines of a release manifest, made from the largest message of each kind."""

import numpy as np
from numpy.typing import NDArray

from protocols.chunks import chunk_length
from protocols.request import Release
from protocols.wire import Message, encoded_size, shapes


def release(largest: Message, sender: str, receiver: str, repetitions: int, learns: str) -> Release:
    """The line of so many messages, none larger than `largest`, and what the receiver learns from them."""
    return Release(
        kind=type(largest).__name__,
        sender=sender,
        receiver=receiver,
        shapes=tuple(sorted(shapes(largest).items())),
        repetitions=repetitions,
        max_bytes=encoded_size(largest),
        learns=learns,
    )


def parts(rows: int, bound: int, batch: int) -> tuple[int, int]:
    """Length and number of the parts in which up to `rows` of at most `bound` rows are sent."""
    length = chunk_length(bound, batch)
    return min(length, rows), max(1, -(-rows // length))


def floats(rows: int, width: int) -> NDArray[np.float32]:
    """An array of that shape."""
    return np.zeros((rows, width), np.float32)
