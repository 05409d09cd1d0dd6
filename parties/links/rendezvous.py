"""Two workers of one run find each other: one listens on a port of its party's range, the other tries them.

The listener goes on when somebody else comes: no certificate, another's, plain HTTP, an old TLS, silence, or the same
peer with another run.  Each who comes is heard in a thread of its own, so that a silent one delays nobody.  The first
messages, in order: the dialer's hello; the listener's hello, only if the dialer's is for the same run (else the
stop code "other_run"); an empty message of the dialer, which settles that this connection is the one.
"""

import errno
import logging
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from parties.home.cards import parse_address
from parties.links.tls_identity import Pin, secure, tls_context
from parties.links.tls_link import Terms, TlsLink
from protocols.errors import (
    FedaccordError,
    LinkError,
    PeerRefused,
    PeerStopped,
    PeerTimeout,
    PortInUse,
    ProtocolError,
    WireError,
)

OTHER_RUN: Final = "other_run"
_log = logging.getLogger(__name__)
_STEP_S: Final = 5.0
"""Longest that one connection may take for TLS, and again for its hello."""
_HEARD_AT_ONCE: Final = 32
_REFUSALS: Final = (PeerRefused, PeerTimeout, ProtocolError, WireError, TimeoutError, ssl.SSLError)
"""What says that somebody came who isn't the peer with this run; a connection that breaks says nothing."""
TurnedAway = Callable[[str, str], None]
"""Told the host that a refused connection came from, and why it was refused; called from several threads."""


def tell_nobody(host: str, why: str) -> None:
    """Keeps no record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """What both `listen` and `dial` need; `hello` makes ours at the moment when it is sent, since it says the time;
    `is_ours` says whether the other's hello is for the same run."""

    pin: Pin
    address: str
    hello: Callable[[], bytes]
    is_ours: Callable[[bytes], bool]
    terms: Terms
    seconds: float = 25.0
    turned_away: TurnedAway = tell_nobody


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """The link that both sides settled on, the other's hello, and when it came (by `time.monotonic`)."""

    link: TlsLink
    hello: bytes
    came: float


def bind(address: str, host: str = "") -> socket.socket:
    """A listening socket on the first free port of "host:first-last", at `host` when another is given.

    Raises PortInUse when no port of the range is free, LinkError when the host isn't one of this machine.
    """
    named, first, last = parse_address(address)
    host = host or named
    for port in range(first, last + 1):
        try:
            return socket.create_server((host, port), family=_family(host), backlog=64)
        except OSError as problem:
            if problem.errno != errno.EADDRINUSE:
                why = errno.errorcode.get(problem.errno or 0, type(problem).__name__)
                raise LinkError(
                    f"can't listen on {host}:{port} ({why})",
                    remedy="the address in the party's card must be one of this machine",
                ) from problem
    raise PortInUse(
        f"no free port on {host} in {first}-{last}",
        remedy="end what uses these ports or agree on another range",
    )


def _family(host: str) -> socket.AddressFamily:
    return socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0]


def listen(listener: socket.socket, meeting: Meeting) -> Met:
    """Waits on a socket from `bind` for the peer; closes it.  PeerTimeout when the peer doesn't come in time."""
    return _Reception(listener, meeting).wait()


class _Reception:
    """Hears all who come and keeps the first that is the peer with this run."""

    def __init__(self, listener: socket.socket, meeting: Meeting) -> None:
        self._listener = listener
        self._meeting = meeting
        self._context = tls_context(meeting.pin, server=True)
        self._lock = threading.Lock()
        self._met: Met | None = None
        self._over = False
        self._refused = 0
        self._heard: deque[ssl.SSLSocket] = deque()

    def wait(self) -> Met:
        deadline = time.monotonic() + self._meeting.seconds
        with self._listener:
            self._listener.settimeout(0.05)
            try:
                while self._met is None:
                    self._meeting.terms.check()
                    if time.monotonic() > deadline:
                        raise self._nobody()
                    self._accept()
            finally:
                self._turn_away_the_rest()
        return self._met

    def _accept(self) -> None:
        try:
            raw, origin = self._listener.accept()
        except TimeoutError:
            return
        raw.settimeout(_STEP_S)
        caller = self._context.wrap_socket(raw, server_side=True, do_handshake_on_connect=False)
        with self._lock:
            self._heard.append(caller)
            oldest = self._heard.popleft() if len(self._heard) > _HEARD_AT_ONCE else None
        if oldest is not None:
            _hush(oldest)
        threading.Thread(target=self._hear, args=(caller, f"{origin[0]}:{origin[1]}"), daemon=True).start()

    def _hear(self, caller: ssl.SSLSocket, origin: str) -> None:
        pin = self._meeting.pin
        try:
            with _closing_on_error(caller):
                secure(caller, pin)
                self._settle(TlsLink(caller, pin.peer, self._meeting.terms), caller)
        except (OSError, FedaccordError) as problem:
            self._refused += 1
            _log.warning(
                "refused a connection from %s while waiting for %s: %s", origin, pin.peer, _describe(problem)
            )
            if isinstance(problem, _REFUSALS):
                self._meeting.turned_away(origin.rsplit(":", 1)[0], _describe(problem))
        finally:
            with self._lock:
                if caller in self._heard:
                    self._heard.remove(caller)

    def _settle(self, link: TlsLink, caller: ssl.SSLSocket) -> None:
        with _stopping_on_error(link):
            hello, came = link.receive(_STEP_S), time.monotonic()
            if not self._meeting.is_ours(hello):
                raise PeerRefused(f"{link.peer} came with another run")
            link.send(self._meeting.hello())
            self._await_settlement(link)
            with self._lock:
                if self._met is not None or self._over:
                    raise PeerRefused(f"{link.peer} came twice")
                self._met = Met(link=link, hello=hello, came=came)
                self._heard.remove(caller)

    def _await_settlement(self, link: TlsLink) -> None:
        """The dialer's word that this connection is the one; PeerRefused when another one was settled meanwhile.

        A dialer that has stopped since has settled too: its stop code overtakes that word, and comes out of the link
        again when it is used.
        """
        try:
            link.receive(_STEP_S)
        except PeerStopped as stopped:
            if stopped.reason == OTHER_RUN:
                raise
        except LinkError as problem:
            if self._over:
                raise PeerRefused(f"{link.peer} came twice") from problem
            raise

    def _nobody(self) -> PeerTimeout:
        port = self._listener.getsockname()[1]
        strangers = f"; {self._refused} other connections were refused" if self._refused else ""
        return PeerTimeout(
            f"{self._meeting.pin.peer} did not come to port {port} within {self._meeting.seconds:g} s{strangers}",
            remedy=f"ask {self._meeting.pin.peer} whether its side was started and can reach this port",
        )

    def _turn_away_the_rest(self) -> None:
        with self._lock:
            self._over = True
            rest = list(self._heard)
        for caller in rest:
            _hush(caller)


