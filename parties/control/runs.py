"""The ledger: which state each request is in, who may call it, and how many of its runs are used.

SQLite with synchronous=FULL; every change is one immediate transaction, so that threads, processes and a restart see
the same counters. A start *reserves* a run, the first message *commits* it; a run that ends before its first message
is given back. An INTERRUPTED run (or one that failed for the peer's sake) is taken up again under its own number,
TAKEN_UP times at most; `committed` of a run counts its attempts that may have sent a message.
"""

import sqlite3
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from parties.control.database import transaction
from parties.control.run_state import ENDED, RequestRow, Reservation, RunState
from protocols.errors import NotApprovedError, RequestError, RevokedRun, RunsUsedError, StateError

__all__ = ["ENDED", "Ledger", "RequestRow", "Reservation", "RunState"]

SCHEMA = """
CREATE TABLE IF NOT EXISTS requests (
    digest TEXT PRIMARY KEY, caller TEXT NOT NULL, analyst TEXT NOT NULL, allowed INTEGER NOT NULL,
    state TEXT NOT NULL, reason TEXT NOT NULL, changed TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS runs (
    digest TEXT NOT NULL REFERENCES requests, run INTEGER NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL,
    committed INTEGER NOT NULL, attempts INTEGER NOT NULL, changed TEXT NOT NULL, PRIMARY KEY (digest, run)) STRICT;
"""
_NOBODYS_FAULT = ("peer_lost", "peer_timeout", "link", "disk_full", "helper_lost")
RESUMABLE = (
    *_NOBODYS_FAULT,
    *(f"peer_stopped:{reason}" for reason in (*_NOBODYS_FAULT, "interrupted")),
)
"""Reasons of a FAILED run that were the network's or a machine's, here or at a peer: it may be taken up again."""
TAKEN_UP = 10
"""How often one run may be taken up again after it sent a message. The gate of an attempt counts from the checkpoint
(from nothing before the first one), so each attempt may send again what was sent since then: without an end to the
attempts the manifest's repetitions would bound nothing. Ten outlast a bad week of restarts and lost connections."""


Within = Callable[[sqlite3.Connection, int], None]
"""Something to be done in the transaction of a reservation or an end, for the run of this number."""


def nothing_more(database: sqlite3.Connection, run: int) -> None:
    """Does nothing."""


