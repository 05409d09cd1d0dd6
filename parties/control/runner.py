"""Starting, watching and ending the runs of one party."""

import sys
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from parties.control.alignments import Alignments, Planned, planned_alignments, use
from parties.control.endings import PEER_REVOKED, WITHDRAWN_FILE, mark_withdrawn
from parties.control.models import Models, StoredModel
from parties.control.run_specs import RunSpecs
from parties.control.runs import ENDED, Ledger, Reservation, RunState
from parties.control.settling import Settling
from parties.control.validate import CurrentBlock, Grounds, SeatsChecked, check_start
from parties.control.workers import (
    WORKER_COMMAND,
    Worker,
    Workers,
    alive,
    kill_old,
    prepare_folder,
    run_folder,
)
from parties.home.documents import Documents
from parties.home.journal import Actor, Journal
from parties.home.people import read_people
from parties.home.policy_watch import WatchedPolicy
from parties.home.state import State
from protocols.approval import PartyApproval, parse_approvals
from protocols.audit import AuditEvent
from protocols.errors import DiskFullError, FedaccordError, RequestError, StateError, to_wire
from protocols.records import parse_utc

POLL = 0.1  # seconds between two looks at an old worker
OLD_WORKER_SECONDS = 30.0  # a worker that outlived its supervisor has read its end of file by then


