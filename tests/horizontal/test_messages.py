"""Broadcast and Update on the wire."""

from __future__ import annotations

import numpy as np
import pytest

from horizontal.messages import KINDS, Broadcast, Task, Update
from protocols.errors import WireError
from protocols.wire import decode, encode

ARRAYS = {
    "net.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "net.count": np.array(4),
    "mask": np.array([True]),
}
EXTRAS = {"control.net.weight": np.ones((2, 3), np.float32), "steps": np.array(3)}


@pytest.mark.parametrize(
    "message",
    [
        Broadcast.of(3, Task.TRAIN, ARRAYS, EXTRAS),
        Broadcast.of(3, Task.FINISH, ARRAYS),
        Update.of(3, Task.TRAIN, 17, ARRAYS, EXTRAS),
        Update.of(
            3, Task.DESCRIBE, -5, {}, EXTRAS
        ),  # the aggregator says whose count this is; the wire doesn't
    ],
)
def test_arrays_survive_the_wire(message: Broadcast | Update) -> None:
    came = decode(encode(message), KINDS)
    assert came == message
    model = {} if message.task == Task.DESCRIBE else ARRAYS
    extras = {} if message.task == Task.FINISH else EXTRAS
    for found, sent in ((came.arrays(), model), (came.extra_arrays(), extras)):
        assert found.keys() == sent.keys()
        for name, value in sent.items():
            assert found[name].dtype == value.dtype
            np.testing.assert_array_equal(found[name], value)
            assert not found[name].flags.writeable


def test_a_failure_survives_the_wire_and_carries_nothing_else() -> None:
    message = Update.failed(2, Task.TRAIN, "internal")
    assert decode(encode(message), KINDS) == message
    assert (message.examples, message.model, message.extras) == (0, b"", b"")


@pytest.mark.parametrize(("examples", "model", "extras"), [(1, b"", b""), (0, b"x", b""), (0, b"", b"x")])
def test_a_failure_with_content_is_refused(examples: int, model: bytes, extras: bytes) -> None:
    with pytest.raises(WireError, match="failure"):
        Update(1, "train", examples, "internal", model, extras)


def test_unknown_tasks_are_refused() -> None:
    with pytest.raises(WireError, match=r"Broadcast\.task: expected one of train, describe, finish"):
        Broadcast(1, "delete", b"", b"")
    with pytest.raises(WireError, match=r"Update\.task"):
        Update(1, "", 1, "", b"", b"")


def test_malformed_arrays_are_a_wire_error() -> None:
    update = Update(1, "train", 5, "", b"not arrays", b"nor this")
    for read in (update.arrays, update.extra_arrays):
        with pytest.raises(WireError):
            read()
