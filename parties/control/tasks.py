"""Durable queue of what the steward has to do on the party's syft server: approve, deny, publish, add_user,
reset_user, remove_user.

A task stays until the steward says how it ended, so a crash of either side repeats it instead of losing it; the
steward's work is therefore written to be repeatable. Details (a first password) are wiped when the task is done.
"""

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from parties.control.database import transaction
from protocols.errors import RequestError

SCHEMA = """CREATE TABLE IF NOT EXISTS tasks (
    id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, details TEXT NOT NULL,
    state TEXT NOT NULL, problems TEXT NOT NULL) STRICT"""
ABOUT = {
    "approve": "digest",
    "deny": "digest",
    "publish": "block",
    "add_user": "email",
    "reset_user": "email",
    "remove_user": "email",
}
"""The kinds of task, and which detail says what one is about."""
KINDS = tuple(ABOUT)
AGAIN_AFTER = 60.0  # seconds until a task whose steward never answered is handed out again


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task; `details` are its own fields (`digest`, `reason`, `block`, `name`, `email`, `password`)."""

    id: int
    kind: str
    details: Mapping[str, str]


class TaskQueue:
    """The queue over the ledger's SQLite file; safe for several threads of one supervisor."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._given: dict[int, float] = {}
        self._news = threading.Condition()
        with transaction(self._path) as database:
            database.execute(SCHEMA)

    def put(self, kind: str, details: Mapping[str, str]) -> int:
        """Queues a task durably and gives back its id; RequestError for an unknown kind."""
        if kind not in KINDS:
            raise RequestError(f"a steward task is one of {', '.join(KINDS)}")
        with transaction(self._path) as database:
            row = database.execute(
                "INSERT INTO tasks (kind, details, state, problems) VALUES (?, ?, 'queued', '')",
                (kind, json.dumps(dict(details), sort_keys=True)),
            )
        with self._news:
            self._news.notify_all()
        return int(row.lastrowid or 0)

    def next(self, timeout: float, stopping: threading.Event) -> Task | None:
        """The oldest task that nobody works on; waits up to `timeout` seconds for one, then None."""
        end = time.monotonic() + timeout
        with self._news:
            while True:
                task = self._oldest()
                if task is not None:
                    self._given[task.id] = time.monotonic()
                    return task
                left = end - time.monotonic()
                if left <= 0 or stopping.is_set():
                    return None
                self._news.wait(min(left, 0.5))

    def _oldest(self) -> Task | None:
        with transaction(self._path) as database:
            rows = database.execute(
                "SELECT id, kind, details FROM tasks WHERE state = 'queued' ORDER BY id"
            ).fetchall()
        for identity, kind, details in rows:
            given = self._given.get(identity)
            if given is None or time.monotonic() - given > AGAIN_AFTER:
                return Task(id=identity, kind=kind, details=json.loads(details))
        return None

    def done(self, identity: int, ok: bool, problems: str) -> Task:
        """Marks the end of a task and wipes its details; gives back the task as it was, RequestError if unknown."""
        with transaction(self._path) as database:
            row = database.execute(
                "SELECT kind, details FROM tasks WHERE id = ? AND state = 'queued'", (identity,)
            ).fetchone()
            if row is None:
                raise RequestError(f"no open task {identity}")
            details = json.loads(row[1])
            kept = {name: value for name, value in details.items() if name != "password"}
            database.execute(
                "UPDATE tasks SET state = ?, problems = ?, details = ? WHERE id = ?",
                ("done" if ok else "failed", problems, json.dumps(kept, sort_keys=True), identity),
            )
        return Task(id=identity, kind=row[0], details=details)

    def standing(self, kind: str, about: str) -> tuple[str, str]:
        """State (queued, done, failed; "" when there is none) and problems of the newest task of this kind about it.

        `about` is the block, e-mail or digest of the task; RequestError for an unknown kind.
        """
        if kind not in KINDS:
            raise RequestError(f"a steward task is one of {', '.join(KINDS)}")
        with transaction(self._path) as database:
            rows = database.execute(
                "SELECT details, state, problems FROM tasks WHERE kind = ? ORDER BY id DESC", (kind,)
            ).fetchall()
        for details, state, problems in rows:
            if json.loads(details).get(ABOUT[kind]) == about:
                return state, problems
        return "", ""

    def problems(self, digest: str) -> tuple[str, ...]:
        """What the steward reported for the newest failed task of a request; empty when there is none."""
        with transaction(self._path) as database:
            rows = database.execute("SELECT kind, details, state, problems FROM tasks ORDER BY id").fetchall()
        newest: dict[str, tuple[str, str]] = {}
        for kind, details, state, problems in rows:
            if json.loads(details).get("digest") == digest:
                newest[kind] = (state, problems)
        return tuple(f"{kind}: {problems}" for kind, (state, problems) in newest.items() if state == "failed")