class Runner:
    """The runs of one party; every method may be called from several threads.

    `injected_seed` (tests and demo only) replaces the private seeds that workers draw, and every such start is logged;
    `bind` is the host that a listening worker binds when it isn't the roster's.
    """

    def __init__(
        self,
        state: State,
        *,
        ledger: Ledger,
        journal: Journal,
        policy: WatchedPolicy,
        current_block: CurrentBlock,
        code_digest: Callable[[], str],
        now: Callable[[], datetime],
        models: Models,
        command: Sequence[str] = WORKER_COMMAND,
        injected_seed: int | None = None,
        bind: str = "",
        check_seats: SeatsChecked = lambda request, organisations: None,
    ) -> None:
        self._state = state
        self._ledger = ledger
        self._journal = journal
        self._current_block = current_block
        self._code_digest = code_digest
        self._now = now
        self._injected_seed = injected_seed
        self._bind = bind
        self._check_seats = check_seats
        self._policy = policy
        self._documents = Documents(state.folder)
        self._alignments = Alignments(state.ledger_path)
        self._models = models
        self._specs = RunSpecs(state, bind=bind, injected_seed=injected_seed)
        self._settling = Settling(state, ledger=ledger, journal=journal, documents=self._documents, now=now)
        # how workers ended (asked, exit status), until that is recorded
        self._ends: dict[tuple[str, int], tuple[str, int | None]] = {}
        self._workers = Workers(self._finished, command)
        self.stopping = threading.Event()
        self._starting = threading.Lock()

    def start(self, digest: str, approvals: str, actor: Actor) -> dict[str, object]:
        """Starts (or takes up) a run when everything holds, else logs who was refused and raises.

        `approvals` is the text of the parties' approvals that the analyst carries; our own is added from our papers.
        """
        with self._starting:
            try:
                if self.stopping.is_set():
                    raise StateError("the supervisor is stopping")
                self._ledger.check_startable(digest)
                request = self._documents.request(digest).request
                given = self._with_own(digest, parse_approvals(approvals) if approvals else ())
                grounds = self._grounds(digest)
                own = check_start(request, given, grounds)
                model = self._models.of(request)
                planned = planned_alignments(request, own.name, grounds.policy)
                reservation = self._ledger.reserve(
                    digest, self._now(), lambda database, run: use(database, digest, run, planned)
                )
            except FedaccordError as error:
                self._journal.refused(AuditEvent.START_REFUSED, actor, f"request {digest}", error)
                raise
            self._spawn(digest, given, own.role, reservation, planned, model, actor)
        return {"state": RunState.RUNNING.value, "run": reservation.run, "resumed": reservation.resumed}

    def _with_own(self, digest: str, given: tuple[PartyApproval, ...]) -> tuple[PartyApproval, ...]:
        own = self._documents.approval(digest)
        others = tuple(approval for approval in given if approval.party != self._state.name)
        return others if own is None else (*others, own)

    def _grounds(self, digest: str) -> Grounds:
        return Grounds(
            book=self._state.address_book(),
            policy=self._policy.read(),
            people=read_people(self._state.folder),
            decisions=self._documents.decisions(digest),
            current_block=self._current_block,
            code=self._code_digest(),
            bind=self._bind,
            now=self._now(),
            check_seats=self._check_seats,
        )

    def _spawn(
        self,
        digest: str,
        approvals: tuple[PartyApproval, ...],
        role: str,
        reservation: Reservation,
        planned: tuple[Planned, ...],
        model: StoredModel | None,
        actor: Actor,
    ) -> None:
        """Logs, prepares and spawns a reserved run; when any of it fails, the run is given back, or stays resumable."""
        run, target = reservation.run, f"request {digest}"
        folder = run_folder(self._state.runs, digest, run)
        try:
            used: dict[str, str | int] = {}
            if model is not None:
                used = {"model": model.digest, "model_run": model.run}
            self._journal.ok(
                AuditEvent.STARTED,
                actor,
                target,
                run=run,
                attempt=reservation.attempt,
                resumed=reservation.resumed,
                **used,
            )
            for alignment in self._alignments.standing(digest, run, planned):
                self._journal.ok(AuditEvent.PSI_STARTED, actor, target, run=run, **alignment.detail())
            prepare_folder(
                folder,
                self._specs.made(digest, reservation, approvals, role, model),
                resumed=reservation.resumed,
            )
            if self._injected_seed is not None:
                self._journal.ok(AuditEvent.PRIVATE_SEED_INJECTED, self._journal.itself, target, run=run)
            self._workers.spawn(digest, run, folder)
        except (OSError, FedaccordError) as error:
            end = RunState.INTERRUPTED if reservation.resumed else RunState.FAILED
            self._settling.end(digest, run, end, to_wire(error))
            raise StateError(f"the worker of run {run} could not be started: {error}") from error

    def commit(self, digest: str, run: int) -> None:
        """The worker is about to send its first message: from now on the run counts, whatever happens."""
        try:
            self._ledger.commit(digest, run, self._now())
        except StateError as error:  # a worker that no start has reserved a run for
            organisation = self._state.organisation
            actor = Actor(who="worker", role="program", organisation=organisation, origin=f"run {run}")
            self._journal.refused(AuditEvent.START_REFUSED, actor, f"request {digest}", error)
            raise

    def cancel(self, digest: str, actor: Actor) -> None:
        """Ends the running run of the request and waits for its end; StateError when none has started."""
        row = self._ledger.find(digest)
        if row.state in (RunState.PENDING, RunState.APPROVED):
            raise StateError(f"request {digest[:12]} is {row.state}: nothing runs")
        if row.state is RunState.RUNNING:
            with self._starting:  # not between a reservation and its spawn
                worker = self._workers.tell(digest, "cancel")
            self._journal.ok(AuditEvent.RUN_CANCELLED, actor, f"request {digest}", run=row.run, phase="asked")
            if worker is not None:
                worker.ended.wait(OLD_WORKER_SECONDS)

    def stop(self, digest: str, reason: str) -> None:
        """After a revocation: stops the worker, deletes what passes, and marks the models of all runs.

        Runs that use one of these models are stopped too.
        """
        with self._starting:  # a start that was let through before must have its worker by now
            worker = self._workers.tell(digest, "revoke")
        folders = self._mark(digest, reason)
        for user in self._models.users(digest):
            self._workers.tell(user, "revoke")
        for folder in folders:
            if worker is None or folder != worker.folder:
                self._settling.tidy(digest, folder)

    def _mark(self, digest: str, reason: str) -> tuple[Path, ...]:
        """Marks every run's model that isn't marked yet, and gives back all run folders of the request."""
        who = self._settling.peers(digest) if reason == PEER_REVOKED else self._state.name
        folders = tuple(sorted(self._state.runs.glob(f"{digest}-*")))
        for folder in folders:
            if not (folder / WITHDRAWN_FILE).exists():
                mark_withdrawn(folder, who, reason, self._now())
        return folders

    def reconcile(self) -> None:
        """After a restart: runs whose worker is gone become what their progress says, or INTERRUPTED; old papers go.

        What is left of the end of a run is carried out first. Models of revoked requests are marked, when a crash came
        in between.
        """
        self._settling.finish_left()
        for digest, run in self._ledger.running():
            if alive(run_folder(self._state.runs, digest, run)):
                threading.Thread(target=self._wait_for_old_worker, args=(digest, run), daemon=True).start()
            else:
                self.settle_if_gone(digest, run)
        for row in self._ledger.all():
            try:
                if row.state is RunState.REVOKED:
                    self._mark(row.digest, row.reason)
                if row.run and row.state in ENDED and self._expired(row.digest):
                    self._settling.tidy(row.digest, run_folder(self._state.runs, row.digest, row.run))
            except (StateError, RequestError) as error:  # a damaged paper; the other requests go on
                print(f"WARNING: old papers of request {row.digest} stay: {error}", file=sys.stderr)

    def _wait_for_old_worker(self, digest: str, run: int) -> None:
        """The worker of a supervisor that was killed: it has read its end of file and stops by itself, or is killed."""
        folder = run_folder(self._state.runs, digest, run)
        end = time.monotonic() + OLD_WORKER_SECONDS
        while alive(folder) and not self.stopping.is_set():
            if time.monotonic() > end:
                kill_old(folder)
            self.stopping.wait(POLL)
        if not self.stopping.is_set():
            self.settle_if_gone(digest, run)

    def close(self) -> None:
        """Lets every worker checkpoint and stop, and waits until all are gone."""
        self.stopping.set()
        with self._starting:
            self._workers.close()

    def _finished(self, worker: Worker, status: int) -> None:
        key = (worker.digest, worker.run)
        self._ends[key] = (worker.asked, status)
        try:
            self._settle(*key)
        except DiskFullError as error:  # RUNNING in the ledger until `settle_if_gone` is asked and finds room
            print(
                f"supervisor: the end of {worker.folder.name} isn't recorded yet: {error}; {error.remedy}",
                file=sys.stderr,
            )
        except Exception as error:  # a run must have an end whatever lies in its folder
            print(f"supervisor: the end of {worker.folder.name} can't be read: {error!r}", file=sys.stderr)
            self._settling.interrupt(*key, to_wire(error))
            del self._ends[key]

    def settle_if_gone(self, digest: str, run: int) -> None:
        """Writes the end of a run that the ledger believes to be RUNNING and that no worker works on."""
        with self._starting:  # not between a reservation and its spawn
            lives = self._workers.find(digest) is not None or alive(run_folder(self._state.runs, digest, run))
            if not lives and (digest, run) in self._ledger.running():
                self._settle(digest, run)

    def _settle(self, digest: str, run: int) -> None:
        """Writes the end of a run whose worker is gone, with what is known of it, which is kept until that is done."""
        asked, status = self._ends.get((digest, run), ("", None))
        self._settling.settle(digest, run, asked, status)
        self._ends.pop((digest, run), None)

    def _expired(self, digest: str) -> bool:
        request = self._documents.request(digest).request
        return self._now() >= parse_utc(request.expires, "expires", RequestError)
