"""Ends of runs that the ledger has but that aren't carried out to the last, in the ledger's own SQLite file.

An end is kept here in the ledger's own transaction, and forgotten once its entry is in the log and what must go is
gone. So the next start of a supervisor that was killed in between finds all that it needs to bring it to its end.
"""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from parties.control.database import transaction
from parties.control.run_state import RunState
from protocols.audit import AuditEvent, Entry, Result

SCHEMA = """
CREATE TABLE IF NOT EXISTS open_ends (
    digest TEXT NOT NULL, run INTEGER NOT NULL, attempt INTEGER NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL,
    result TEXT NOT NULL, exit INTEGER NOT NULL, logged INTEGER NOT NULL, time TEXT NOT NULL,
    PRIMARY KEY (digest, run, attempt)) STRICT
"""
EVENTS = {
    RunState.DONE: AuditEvent.RUN_FINISHED,
    RunState.FAILED: AuditEvent.RUN_FAILED,
    RunState.INTERRUPTED: AuditEvent.RUN_INTERRUPTED,
    RunState.CANCELLED: AuditEvent.RUN_CANCELLED,
    RunState.REVOKED: AuditEvent.RUN_CANCELLED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenEnd:
    """How an attempt of a run ended, and when; `logged` when its entry is in the log already.

    `result` is the entry's, `exit` the worker's status (-1: unknown).
    """

    digest: str
    run: int
    attempt: int
    state: RunState
    reason: str
    result: Result
    exit: int
    logged: bool
    time: datetime

    @property
    def target(self) -> str:
        """What its entry is about."""
        return f"request {self.digest}"

    def is_told(self, entries: Iterable[Entry]) -> bool:
        """Whether its entry is among them: one attempt has one end, so whichever end it is counts."""
        ends = set(EVENTS.values())
        return any(
            entry.event in ends
            and entry.object == self.target
            and (detail := dict(entry.detail)).get("run") == self.run
            and detail.get("attempt") == self.attempt
            for entry in entries
        )


class OpenEnds:
    """The open ends in the supervisor's SQLite file; may be used by several threads and processes at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with transaction(path) as database:
            database.execute(SCHEMA)

    def all(self) -> tuple[OpenEnd, ...]:
        """Every one, the oldest first."""
        with transaction(self._path) as database:
            rows = database.execute("SELECT * FROM open_ends ORDER BY time, digest, run, attempt").fetchall()
            return tuple(_end(row) for row in rows)

    def forget(self, end: OpenEnd) -> None:
        """It is carried out to the last."""
        with transaction(self._path) as database:
            database.execute(
                "DELETE FROM open_ends WHERE digest = ? AND run = ? AND attempt = ?",
                (end.digest, end.run, end.attempt),
            )


def keep(database: sqlite3.Connection, end: OpenEnd) -> None:
    """Keeps the end as an open one, in the transaction that writes it into the ledger."""
    database.execute(
        "INSERT OR REPLACE INTO open_ends VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            end.digest,
            end.run,
            end.attempt,
            end.state,
            end.reason,
            end.result,
            end.exit,
            int(end.logged),
            end.time.isoformat(),
        ),
    )


def _end(row: sqlite3.Row) -> OpenEnd:
    return OpenEnd(
        digest=row["digest"],
        run=int(row["run"]),
        attempt=int(row["attempt"]),
        state=RunState(row["state"]),
        reason=row["reason"],
        result=Result(row["result"]),
        exit=int(row["exit"]),
        logged=bool(row["logged"]),
        time=datetime.fromisoformat(row["time"]),
    )
