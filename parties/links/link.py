"""The contract between two workers: ordered messages of bytes, liveness, and an end that says why.

`TlsLink` carries a run; `MemoryLink` is its verified fake for one process.  One conformance test
holds for both.  This module also has the framing, as a pure object that never sees a socket.

A frame is a kind (1 byte), a length (4 bytes, network order) and that many bytes:

| kind | bytes | meaning |
|---|---|---|
| PART | 1 to FRAME_LIMIT | a piece of a message; more follows |
| LAST | 0 to FRAME_LIMIT | the last, mostly the only, piece |
| KEEP_ALIVE | 0 | sent while there is nothing else, so that a long computation isn't taken for a dead peer |
| STOP | 1 to 64 | why this side ends the run: a code of `protocols.errors`; overtakes messages not yet read |
"""

import struct
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Final, Protocol

from protocols.errors import PeerStopped, ProtocolError

FRAME_LIMIT: Final = 1 << 18
MESSAGE_LIMIT: Final = (1 << 26) + (1 << 12)
"""Bytes of the largest message: the largest that the wire format knows, and a little."""
UNREAD_LIMIT: Final = 1 << 27
"""Bytes a side keeps for a program that doesn't read them yet; above it, the sender has to wait."""
SLICE_S: Final = 0.2
"""A waiting link looks this often whether its own side wants to stop."""

HEADER: Final = struct.Struct("!BI")
_FIRST_RECORD: Final = 16_384 - HEADER.size

Check = Callable[[], None]
"""Called while a link waits; what it raises (a cancel, say) ends the wait."""


def never_stops() -> None:
    """The check of a link whose side nobody can stop."""


class Link(Protocol):
    """One end of a connection to one peer; send and receive are for one thread, close for any."""

    @property
    def peer(self) -> str:
        """Name of the other party, as it stands in every error of this link."""

    def send(self, data: bytes) -> None:
        """Hands over one message; waits while the peer has too much unread.  Raises like `receive`."""

    def receive(self, timeout: float) -> bytes:
        """The next message in the order sent.

        Raises PeerTimeout when none comes within `timeout` seconds or the peer gives no sign of life, PeerStopped
        with the peer's reason as soon as that is known, PeerLost when the peer is gone and all it sent is read,
        LinkError after this side's own close.
        """

    def close(self, code: str = "") -> None:
        """Ends the link; with a code the peer gets PeerStopped instead of PeerLost.  Repeating it does nothing."""


class Frame(IntEnum):
    """The kinds of frame."""

    PART = 1
    LAST = 2
    KEEP_ALIVE = 3
    STOP = 4


_LARGEST: Final = {Frame.PART: FRAME_LIMIT, Frame.LAST: FRAME_LIMIT, Frame.KEEP_ALIVE: 0, Frame.STOP: 64}


def frame(kind: Frame, data: bytes = b"") -> bytes:
    """One small frame."""
    return HEADER.pack(kind, len(data)) + data


def message_frames(data: bytes) -> Iterator[tuple[memoryview, bool]]:
    """The buffers to write for one message, each with whether a frame ends there.

    A frame's head is joined with the first bytes, to fill one TLS record; the rest isn't copied.
    """
    view = memoryview(data)
    for start in range(0, max(len(view), 1), FRAME_LIMIT):
        piece = view[start : start + FRAME_LIMIT]
        kind = Frame.LAST if start + FRAME_LIMIT >= len(view) else Frame.PART
        rest = piece[_FIRST_RECORD:]
        yield memoryview(HEADER.pack(kind, len(piece)) + piece[:_FIRST_RECORD]), not rest
        if rest:
            yield rest, True


class FrameReader:
    """Received bytes in, frames out: fill `space()`, then tell `filled()` how many bytes came.

    Sizes are checked before anything of that size is allocated; ProtocolError names the peer at fault.  The space is
    used again for each message, since fresh memory costs more than the bytes that go into it.
    """

    def __init__(self, peer: str, *, limit: int = MESSAGE_LIMIT) -> None:
        self._peer = peer
        self._limit = limit
        self._head = bytearray(HEADER.size)
        self._body = bytearray(1 << 16)
        self._message = 0  # bytes of the message whose pieces stand at the start of the body
        self._kind: Frame | None = None  # None: the next bytes are a head
        self._target = memoryview(self._head)
        self._have = 0

    def space(self) -> memoryview:
        """Where the next bytes belong; never empty."""
        return self._target[self._have :]

    def filled(self, count: int) -> tuple[Frame, bytes] | None:
        """The frame that these bytes complete: (LAST, whole message), (KEEP_ALIVE, b""), (STOP, code) or None."""
        self._have += count
        if self._have < len(self._target):
            return None
        if self._kind is None:
            self._kind, length = self._parse_head()
            self._make_room(self._message + length)
            self._target, self._have = memoryview(self._body)[self._message : self._message + length], 0
            if length:
                return None
        return self._complete(self._kind)

    def _parse_head(self) -> tuple[Frame, int]:
        number, length = HEADER.unpack(self._head)
        try:
            kind = Frame(number)
        except ValueError as problem:
            raise ProtocolError(f"{self._peer} sent a frame of unknown kind {number}") from problem
        if length > _LARGEST[kind]:
            raise ProtocolError(f"{self._peer} sent a frame of {length} bytes, {_LARGEST[kind]} are allowed")
        if kind is Frame.PART and not length:
            raise ProtocolError(f"{self._peer} sent an empty piece of a message")
        if kind in (Frame.PART, Frame.LAST) and self._message + length > self._limit:
            raise ProtocolError(f"{self._peer} sent a message above {self._limit} bytes")
        return kind, length

    def _make_room(self, size: int) -> None:
        if size > len(self._body):
            larger = bytearray(max(size, min(2 * len(self._body), self._limit)))
            larger[: self._message] = self._body[: self._message]
            self._body = larger

    def _complete(self, kind: Frame) -> tuple[Frame, bytes] | None:
        start, end = self._message, self._message + len(self._target)
        self._kind, self._target, self._have = None, memoryview(self._head), 0
        if kind is Frame.PART:
            self._message = end
            return None
        if kind is Frame.LAST:
            start = self._message = 0
        return kind, bytes(memoryview(self._body)[start:end])


def stopped_by(peer: str, code: bytes) -> PeerStopped:
    """The error for a STOP frame; what isn't shaped like a code becomes "unknown"."""
    stopped = PeerStopped("", reason=code.decode("ascii", "replace"))
    return PeerStopped(f"{peer} stopped the run: {stopped.reason}", reason=stopped.reason)
