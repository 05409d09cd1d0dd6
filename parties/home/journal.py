"""The supervisor's pen for the audit log: who did what to which request, with what result."""

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime

from parties.home.state import State
from protocols.audit import AuditEvent, AuditLog, Result
from protocols.errors import AuditError, FedaccordError, to_wire
from protocols.records import Scalar, utc_text

TEXT_LIMIT = 200  # characters of a text in an entry's detail


SOCKET = "socket"
"""The origin of what came over the supervisor's socket from a command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who acts: a name, in which role, from which organisation, over which way (`origin`: syft, socket, serve)."""

    who: str
    role: str
    organisation: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Owed:
    """An entry that waits for room in the log, with the time when it was to be written."""

    event: AuditEvent
    result: Result
    target: str
    detail: Mapping[str, Scalar]
    time: datetime


class Journal:
    """Writes entries for one party; one that can't be written raises AuditError.

    What gives somebody more (a start, an account, an approval, a release) is written first, with `before` or `ok`, and
    doesn't happen without its entry. What takes something away (a denial, a revocation, a cancellation, a deletion)
    happens first: it must not wait for room in a log. Acts on the command line say in their docstrings which way it is.
    """

    def __init__(self, state: State, now: Callable[[], datetime]) -> None:
        self.log = AuditLog(state.audit_path, state.name)
        self.itself = Actor(who="supervisor", role="program", organisation=state.organisation, origin="serve")
        self._now = now
        self._owed: deque[_Owed] = deque()
        self._owing = threading.Lock()

    @contextmanager
    def before(self, event: AuditEvent, actor: Actor, target: str, **detail: Scalar) -> Iterator[None]:
        """Writes the entry, then lets the block act; when that fails, a second entry says so, and the error goes on."""
        self.ok(event, actor, target, **detail)
        try:
            yield
        except Exception as error:
            self.failed(event, actor, target, code=to_wire(error))
            raise

    def ok(self, event: AuditEvent, actor: Actor, target: str, **detail: Scalar) -> None:
        """One entry for something that was done."""
        self._write(event, actor, Result.OK, target, detail)

    def refused(self, event: AuditEvent, actor: Actor, target: str, error: FedaccordError) -> None:
        """One entry for something that a rule forbade, with the error's code and text."""
        self._write(event, actor, Result.REFUSED, target, {"code": error.code, "reason": str(error)})

    def failed(self, event: AuditEvent, actor: Actor, target: str, **detail: Scalar) -> None:
        """One entry for something that broke."""
        self._write(event, actor, Result.FAILED, target, detail)

    def owe(
        self,
        event: AuditEvent,
        result: Result,
        target: str,
        *,
        happened: datetime | None = None,
        **detail: Scalar,
    ) -> bool:
        """One entry of the supervisor's own for something that has happened already; whether it is in the log now.

        When the log can't take it, as on a full disk, it is written before the next entry that it can take; until then
        it is in memory only. Its date is that of the writing, since others may have written meanwhile, and an entry
        that is dated before the one in front of it tells of a clock that was set back; `happened` has its own time,
        which is given for what an earlier supervisor left.
        """
        now = self._now()
        self._owed.append(
            _Owed(event=event, result=result, target=target, detail=detail, time=happened or now)
        )
        try:
            self._pay(now)
        except AuditError as error:
            with suppress(OSError):  # where this goes to may be on the same full disk
                print(f"supervisor: {event} of {target} isn't in the log yet: {error}", file=sys.stderr)
            return False
        return True

    def _pay(self, now: datetime) -> None:
        """Writes what is owed, the oldest first."""
        with self._owing:
            while self._owed:
                owed = self._owed[0]
                waited = {} if owed.time == now else {"happened": utc_text(owed.time)}
                self._append(
                    owed.event, self.itself, owed.result, owed.target, {**owed.detail, **waited}, now
                )
                self._owed.popleft()

    def _write(
        self, event: AuditEvent, actor: Actor, result: Result, target: str, detail: Mapping[str, Scalar]
    ) -> None:
        now = self._now()
        self._pay(now)
        self._append(event, actor, result, target, detail, now)

    def _append(
        self,
        event: AuditEvent,
        actor: Actor,
        result: Result,
        target: str,
        detail: Mapping[str, Scalar],
        now: datetime,
    ) -> None:
        self.log.append(
            event,
            who=actor.who,
            role=actor.role,
            organisation=actor.organisation,
            result=result,
            origin=actor.origin,
            object=target,
            detail={name: _short(value) for name, value in detail.items()},
            now=now,
        )


def _short(value: Scalar) -> Scalar:
    """The value as a detail may hold it: text on one printable line."""
    if not isinstance(value, str):
        return value
    return one_line(value, TEXT_LIMIT)


def one_line(text: str, limit: int) -> str:
    """The text as the log takes it: at most `limit` printable characters on one line."""
    visible = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(visible.split())[:limit].rstrip()
