"""Writing how a run ended once its worker is gone: in the ledger and the log, and deleting what must not stay.

All but the ledger's word has happened already, so its entries wait for room in the log if they must (`Journal.owe`).
Until all of it is done the end is kept as an open one, which the next start brings to its end.
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from parties.control.alignments import left_open
from parties.control.endings import PEER_REVOKED, WITHDRAWN_FILE, last_word, mark_withdrawn, run_end
from parties.control.open_ends import EVENTS, OpenEnd, OpenEnds, keep
from parties.control.runs import Ledger, RunState
from parties.control.workers import run_folder
from parties.home.documents import Documents
from parties.home.journal import Journal
from parties.home.state import State
from parties.running.passing import HALF, PASSING, delete_passing
from protocols.audit import AuditEvent, Result
from protocols.errors import ExpiredError, FedaccordError

OVER = (RunState.DONE, RunState.CANCELLED, RunState.REVOKED)
UNKNOWN = -1
"""The exit status of a worker about which nobody knows."""
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
        self._open = OpenEnds(state.ledger_path)

    def settle(self, digest: str, run: int, asked: str, status: int | None) -> None:
        """Writes the end of a run whose worker is gone, from its last word, its exit status and what we asked of it.

        DiskFullError when the ledger can't be written: then nothing is, and it can be asked again.
        """
        folder, attempt = run_folder(self._state.runs, digest, run), self._ledger.attempt(digest, run)
        snapshot = last_word(folder, attempt)
        end = run_end(snapshot, folder, asked, status)
        sent = snapshot is not None and snapshot.bytes_sent > 0
        self._write(
            OpenEnd(
                digest=digest,
                run=run,
                attempt=attempt,
                state=end.state,
                reason=end.reason,
                result=Result.FAILED if end.state is RunState.FAILED else Result.OK,
                exit=UNKNOWN if status is None else status,
                logged=end.logged,
                time=self._now(),
            ),
            committed=sent or end.state is RunState.DONE,
        )

    def end(self, digest: str, run: int, state: RunState, reason: str) -> None:
        """The end of a run that broke, about whose worker nothing is known."""
        self._write(
            OpenEnd(
                digest=digest,
                run=run,
                attempt=self._ledger.attempt(digest, run),
                state=state,
                reason=reason,
                result=Result.FAILED,
                exit=UNKNOWN,
                logged=False,
                time=self._now(),
            ),
            committed=False,
        )

    def interrupt(self, digest: str, run: int, reason: str) -> None:
        """The end of a run about which nothing else is known, unless it has one."""
        if (digest, run) in self._ledger.running():
            self.end(digest, run, RunState.INTERRUPTED, reason)

    def finish_left(self) -> None:
        """After a restart: carries out what is left of ends that the ledger has, each with one entry in the log."""
        for end in self._open.all():
            try:
                told = end.logged or end.is_told(self._journal.log.entries())
                self._carry_out(end, told=told, happened=end.time)
            except (OSError, FedaccordError) as error:
                print(f"WARNING: run {end.run} of {end.target} stays as it is: {error}", file=sys.stderr)

    def _write(self, end: OpenEnd, *, committed: bool) -> None:
        """In the ledger first, which keeps the end as an open one; then all that follows from it."""
        self._ledger.finish(
            end.digest,
            end.run,
            end.state,
            end.reason,
            end.time,
            committed=committed,
            within=lambda database, run: keep(database, end),
        )
        self._carry_out(end, told=end.logged)

    def _carry_out(self, end: OpenEnd, *, told: bool, happened: datetime | None = None) -> None:
        """What follows from an end; it stays open when something of it must wait for the next start."""
        cleared = self._clear(end)  # what can't be deleted doesn't keep the end out of the log
        told = told or self._log_end(end, happened)
        if cleared and told:
            try:
                self._open.forget(end)
            except FedaccordError as error:  # the next start finds its entry
                _say(f"the end of {end.target} stays open: {error}")

    def _clear(self, end: OpenEnd) -> bool:
        """Deletes what must not stay and marks a withdrawn model; whether that was possible."""
        folder = run_folder(self._state.runs, end.digest, end.run)
        try:
            if self._ledger.attempt(end.digest, end.run) != end.attempt:
                return True  # taken up again since: the folder is another attempt's
            if not end.logged:
                self.tidy(end.digest, folder, HALF)
            over = self._ledger.find(end.digest).state in OVER
            if over or end.reason in EXPIRED:  # nobody can take it up again
                self.tidy(end.digest, folder)
            if end.reason == PEER_REVOKED and not (folder / WITHDRAWN_FILE).exists():
                mark_withdrawn(folder, self.peers(end.digest), end.reason, self._now())
        except (OSError, FedaccordError) as error:
            _say(f"what must go of {folder.name} is still there: {error!r}")
            return False
        return True

    def _log_end(self, end: OpenEnd, happened: datetime | None) -> bool:
        """Logs the end of a run, and of its alignments, whose worker can't any more; whether it is in the log now."""
        for peer in left_open(self._journal.log.entries(), end.target, end.run):
            self._journal.owe(
                AuditEvent.PSI_FINISHED,
                Result.FAILED,
                end.target,
                happened=happened,
                run=end.run,
                peer=peer,
                alignment=f"not told: the run ended first ({end.reason})",
                messages="not counted: its worker could log no end",
                deleted=KEPT_NOWHERE,
            )
        return self._journal.owe(
            EVENTS[end.state],
            end.result,
            end.target,
            happened=happened,
            run=end.run,
            attempt=end.attempt,
            reason=end.reason,
            state=end.state.value,
            exit=end.exit,
        )

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


def _say(text: str) -> None:
    """On the standard error; that this can't be said either mustn't keep an end out of the log."""
    with suppress(OSError):  # where it goes to may be on the same full disk
        print(f"supervisor: {text}", file=sys.stderr)
