"""What an analyst and the owner can see of a request: its state, its progress, and the released result."""

import hashlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

from parties.control.runs import Ledger, RunState
from parties.control.workers import run_folder
from parties.home.journal import Actor, Journal
from parties.home.private_files import parse_json
from parties.home.state import State
from parties.running.runspec import RESULT_DETAIL, RESULT_FILE, read_snapshot
from protocols.audit import AuditEvent, Result
from protocols.disclosure import round_metric
from protocols.errors import RequestError, StateError

POLL = 0.1  # seconds between two looks at a progress file
LONGEST_WAIT = 20.0  # seconds of a status call
WAITING_CALLS = 16  # status calls that may wait at once, one per request; the others are answered at once
PROGRESS = ("seq", "phase", "step", "of", "loss", "eta", "note")
TRAFFIC = ("bytes_sent", "bytes_received")
"""For the owner only: the sizes of messages follow from numbers of people, which the analyst gets after the rules."""
HASHED = (AuditEvent.RUN_FINISHED, AuditEvent.RESULT_RELEASED)
"""Entries with the SHA-256 of a result."""
Settle = Callable[[str, int], None]
"""Writes the end of a run (digest, number) whose worker is gone; does nothing for a living one."""


class Watch:
    """Views of the ledger and of the run folders; every method may be called from several threads."""

    def __init__(
        self, state: State, *, ledger: Ledger, journal: Journal, settle: Settle, stopping: threading.Event
    ) -> None:
        self._state = state
        self._ledger = ledger
        self._journal = journal
        self._settle_if_gone = settle
        self._stopping = stopping
        self._waiting: set[str] = set()
        self._waiting_lock = threading.Lock()

    def status(self, digest: str, seen: str, wait: float = LONGEST_WAIT) -> dict[str, object]:
        """How the request stands; while it runs, waits up to `wait` seconds for other news than number `seen`.

        Only one call per request waits, and only some at all: a further one is answered at once.
        """
        if seen and not seen.removeprefix("-").isdecimal():
            raise RequestError("status takes the last seen number as text")
        known = int(seen[:12]) if seen else -1
        waits = self._may_wait(digest)
        end = time.monotonic() + (min(wait, LONGEST_WAIT) if waits else 0.0)
        try:
            while True:
                view = self.view(digest)
                news = view["state"] != RunState.RUNNING or view["seq"] != known
                if news or self._stopping.is_set() or time.monotonic() >= end:
                    return view
                self._stopping.wait(POLL)
        finally:
            if waits:
                with self._waiting_lock:
                    self._waiting.discard(digest)

    def _may_wait(self, digest: str) -> bool:
        with self._waiting_lock:
            if digest in self._waiting or len(self._waiting) >= WAITING_CALLS:
                return False
            self._waiting.add(digest)
            return True

    def view(self, digest: str) -> dict[str, object]:
        """State, counters and, once there was a run, its newest progress; never RUNNING without a living worker."""
        row = self._ledger.find(digest)
        if row.state is RunState.RUNNING:
            self._settle_if_gone(digest, row.run)
            row = self._ledger.find(digest)
        view: dict[str, object] = {
            "state": row.state.value,
            "reason": row.reason,
            "run": row.run,
            "used": row.used,
            "allowed": row.allowed,
            "seq": 0,
        }
        snapshot = read_snapshot(run_folder(self._state.runs, digest, row.run)) if row.run else None
        if snapshot is not None:
            view |= {name: getattr(snapshot, name) for name in (*PROGRESS, *TRAFFIC)}
        return view

    @staticmethod
    def for_analyst(view: dict[str, object]) -> dict[str, object]:
        """What of a view an analyst may read: no traffic, and the loss rounded as in a release."""
        loss = view.get("loss")
        rounded = {"loss": round_metric(loss)} if isinstance(loss, float) else {}
        return {name: value for name, value in view.items() if name not in TRAFFIC} | rounded

    def result(self, digest: str, actor: Actor) -> dict[str, object]:
        """What the newest run releases to the analyst, each release logged.

        StateError unless the request is DONE, and when the result isn't the one of which the log has the SHA-256, from
        the run's end and each release.
        """
        row = self._ledger.find(digest)
        if row.state is not RunState.DONE:
            raise StateError(f"request {digest[:12]} is {row.state}, a result comes with DONE only")
        target = f"request {digest}"
        try:
            result, found = _read_result(run_folder(self._state.runs, digest, row.run))
            if any(known != found for known in self._recorded(target, row.run)):
                raise StateError(
                    f"the result of run {row.run} of request {digest[:12]} changed since the run ended",
                    remedy=f"restore {RESULT_FILE} in the run's folder from a backup",
                )
        except StateError as error:
            self._journal.refused(AuditEvent.RESULT_RELEASED, actor, target, error)
            raise
        detail = {RESULT_DETAIL: found}
        self._journal.ok(AuditEvent.RESULT_RELEASED, actor, target, run=row.run, **detail)
        return {"state": row.state.value, "run": row.run, "result": result}

    def _recorded(self, target: str, run: int) -> set[str]:
        """The SHA-256 of the run's result as the log has it; AuditError when the log was altered."""
        details = (
            dict(entry.detail)
            for entry in self._journal.log.entries()
            if entry.object == target and entry.result is Result.OK and entry.event in HASHED
        )
        return {str(d[RESULT_DETAIL]) for d in details if d.get("run") == run and RESULT_DETAIL in d}


def _read_result(folder: Path) -> tuple[dict[str, object], str]:
    """The result and the SHA-256 of its file, of one reading; StateError naming the file that is missing or broken."""
    path = folder / RESULT_FILE
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StateError(
            f"{path} can't be read: {error.strerror}", remedy="restore it from a backup"
        ) from error
    return parse_json(data, path), hashlib.sha256(data).hexdigest()
