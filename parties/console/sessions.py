"""Who is logged in at the console: sessions that hold an unlocked key and end soon, one-use tickets, failed attempts.

All of it is in memory only. A clock in seconds, and the source of random texts, come in as arguments.
"""

import secrets
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from parties.roles.signer import Signer
from protocols.errors import FedaccordError

IDLE = 15 * 60.0
LONGEST = 8 * 3600.0
TICKET = 5 * 60.0
"""Seconds after which a session ends without a page being opened, ends in any case, and a ticket is void."""
SESSIONS = 32
"""How many sessions may be open; one more ends the oldest."""
ATTEMPTS, PER = 5, 60.0
"""Failed logins, by whomever, and in how many seconds, before the next has to wait."""

Clock = Callable[[], float]
Token = Callable[[], str]


class ThrottleError(FedaccordError):
    """Too many logins failed a moment ago."""

    code = "throttled"


def new_token() -> str:
    """A text of 256 random bits."""
    return secrets.token_urlsafe(32)


@dataclass(slots=True, kw_only=True)
class Session:
    """One person's session: `csrf` stands in each of its forms; `notice` is shown once, on the next page."""

    signer: Signer
    csrf: str
    started: float
    used: float
    notice: str = ""


@dataclass(slots=True)
class Sessions:
    """The open sessions by the text in their cookie; several threads may use them."""

    clock: Clock
    token: Token = new_token
    _open: dict[str, Session] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def open(self, signer: Signer) -> str:
        """A new session of the person, by its cookie's text."""
        now = self.clock()
        with self._lock:
            while len(self._open) >= SESSIONS:
                del self._open[next(iter(self._open))]
            cookie = self.token()
            self._open[cookie] = Session(signer=signer, csrf=self.token(), started=now, used=now)
            return cookie

    def find(self, cookie: str, *, touch: bool) -> Session | None:
        """The session, None when there is none (any more); `touch` counts as use, a page that renews itself doesn't."""
        now = self.clock()
        with self._lock:
            for known, session in list(self._open.items()):
                if now - session.used >= IDLE or now - session.started >= LONGEST:
                    del self._open[known]
            found = self._open.get(cookie)
            if found is not None and touch:
                found.used = now
            return found

    def close(self, cookie: str) -> None:
        """Ends the session, if it is open; its key is dropped with it."""
        with self._lock:
            self._open.pop(cookie, None)


@dataclass(slots=True)
class Tickets:
    """Links that log a person in once, whose key was unlocked on the terminal."""

    clock: Clock
    token: Token = new_token
    _open: dict[str, tuple[Signer, float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def issue(self, signer: Signer) -> str:
        """A new ticket's text."""
        with self._lock:
            ticket = self.token()
            self._open[ticket] = (signer, self.clock() + TICKET)
            return ticket

    def take(self, ticket: str) -> Signer | None:
        """The person of the ticket, once and in time; None otherwise."""
        with self._lock:
            signer, end = self._open.pop(ticket, (None, 0.0))
            return signer if self.clock() < end else None


@dataclass(slots=True)
class Attempts:
    """Failed logins of the last moments, over all names: a guesser gets ATTEMPTS guesses in PER seconds."""

    clock: Clock
    _failed: deque[float] = field(default_factory=deque)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def check(self) -> None:
        """ThrottleError when too many failed."""
        with self._lock:
            while self._failed and self.clock() - self._failed[0] >= PER:
                self._failed.popleft()
            if len(self._failed) >= ATTEMPTS:
                raise ThrottleError(
                    "too many logins failed", remedy=f"wait up to {PER:.0f} seconds, then try again"
                )

    def failed(self) -> None:
        """Counts one."""
        with self._lock:
            self._failed.append(self.clock())
