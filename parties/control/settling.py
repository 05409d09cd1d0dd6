"""Writing how a run ended once its worker is gone: in the ledger and the log, and deleting what must not stay.

All but the ledger's word has happened already, so its entries wait for room in the log if they must (`Journal.owe`).
"""

import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from parties.control.alignments import left_open
from parties.control.endings import PEER_REVOKED, mark_withdrawn, run_end
from parties.control.runs import Ledger, RunState
from parties.control.workers import run_folder
from parties.home.documents import Documents
from parties.home.journal import Journal
from parties.home.state import State
from parties.running.passing import HALF, PASSING, delete_passing
from parties.running.runspec import read_snapshot
from protocols.audit import AuditEvent, Result
from protocols.errors import ExpiredError, FedaccordError
from protocols.records import Scalar

EVENTS = {
    RunState.DONE: AuditEvent.RUN_FINISHED,
    RunState.FAILED: AuditEvent.RUN_FAILED,
    RunState.INTERRUPTED: AuditEvent.RUN_INTERRUPTED,
    RunState.CANCELLED: AuditEvent.RUN_CANCELLED,
    RunState.REVOKED: AuditEvent.RUN_CANCELLED,
}
EXPIRED = (ExpiredError.code, f"peer_stopped:{ExpiredError.code}")
KEPT_NOWHERE = "its blinded sets and exponents were in the memory of its worker, which is gone"


class Settling:
    """The ends of the runs of one party; every method may be called from several threads."""

    def __init__(
        self,
        state: State,
        *,
        ledger: Ledger,
        journal: Journal,
        documents: Documents,
        now: Callable[[], datetime],
    ) -> None:
        self._state = state
        self._ledger = ledger
        self._journal = journal
        self._documents = documents
        self._now = now

    def settle(self, digest: str, run: int, asked: str, status: int | None) -> None:
        """Writes the end of a run whose worker is gone, from its last word, its exit status and what we asked of it.

        DiskFullError when the ledger can't be written: then nothing is, and it can be asked again.
        """
        folder = run_folder(self._state.runs, digest, run)
        snapshot = read_snapshot(folder)
        end = run_end(snapshot, folder, asked, status)
        sent = snapshot is not None and snapshot.bytes_sent > 0
        self._ledger.finish(
            digest, run, end.state, end.reason, self._now(), committed=sent or end.state is RunState.DONE
        )
        try:
            if not end.logged:
                self.tidy(digest, folder, HALF)
            over = self._ledger.find(digest).state in (RunState.DONE, RunState.CANCELLED, RunState.REVOKED)
            if over or end.reason in EXPIRED:  # nobody can take it up again
                self.tidy(digest, folder)
        finally:  # what can't be deleted doesn't keep the end out of the log
            if not end.logged:
                exits: dict[str, Scalar] = {
                    "state": end.state.value,
                    "exit": -1 if status is None else status,
                }
                result = Result.FAILED if end.state is RunState.FAILED else Result.OK
                self.log_end(digest, run, EVENTS[end.state], end.reason, result, **exits)
        if end.reason == PEER_REVOKED:
            mark_withdrawn(folder, self.peers(digest), end.reason, self._now())

    def interrupt(self, digest: str, run: int, reason: str) -> None:
        """The end of a run about which nothing else is known, unless it has one."""
        if (digest, run) in self._ledger.running():
            self._ledger.finish(digest, run, RunState.INTERRUPTED, reason, self._now(), committed=False)
            self.log_end(digest, run, AuditEvent.RUN_INTERRUPTED, reason)

    def log_end(
        self,
        digest: str,
        run: int,
        event: AuditEvent,
        reason: str,
        result: Result = Result.FAILED,
        **detail: Scalar,
    ) -> None:
        """Logs the end of a run, and of its alignments, whose worker can't any more."""
        target = f"request {digest}"
        for peer in left_open(self._journal.log.entries(), target, run):
            self._journal.owe(
                AuditEvent.PSI_FINISHED,
                Result.FAILED,
                target,
                run=run,
                peer=peer,
                alignment=f"not told: the run ended first ({reason})",
                messages="not counted: its worker could log no end",
                deleted=KEPT_NOWHERE,
            )
        self._journal.owe(event, result, target, run=run, reason=reason, **detail)

    def tidy(self, digest: str, folder: Path, names: Sequence[str] = PASSING) -> None:
        """Deletes checkpoints, temporary material and the private seed of an ended run, and logs that it did."""
        deleted = delete_passing(folder, names)
        if deleted:
            target, there = f"request {digest}", " ".join(deleted)
            self._journal.owe(AuditEvent.TEMPORARY_DELETED, Result.OK, target, deleted=there)

    def peers(self, digest: str) -> str:
        """The other parties of the request, in words."""
        try:
            parties = self._documents.request(digest).request.parties
        except FedaccordError as error:  # the mark matters more than the name in it
            print(f"WARNING: the parties of request {digest} can't be read: {error}", file=sys.stderr)
            return "another party"
        return " or ".join(entry.name for entry in parties if entry.name != self._state.name)
