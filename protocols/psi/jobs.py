"""The work of an alignment in parts that any process can do, and how a part and its result are written as bytes.

A job is a header (operation, secret, length) and its content, an answer a header (good or refused, length) and points.
Both go between processes of ours only, never to a peer.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from protocols.psi.curve import SECRET_BYTES, blind_keys, blind_points

Read = Callable[[int], bytes]
"""Reads so many bytes; fewer only at the end of what there is."""
_JOB: Final = struct.Struct(f"!B{SECRET_BYTES}sQ")
_ANSWER: Final = struct.Struct("!BQ")
_KEY_LENGTH: Final = struct.Struct("!I")


class Operation(IntEnum):
    """What a job does, see `protocols.psi.curve`."""

    BLIND_KEYS = 1
    BLIND_POINTS = 2


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Job:
    """One part of a set to be blinded. `content` is points one after the other, or keys as `pack_keys` packs them."""

    operation: Operation
    secret: bytes
    content: bytes

    def run(self) -> bytes:
        """The points, in the order of the content. ProtocolError for points that are none."""
        if self.operation is Operation.BLIND_KEYS:
            return blind_keys(self.secret, list(_unpack_keys(self.content)))
        return blind_points(self.secret, self.content)

    def encode(self) -> bytes:
        """The job as bytes; `read_job` reads it."""
        return _JOB.pack(self.operation, self.secret, len(self.content)) + self.content


def pack_keys(keys: Sequence[bytes]) -> bytes:
    """Keys as the content of a job: each after its length."""
    return b"".join(part for key in keys for part in (_KEY_LENGTH.pack(len(key)), key))


def _unpack_keys(content: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(content):
        (length,) = _KEY_LENGTH.unpack_from(content, at)
        at += _KEY_LENGTH.size + length
        yield content[at - length : at]


def read_job(read: Read) -> Job | None:
    """The next job; None when what there is ends before or within it."""
    head = read(_JOB.size)
    if len(head) < _JOB.size:
        return None
    operation, secret, length = _JOB.unpack(head)
    content = read(length)
    if len(content) < length:
        return None
    return Job(operation=Operation(operation), secret=secret, content=content)


def encode_answer(points: bytes | None) -> bytes:
    """The answer to a job: its points, or None for a job that was refused."""
    return _ANSWER.pack(points is not None, len(points or b"")) + (points or b"")


def read_answer(read: Read) -> bytes | None:
    """What `encode_answer` was given. EOFError when what there is ends before."""
    head = read(_ANSWER.size)
    if len(head) == _ANSWER.size:
        good, length = _ANSWER.unpack(head)
        points = read(length)
        if len(points) == length:
            return points if good else None
    raise EOFError("no whole answer")
