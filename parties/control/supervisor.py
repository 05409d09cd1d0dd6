"""The supervisor: holds the party's signing key, policy, counters and log, and is the only one who starts anything.

It answers on the Unix socket in the state folder (see `parties.control.actions`), keeps the syft server process
alive, and spawns one worker process per run. When it ends, in order or not, nothing that it started stays behind:
workers and syft server read the end of their standard input.
"""

import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from types import FrameType

from parties.control.actions import Actions
from parties.control.decisions import Decisions
from parties.control.logins import Logins
from parties.control.models import ModelFits, Models, ModelUsedAlone, ModelWanted
from parties.control.reception import Reception
from parties.control.runner import Runner
from parties.control.runs import Ledger
from parties.control.socket import SocketServer
from parties.control.tasks import TaskQueue
from parties.control.validate import CurrentBlock, SeatsChecked
from parties.control.watch import Watch
from parties.control.workers import WORKER_COMMAND
from parties.home.accounts import Accounts
from parties.home.journal import Journal
from parties.home.policy_watch import WatchedPolicy
from parties.home.state import State
from parties.syft_side.launcher import stop as stop_server
from protocols.audit import AuditEvent
from protocols.errors import DatasiteError, FedaccordError, StateError

Launcher = Callable[[State], subprocess.Popen[bytes]]
LOCK_FILE = "supervisor.lock"
RELAUNCHES = 3  # of a syft server that ended by itself, with a growing pause


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a supervisor is given: how to look up blocks and code, what to spawn, the clock, and what only tests change.

    `blocks` lists the names of the blocks to publish at the start; `launcher` None runs without a syft server.
    """

    current_block: CurrentBlock
    code_digest: Callable[[], str]
    model_wanted: ModelWanted = lambda request: ""
    model_fits: ModelFits = lambda computation, trained: None
    model_used_alone: ModelUsedAlone = lambda request: False
    check_seats: SeatsChecked = lambda request, organisations: None
    blocks: Callable[[], Sequence[str]] = tuple
    launcher: Launcher | None = None
    worker_command: Sequence[str] = WORKER_COMMAND
    injected_seed: int | None = None
    bind: str = ""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


class Supervisor:
    """One party's supervisor; `start`, wait for `ended`, `stop`. StateError for an analyst's folder."""

    def __init__(self, state: State, options: Options) -> None:
        if state.kind != "party":
            raise StateError(f"{state.folder} belongs to an {state.kind}", remedy="only a party is served")
        self._state = state
        self._options = options
        self.ended = threading.Event()
        """Set when somebody asked for the end, or when the syft server can't be kept alive."""
        self._tasks = TaskQueue(state.ledger_path)
        self._journal = Journal(state, options.now)
        self._policy = WatchedPolicy(state, self._journal)
        self._key = state.signing_key()
        ledger = Ledger(state.ledger_path)
        self._models = Models(
            state, ledger, options.model_wanted, options.model_fits, options.model_used_alone
        )
        self._runner = self._make_runner(ledger)
        actions = self._make_actions(ledger)
        self._decisions = actions.decisions
        self._socket = SocketServer(state.folder, actions.handle)
        self._server: subprocess.Popen[bytes] | None = None
        self.server_lost = False

    def _make_runner(self, ledger: Ledger) -> Runner:
        options = self._options
        return Runner(
            self._state,
            ledger=ledger,
            journal=self._journal,
            policy=self._policy,
            current_block=options.current_block,
            code_digest=options.code_digest,
            now=options.now,
            models=self._models,
            command=options.worker_command,
            injected_seed=options.injected_seed,
            bind=options.bind,
            check_seats=options.check_seats,
        )

    def _make_actions(self, ledger: Ledger) -> Actions:
        accounts = Accounts(self._state, tasks=self._tasks, journal=self._journal)
        reception = Reception(
            self._state,
            ledger=ledger,
            tasks=self._tasks,
            journal=self._journal,
            policy=self._policy,
            current_block=self._options.current_block,
            accounts=accounts,
            check_model=self._models.check,
            check_seats=self._options.check_seats,
            now=self._options.now,
        )
        decisions = Decisions(
            self._state,
            ledger=ledger,
            tasks=self._tasks,
            journal=self._journal,
            policy=self._policy,
            key=self._key,
            overview=reception.overview,
            stop=self._runner.stop,
            now=self._options.now,
        )
        watch = Watch(
            self._state,
            ledger=ledger,
            journal=self._journal,
            settle=self._runner.settle_if_gone,
            stopping=self._runner.stopping,
        )
        return Actions(
            state=self._state,
            ledger=ledger,
            tasks=self._tasks,
            journal=self._journal,
            runner=self._runner,
            watch=watch,
            reception=reception,
            decisions=decisions,
            accounts=accounts,
            logins=Logins(self._state, self._journal, accounts.all, self._options.now),
            key=self._key,
            current_block=self._options.current_block,
            ended=self.ended,
            now=self._options.now,
        )

    def start(self) -> None:
        """Reconciles what an earlier supervisor left, publishes blocks, serves the socket, launches syft."""
        self._journal.ok(AuditEvent.SERVER_STARTED, self._journal.itself, f"datasite {self._state.name}")
        if self._options.injected_seed is not None:
            self._journal.ok(
                AuditEvent.PRIVATE_SEED_INJECTED, self._journal.itself, f"datasite {self._state.name}"
            )
            print("WARNING: private seeds are injected; for tests and comparisons only", file=sys.stderr)
        self._policy.read()
        self._runner.reconcile()
        self._decisions.reconcile()
        for block in self._options.blocks():
            self._tasks.put("publish", {"block": block})
        self._socket.start()
        if self._options.launcher is not None:
            self._server = self._launch(self._options.launcher)
            threading.Thread(target=self._keep_server, args=(self._options.launcher,), daemon=True).start()

    def _launch(self, launcher: Launcher) -> subprocess.Popen[bytes]:
        """The syft server; when it can't be launched, the log says why."""
        try:
            return launcher(self._state)
        except FedaccordError as error:
            target = f"datasite {self._state.name}"
            reason = f"the syft server can't be launched: {error}"
            self._journal.failed(
                AuditEvent.SERVER_STOPPED, self._journal.itself, target, code=error.code, reason=reason
            )
            raise

    def stop(self) -> None:
        """Workers checkpoint and stop, syft ends, the socket goes; when it returns, no process is left."""
        self.ended.set()
        self._runner.close()
        self._socket.stop()
        if self._server is not None:
            stop_server(self._server)
        self._journal.ok(AuditEvent.SERVER_STOPPED, self._journal.itself, f"datasite {self._state.name}")

    def _keep_server(self, launcher: Launcher) -> None:
        """Launches the syft server again when it ends by itself; the runs go on meanwhile."""
        for pause in (*range(1, RELAUNCHES + 1), None):
            while self._server is not None and self._server.poll() is None:
                if self.ended.wait(0.2):
                    return
            if self.ended.is_set():
                return
            status = self._server.returncode if self._server is not None else -1
            target = f"datasite {self._state.name}"
            self._journal.failed(AuditEvent.SERVER_STOPPED, self._journal.itself, target, exit=status)
            if pause is None or self.ended.wait(pause):
                break
            try:
                self._server = self._launch(launcher)
            except FedaccordError as error:
                print(f"supervisor: syft can't be launched: {error}", file=sys.stderr)
                self._server = None
        self.server_lost = True
        self.ended.set()


