"""A link between two threads of one process: the verified fake of `TlsLink`, for tests and rehearsals."""

import threading
import time
from collections import deque
from collections.abc import Callable

from parties.links.link import SLICE_S, UNREAD_LIMIT, Check, never_stops, stopped_by
from protocols.errors import LinkError, PeerLost, PeerStopped, PeerTimeout


class _Side:
    """What one side of a MemoryLink has been sent and not read, and how the other side ended."""

    def __init__(self) -> None:
        self.unread: deque[bytes] = deque()
        self.unread_bytes = 0
        self.ended: LinkError | PeerStopped | None = None
        self.closed = False


class MemoryLink:
    """A link between two threads of one process; get both ends from `pair`."""

    def __init__(self, peer: str, own: _Side, other: _Side, changed: threading.Condition, name: str) -> None:
        self._peer, self._name = peer, name
        self._own, self._other = own, other
        self._changed = changed
        self._limit = UNREAD_LIMIT
        self._check: Check = never_stops
        self._patience = 1800.0

    @classmethod
    def pair(
        cls,
        first: str,
        second: str,
        *,
        limit: int = UNREAD_LIMIT,
        check: Check = never_stops,
        patience: float = 1800.0,
    ) -> "tuple[MemoryLink, MemoryLink]":
        """The end that party `first` holds (its peer is `second`) and the end of `second`."""
        one, two, changed = _Side(), _Side(), threading.Condition()
        ends = (cls(second, one, two, changed, first), cls(first, two, one, changed, second))
        for end in ends:
            end._limit, end._check, end._patience = limit, check, patience
        return ends

    @property
    def peer(self) -> str:
        """See `Link`."""
        return self._peer

    def send(self, data: bytes) -> None:
        """See `Link`."""
        with self._changed:
            self._wait(self._may_send, self._patience, "didn't read what was sent")
            if self._own.ended:
                raise self._own.ended
            self._other.unread.append(bytes(data))
            self._other.unread_bytes += len(data)
            self._changed.notify_all()

    def receive(self, timeout: float) -> bytes:
        """See `Link`."""
        with self._changed:
            self._wait(lambda: bool(self._own.unread or self._own.ended), timeout, "sent no message")
            if self._own.ended and (not self._own.unread or isinstance(self._own.ended, PeerStopped)):
                raise self._own.ended
            data = self._own.unread.popleft()
            self._own.unread_bytes -= len(data)
            self._changed.notify_all()
            return data

    def close(self, code: str = "") -> None:
        """See `Link`."""
        with self._changed:
            if self._own.closed:
                return
            self._own.closed = True
            if not self._other.ended:
                lost = PeerLost(f"{self._name} closed the link")
                self._other.ended = stopped_by(self._name, code.encode()) if code else lost
            self._changed.notify_all()

    def _may_send(self) -> bool:
        return self._own.ended is not None or self._other.unread_bytes <= self._limit

    def _wait(self, ready: Callable[[], bool], timeout: float, failing: str) -> None:
        deadline = time.monotonic() + timeout
        while True:
            self._check()
            if self._own.closed:
                raise LinkError(f"the link to {self._peer} is closed")
            if ready():
                return
            left = deadline - time.monotonic()
            if left <= 0:
                raise PeerTimeout(f"{self._peer} {failing} within {timeout:g} s")
            self._changed.wait(min(left, SLICE_S))