class Ledger:
    """The registry over one SQLite file; may be used by several threads and processes at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.touch(mode=0o600, exist_ok=True)
        with transaction(self._path) as database:
            for statement in SCHEMA.split(";")[:-1]:
                database.execute(statement)

    def is_bound(self, digest: str, caller: str) -> bool:
        """Whether this caller has submitted the request before; RequestError when another one has."""
        with transaction(self._path) as database:
            return _is_bound(database, digest, caller)

    def bind(self, digest: str, *, caller: str, analyst: str, allowed: int, now: datetime) -> bool:
        """Registers a request as PENDING and binds it to its caller; False when it is bound to him already.

        Raises RequestError when the digest belongs to another caller.
        """
        with transaction(self._path) as database:
            if _is_bound(database, digest, caller):
                return False
            database.execute(
                "INSERT INTO requests VALUES (?, ?, ?, ?, ?, '', ?)",
                (digest, caller, analyst, allowed, RunState.PENDING, now.isoformat()),
            )
            return True

    def approve(self, digest: str, now: datetime) -> None:
        """PENDING becomes APPROVED; StateError from any other state."""
        with transaction(self._path) as database:
            row = _request(database, digest)
            if row.state is not RunState.PENDING:
                raise StateError(f"request {digest[:12]} is {row.state}, only a pending one can be approved")
            _set_request(database, digest, RunState.APPROVED, "", now)

    def note(self, digest: str, reason: str, now: datetime) -> None:
        """Keeps the request PENDING, with a reason why it wasn't approved (a denial that may be thought over)."""
        with transaction(self._path) as database:
            row = _request(database, digest)
            if row.state is not RunState.PENDING:
                raise StateError(f"request {digest[:12]} is {row.state}, no longer pending")
            _set_request(database, digest, RunState.PENDING, reason, now)

    def revoke(self, digest: str, reason: str, now: datetime) -> bool:
        """The request ends for good, whatever its state; True when one of its runs is RUNNING and must be stopped."""
        with transaction(self._path) as database:
            row = _request(database, digest)
            _set_request(database, digest, RunState.REVOKED, reason, now)
            return row.state is RunState.RUNNING

    def reserve(self, digest: str, now: datetime, within: Within = nothing_more) -> Reservation:
        """Takes the next run of an approved request, or takes up a resumable one; the request becomes RUNNING.

        `within` does more in the same transaction; what it raises undoes all. Raises NotApprovedError, RevokedRun,
        StateError (running already) or RunsUsedError ("used 1 of 1", or taken up too often).
        """
        with transaction(self._path) as database:
            row = _request(database, digest)
            _check_startable(row)
            last = _last_run(database, digest)
            if last is not None and (not last["committed"] or _may_be_taken_up(last)):
                run, attempt = int(last["run"]), int(last["attempts"]) + 1
                database.execute(
                    "UPDATE runs SET state = ?, reason = '', attempts = ?, changed = ? WHERE digest = ? AND run = ?",
                    (RunState.RUNNING, attempt, now.isoformat(), digest, run),
                )
                _set_request(database, digest, RunState.RUNNING, "", now)
                within(database, run)
                return Reservation(run=run, attempt=attempt, resumed=bool(last["committed"]))
            _check_left(row, last)
            database.execute(
                "INSERT INTO runs VALUES (?, ?, ?, '', 0, 1, ?)",
                (digest, row.run + 1, RunState.RUNNING, now.isoformat()),
            )
            _set_request(database, digest, RunState.RUNNING, "", now)
            within(database, row.run + 1)
            return Reservation(run=row.run + 1, attempt=1, resumed=False)

    def check_startable(self, digest: str) -> RequestRow:
        """The request, when `reserve` would find a run for it now; raises like `reserve`, changes nothing."""
        with transaction(self._path) as database:
            row = _request(database, digest)
            _check_startable(row)
            last = _last_run(database, digest)
            if last is None or not _may_be_taken_up(last):
                _check_left(row, last)
            return row

    def commit(self, digest: str, run: int, now: datetime) -> None:
        """The run counts as used, and this attempt among its attempts, durably; StateError unless it is RUNNING."""
        with transaction(self._path) as database:
            done = database.execute(
                "UPDATE runs SET committed = committed + 1, changed = ? WHERE digest = ? AND run = ? AND state = ?",
                (now.isoformat(), digest, run, RunState.RUNNING),
            )
            if done.rowcount != 1:
                raise StateError(f"run {run} of request {digest[:12]} is not running")

    def finish(
        self,
        digest: str,
        run: int,
        state: RunState,
        reason: str,
        now: datetime,
        *,
        committed: bool,
        within: Within = nothing_more,
    ) -> None:
        """Writes the end of a run and of the request, unless the request was revoked; False `committed` gives it back.

        A run that was committed before stays so. `within` does more in the same transaction, as in `reserve`.
        StateError for a state that is no end.
        """
        if state not in ENDED:
            raise StateError(f"{state} is not an end")
        with transaction(self._path) as database:
            row = _request(database, digest)
            state = RunState.REVOKED if row.state is RunState.REVOKED else state
            database.execute(
                "UPDATE runs SET state = ?, reason = ?, committed = max(committed, ?), changed = ?"
                " WHERE digest = ? AND run = ?",
                (state, reason, int(committed), now.isoformat(), digest, run),
            )
            _set_request(
                database, digest, state, row.reason if row.state is RunState.REVOKED else reason, now
            )
            within(database, run)

    def find(self, digest: str) -> RequestRow:
        """The request; RequestError when nobody submitted it here."""
        with transaction(self._path) as database:
            return _request(database, digest)

    def all(self) -> tuple[RequestRow, ...]:
        """All requests, the newest change last."""
        with transaction(self._path) as database:
            rows = database.execute("SELECT digest FROM requests ORDER BY changed, digest").fetchall()
            return tuple(_request(database, row["digest"]) for row in rows)

    def done_runs(self, digest: str) -> tuple[int, ...]:
        """Numbers of the request's finished runs, ascending."""
        with transaction(self._path) as database:
            rows = database.execute(
                "SELECT run FROM runs WHERE digest = ? AND state = ? ORDER BY run", (digest, RunState.DONE)
            ).fetchall()
            return tuple(int(row["run"]) for row in rows)

    def attempt(self, digest: str, run: int) -> int:
        """Number of the run's newest attempt, from 1; 0 for a run that was never reserved."""
        with transaction(self._path) as database:
            row = database.execute(
                "SELECT attempts FROM runs WHERE digest = ? AND run = ?", (digest, run)
            ).fetchone()
            return 0 if row is None else int(row["attempts"])

    def running(self) -> tuple[tuple[str, int], ...]:
        """Digest and number of every run that the ledger believes to be RUNNING."""
        with transaction(self._path) as database:
            rows = database.execute(
                "SELECT digest, run FROM runs WHERE state = ?", (RunState.RUNNING,)
            ).fetchall()
            return tuple((row["digest"], int(row["run"])) for row in rows)


