"""Who logged in at the party's syft server, and who failed to, as the audit log has it.

The syft process tells of each attempt before it answers; a login that can't be logged is refused there. Somebody who
tries passwords without end must not fill the log: of failures only so many a minute are entries, the next one says how
many were left out. A text that is no account's e-mail isn't written down: it may be a password.
"""

import threading
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from parties.home.journal import Actor, Journal
from parties.home.state import State
from protocols.audit import AuditEvent
from protocols.errors import RequestError

FAILURES, WINDOW = 10, timedelta(minutes=1)
UNKNOWN = "unknown account"


class Logins:
    """Writes one party's logins; `accounts` gives the e-mail of each analyst's account by name."""

    def __init__(
        self,
        state: State,
        journal: Journal,
        accounts: Callable[[], Mapping[str, str]],
        now: Callable[[], datetime],
    ) -> None:
        self._state = state
        self._journal = journal
        self._accounts = accounts
        self._now = now
        self._lock = threading.Lock()
        self._began = now() - WINDOW
        self._failures = self._left_out = 0

    def note(self, email: str, ok: bool) -> None:
        """One attempt; AuditError when it can't be logged."""
        target = f"datasite {self._state.name}"
        if ok:
            self._journal.ok(AuditEvent.LOGIN, self._actor(email), target)
        elif self._is_within():
            more = f"; {self._left_out} more were left out" if self._left_out else ""
            self._left_out = 0
            error = RequestError(f"wrong password or no such account{more}")
            self._journal.refused(AuditEvent.LOGIN, self._actor(email), target, error)

    def _is_within(self) -> bool:
        with self._lock:
            if self._now() - self._began >= WINDOW:
                self._began, self._failures = self._now(), 0
            self._failures += 1
            if self._failures > FAILURES:
                self._left_out += 1
            return self._failures <= FAILURES

    def _actor(self, email: str) -> Actor:
        names = {mail: name for name, mail in self._accounts().items()}
        if email == self._state.root_email:
            return Actor(who="steward", role="owner", organisation=self._state.organisation, origin="syft")
        return Actor(
            who=names.get(email, UNKNOWN), role="analyst", organisation="by its account", origin="syft"
        )
