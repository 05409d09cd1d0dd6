"""Broadcast and Update on the wire."""

from __future__ import annotations

import numpy as np
import pytest

from horizontal.messages import KINDS, Broadcast, Update
from protocols.errors import WireError
from protocols.wire import decode, encode

ARRAYS = {
    "net.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "net.count": np.array(4),
    "mask": np.array([True]),
}


@pytest.mark.parametrize(
    "message",
    [
        Broadcast.of(3, ARRAYS),
        Broadcast.of(3, ARRAYS, last=True),
        Update.trained(3, 17, ARRAYS),
        Update.trained(3, -5, ARRAYS),  # the aggregator says whose count this is; the wire doesn't
    ],
)
def test_arrays_survive_the_wire(message: Broadcast | Update) -> None:
    came = decode(encode(message), KINDS)
    assert came == message
    arrays = came.arrays()
    assert arrays.keys() == ARRAYS.keys()
    for name, value in ARRAYS.items():
        assert arrays[name].dtype == value.dtype
        np.testing.assert_array_equal(arrays[name], value)
        assert not arrays[name].flags.writeable


def test_a_failure_survives_the_wire_and_carries_nothing_else() -> None:
    message = Update.failed(2, "internal")
    assert decode(encode(message), KINDS) == message
    assert (message.examples, message.packed) == (0, b"")


@pytest.mark.parametrize(("examples", "packed"), [(1, b""), (0, b"x")])
def test_a_failure_with_content_is_refused(examples: int, packed: bytes) -> None:
    with pytest.raises(WireError, match="failure"):
        Update(1, examples, "internal", packed)


def test_malformed_arrays_are_a_wire_error() -> None:
    with pytest.raises(WireError):
        Update(1, 5, "", b"not arrays").arrays()