@contextmanager
def _closing_on_error(connection: ssl.SSLSocket) -> Iterator[None]:
    """Closes the connection when the block fails."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


@contextmanager
def _stopping_on_error(link: TlsLink) -> Iterator[None]:
    """Closes the link with the code "other_run" when the block fails."""
    try:
        yield
    except BaseException:
        link.close(OTHER_RUN)
        raise


def _hush(caller: ssl.SSLSocket) -> None:
    """Ends a connection that another thread is waiting on; that thread closes it."""
    try:
        socket.socket.shutdown(caller, socket.SHUT_RDWR)  # the plain one: TLS state belongs to that thread
    except OSError as problem:
        _log.debug("a connection was already gone: %s", type(problem).__name__)


def dial(meeting: Meeting) -> Met:
    """Tries the ports of the peer's range, again and again, until the peer answers with this run.

    Raises PeerRefused when something answered but never the peer with this run, PeerTimeout when nothing did.
    """
    host, first, last = parse_address(meeting.address)
    context = tls_context(meeting.pin, server=False)
    deadline = time.monotonic() + meeting.seconds
    not_before: dict[int, float] = {}
    found: FedaccordError | OSError | None = None
    while True:
        for port in range(first, last + 1):
            left = deadline - time.monotonic()
            meeting.terms.check()
            if left <= 0:
                raise _unanswered(meeting, found)
            if time.monotonic() < not_before.get(port, 0.0):
                continue
            try:
                return _try_port(host, port, meeting, context, min(left, _STEP_S))
            except ConnectionRefusedError:
                continue  # nobody listens there yet
            except (OSError, FedaccordError) as problem:
                _log.info(
                    "%s:%s isn't %s with this run: %s", host, port, meeting.pin.peer, _describe(problem)
                )
                if _refuses(problem) or not _refuses(found):
                    found = problem  # a connection that only broke doesn't outweigh a refusal
                pause = 3.0 if isinstance(problem, TimeoutError | PeerTimeout) else 0.3
                not_before[port] = time.monotonic() + pause
        time.sleep(0.05)


def _try_port(host: str, port: int, meeting: Meeting, context: ssl.SSLContext, seconds: float) -> Met:
    raw = socket.create_connection((host, port), timeout=min(seconds, 2.0))
    raw.settimeout(seconds)
    connection = context.wrap_socket(raw, do_handshake_on_connect=False)
    with _closing_on_error(connection):
        secure(connection, meeting.pin)
        link = TlsLink(connection, meeting.pin.peer, meeting.terms)
    with _stopping_on_error(link):
        link.send(meeting.hello())
        hello, came = link.receive(seconds), time.monotonic()
        if not meeting.is_ours(hello):
            raise PeerRefused(f"{link.peer} answered with another run")
        link.send(b"")
    return Met(link=link, hello=hello, came=came)


def _unanswered(meeting: Meeting, found: FedaccordError | OSError | None) -> LinkError:
    peer, where = meeting.pin.peer, f"at {meeting.address} within {meeting.seconds:g} s"
    if found is not None and _refuses(found):
        return PeerRefused(
            f"{peer} could not be met {where}: {_describe(found)}",
            remedy=f"compare the link certificates in both address books with {peer}",
        )
    why = f" (last: {_describe(found)})" if found is not None else ""
    return PeerTimeout(
        f"{peer} did not answer {where}{why}", remedy=f"ask {peer} whether its side was started"
    )


def _refuses(problem: FedaccordError | OSError | None) -> bool:
    """Whether it says that somebody else answered, or that the peer doesn't take us; a cut connection says nothing."""
    cut = isinstance(problem, ssl.SSLEOFError | ssl.SSLZeroReturnError)
    return isinstance(problem, PeerRefused | ssl.SSLError) and not cut


def _describe(problem: FedaccordError | OSError) -> str:
    if isinstance(problem, ssl.SSLError):
        return problem.reason or type(problem).__name__
    return str(problem) if isinstance(problem, FedaccordError) else type(problem).__name__