def _is_bound(database: sqlite3.Connection, digest: str, caller: str) -> bool:
    row = database.execute("SELECT caller FROM requests WHERE digest = ?", (digest,)).fetchone()
    if row is not None and row["caller"] != caller:
        raise RequestError(f"request {digest[:12]} belongs to another caller")
    return row is not None


def _request(database: sqlite3.Connection, digest: str) -> RequestRow:
    row = database.execute(
        "SELECT r.*, (SELECT count(*) FROM runs u WHERE u.digest = r.digest AND (u.committed OR u.state = 'RUNNING'))"
        " AS used, (SELECT coalesce(max(run), 0) FROM runs u WHERE u.digest = r.digest) AS run"
        " FROM requests r WHERE r.digest = ?",
        (digest,),
    ).fetchone()
    if row is None:
        raise RequestError(f"request {digest[:12]} is not known here", remedy="submit it first")
    return RequestRow(
        digest=row["digest"],
        caller=row["caller"],
        analyst=row["analyst"],
        allowed=int(row["allowed"]),
        used=int(row["used"]),
        run=int(row["run"]),
        state=RunState(row["state"]),
        reason=row["reason"],
        changed=row["changed"],
    )


def _set_request(
    database: sqlite3.Connection, digest: str, state: RunState, reason: str, now: datetime
) -> None:
    database.execute(
        "UPDATE requests SET state = ?, reason = ?, changed = ? WHERE digest = ?",
        (state, reason, now.isoformat(), digest),
    )


def _check_startable(row: RequestRow) -> None:
    if row.state is RunState.REVOKED:
        raise RevokedRun(
            f"request {row.digest[:12]} was revoked: {row.reason}", remedy="ask again with a new request"
        )
    if row.state is RunState.PENDING:
        raise NotApprovedError(f"request {row.digest[:12]} is not approved here")
    if row.state is RunState.RUNNING:
        if row.used >= row.allowed:
            raise _used(row)
        raise StateError(f"run {row.run} of request {row.digest[:12]} is running", remedy="wait for its end")


def _used(row: RequestRow) -> RunsUsedError:
    return RunsUsedError(f"used {row.used} of {row.allowed}", remedy="ask for more runs with a new request")


def _last_run(database: sqlite3.Connection, digest: str) -> sqlite3.Row | None:
    """The newest run of a request, None before the first."""
    row: sqlite3.Row | None = database.execute(
        "SELECT * FROM runs WHERE digest = ? ORDER BY run DESC LIMIT 1", (digest,)
    ).fetchone()
    return row


def _check_left(row: RequestRow, last: sqlite3.Row | None) -> None:
    """RunsUsedError unless the request has a run left; it says when the last one only was taken up too often."""
    if row.used < row.allowed:
        return
    if last is not None and _resumable(last):
        raise RunsUsedError(
            f"used {row.used} of {row.allowed}, and run {row.run} was taken up again {TAKEN_UP} times already",
            remedy="ask with a new request",
        )
    raise _used(row)


def _may_be_taken_up(run: sqlite3.Row) -> bool:
    return _resumable(run) and int(run["committed"]) <= TAKEN_UP


def _resumable(run: sqlite3.Row) -> bool:
    return run["state"] == RunState.INTERRUPTED or (
        run["state"] == RunState.FAILED and run["reason"] in RESUMABLE
    )
