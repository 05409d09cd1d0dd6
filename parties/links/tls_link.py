"""A link over TLS 1.3 in which each side trusts exactly one certificate: the other's.

One thread (the program's) moves the bytes: while it sends it also reads, so that two sides that send at once never
wait for each other.  A second, small thread only adds a keep-alive when nothing else was sent.  OpenSSL forbids
two threads in one connection at a time, so each single call into it is made under a lock and never waits there.
"""

import logging
import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from parties.links.link import (
    MESSAGE_LIMIT,
    SLICE_S,
    UNREAD_LIMIT,
    Check,
    Frame,
    FrameReader,
    frame,
    message_frames,
    never_stops,
    stopped_by,
)
from protocols.errors import (
    LinkError,
    PeerLost,
    PeerRefused,
    PeerStopped,
    PeerTimeout,
    ProtocolError,
)

_log = logging.getLogger(__name__)
_FAREWELL_S: Final = 1.5
"""Time that a closing side gives its last words, and the other to close too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How long a link waits, in seconds: for a message to be taken, for a sign of life, between keep-alives."""

    patience: float = 1800.0
    silence: float = 25.0
    keep_alive: float = 3.0
    message_limit: int = MESSAGE_LIMIT
    unread_limit: int = UNREAD_LIMIT
    check: Check = never_stops