@contextmanager
def only_one(state: State) -> Iterator[None]:
    """Holds the state folder's lock inside the block; StateError when another supervisor holds it."""
    descriptor = os.open(state.folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StateError(
                f"a supervisor already runs for {state.folder}", remedy="use that one, or stop it first"
            ) from error
        yield
    finally:
        os.close(descriptor)


def serve(state: State, options: Options, ready: Callable[[], None] = lambda: None) -> None:
    """Serves the party until SIGTERM, SIGINT or the action `shutdown`; returns when all it started has ended.

    `ready` is called once the socket answers. Raises StateError when another supervisor runs, DatasiteError when the
    syft server can't be kept alive.
    """
    os.umask(0o077)
    for warning in state.warnings:
        print(f"WARNING: {warning}", file=sys.stderr)
    with only_one(state):
        supervisor = Supervisor(state, options)
        with _on_signals(supervisor.ended.set):
            try:
                supervisor.start()
                ready()
                supervisor.ended.wait()
            finally:
                supervisor.stop()
    if supervisor.server_lost:
        raise DatasiteError(
            "the syft server ended again and again", remedy="read syft/server.log in the state folder"
        )


@contextmanager
def _on_signals(end: Callable[[], None]) -> Iterator[None]:
    """Inside the block SIGTERM and SIGINT call `end` (a second Ctrl-C too: stopping takes seconds, not more)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        end()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