class TlsLink:
    """See `parties.links.link.Link`; takes over a connection that passed `secure`."""

    def __init__(self, connection: ssl.SSLSocket, peer: str, terms: Terms) -> None:
        self._peer = peer
        self._terms = terms
        self._connection = connection
        connection.setblocking(False)
        _notice_dead_hosts(connection)
        self._lock = (
            threading.Lock()
        )  # guards all below; held for single calls into OpenSSL and, at most 1.5 s, by the last hang-up
        self._outgoing: deque[tuple[memoryview, bool]] = deque()
        self._reader = FrameReader(peer, limit=terms.message_limit)
        self._unread: deque[bytes] = deque()
        self._unread_bytes = 0
        self._ended: LinkError | PeerStopped | ProtocolError | None = None
        self._heard = time.monotonic()
        self._users = 0  # threads in `_exchange` and `close`; the last one out frees the socket
        self._closed = threading.Event()
        self._ticker = threading.Thread(target=self._keep_alive, name=f"keep-alive {peer}", daemon=True)
        self._ticker.start()

    @property
    def peer(self) -> str:
        """See `Link`."""
        return self._peer

    def send(self, data: bytes) -> None:
        """See `Link`; returns when the operating system has taken all of `data`."""
        with self._lock:
            self._refuse_when_closed()
            self._outgoing.extend(message_frames(data))
        self._exchange(lambda: not self._outgoing, self._terms.patience, "didn't read what was sent")

    def receive(self, timeout: float) -> bytes:
        """See `Link`."""
        self._exchange(lambda: bool(self._unread), timeout, "sent no message")
        with self._lock:
            data = self._unread.popleft()
            self._unread_bytes -= len(data)
        return data

    def close(self, code: str = "") -> None:
        """See `Link`; tries for at most 1.5 s to get the code over, and to let the peer read all."""
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
            self._users += 1
        try:
            end = time.monotonic() + _FAREWELL_S
            if code and self._ended is None:
                self._say(frame(Frame.STOP, code.encode()[:64]), end)
            self._hang_up(end)
        finally:
            self._leave()

    def _refuse_when_closed(self) -> None:
        if self._closed.is_set():
            self._terms.check()  # if another thread closed, it's because this side stops: say that instead
            raise LinkError(f"the link to {self._peer} is closed")

    def _exchange(self, done: Callable[[], bool], timeout: float, failing: str) -> None:
        """Moves bytes both ways until `done`; raises how the link ended, or PeerTimeout."""
        deadline = time.monotonic() + timeout
        with self._lock:
            self._refuse_when_closed()
            self._users += 1
        try:
            while not self._advance(done):
                self._terms.check()
                now = time.monotonic()
                if now >= deadline:
                    raise PeerTimeout(f"{self._peer} {failing} within {timeout:g} s")
                if now - self._heard > self._terms.silence:
                    raise PeerTimeout(f"{self._peer} gave no sign of life for {self._terms.silence:g} s")
                self._wait(min(SLICE_S, deadline - now))
        finally:
            self._leave()

    def _leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._closed.is_set() and not self._users:
                self._connection.close()

    def _advance(self, done: Callable[[], bool]) -> bool:
        """Writes and reads what goes without waiting; whether `done`.  Raises how the link ended."""
        with self._lock:
            self._refuse_when_closed()
            self._flush()
            self._drain()
            if isinstance(self._ended, PeerStopped):
                raise self._ended
            if done():
                return True
            if self._ended is not None:
                raise self._ended
            return False

    def _wait(self, seconds: float) -> None:
        events = select.POLLIN if self._unread_bytes <= self._terms.unread_limit else 0
        _ready(self._connection, events | (select.POLLOUT if self._outgoing else 0), seconds)

    def _flush(self) -> None:
        """Writes what the connection takes now."""
        while self._outgoing and self._ended is None:
            buffer, ends_frame = self._outgoing[0]
            try:
                count = self._connection.send(buffer)
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                return
            except OSError as problem:
                self._drain()  # the peer may have said why before it went
                self._end(problem)
                return
            if count == len(buffer):
                self._outgoing.popleft()
            else:
                self._outgoing[0] = (buffer[count:], ends_frame)

    def _drain(self) -> None:
        """Reads what has come, at most to the end of one message."""
        while self._ended is None and self._unread_bytes <= self._terms.unread_limit:
            try:
                count = self._connection.recv_into(self._reader.space())
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            except OSError as problem:
                self._end(problem)
                return
            if not count:
                self._ended = PeerLost(f"{self._peer} closed the link")
                return
            self._heard = time.monotonic()
            try:
                came = self._reader.filled(count)
            except ProtocolError as problem:
                self._ended = problem
                return
            if came is not None and self._take(*came):
                return

    def _take(self, kind: Frame, data: bytes) -> bool:
        if kind is Frame.STOP:
            self._ended = stopped_by(self._peer, data)
        elif kind is Frame.LAST:
            self._unread.append(data)
            self._unread_bytes += len(data)
            return True
        return False

    def _end(self, problem: OSError) -> None:
        if self._ended is None:
            if isinstance(problem, ssl.SSLError) and "ALERT" in (problem.reason or ""):
                self._ended = PeerRefused(f"{self._peer} refused the connection: {problem.reason}")
            else:
                self._ended = PeerLost(f"the link to {self._peer} broke ({type(problem).__name__})")

    def _keep_alive(self) -> None:
        while not self._closed.wait(self._terms.keep_alive):
            with self._lock:
                if self._closed.is_set() or self._ended is not None:
                    return
                if not self._outgoing:
                    self._outgoing.append((memoryview(frame(Frame.KEEP_ALIVE)), True))
                self._flush()

    def _say(self, last: bytes, end: float) -> None:
        """Sends a last frame after the one that is half sent, if any; drops what was to follow that."""
        with self._lock:
            for position, (_, ends_frame) in enumerate(self._outgoing):
                if ends_frame:
                    while len(self._outgoing) > position + 1:
                        self._outgoing.pop()
                    break
            self._outgoing.append((memoryview(last), True))
        while time.monotonic() < end:
            with self._lock:
                self._flush()
                if not self._outgoing or self._ended is not None:
                    return
                self._drain()
            self._wait(0.05)

    def _hang_up(self, end: float) -> None:
        """Closes in the order that loses nothing: no more from us, read to the peer's end, then close."""
        with self._lock:
            try:
                # The plain socket's calls: TLS is over, and what still comes is thrown away unread.
                socket.socket.shutdown(self._connection, socket.SHUT_WR)
                while time.monotonic() < end:
                    if _ready(self._connection, select.POLLIN, 0.05) and not socket.socket.recv(
                        self._connection, 1 << 16
                    ):
                        break
            except OSError as problem:
                _log.debug("link to %s: %s while closing", self._peer, type(problem).__name__)


def _ready(connection: socket.socket, events: int, seconds: float) -> bool:
    """Whether one of the events happens in time; a poll object of its own, since two threads may wait."""
    poll = select.poll()
    poll.register(connection, events)
    return bool(poll.poll(max(1.0, 1000 * seconds)))


def _notice_dead_hosts(connection: socket.socket) -> None:
    """Lets the kernel find a host that vanished without a word, also while the program computes."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, seconds in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), seconds)
