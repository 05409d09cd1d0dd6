"""The supervisor's worker processes: spawned with nothing but what they need, stopped in three steps, always reaped.

A worker is alive as long as it holds the flock that it inherited, however it was started and whoever is its parent
now; so no process id is ever trusted. Its stdin is a pipe that only the supervisor holds: when the supervisor goes,
the worker reads the end of file, writes a checkpoint and stops.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from parties.home.private_files import make_private_folder, sync_folder, write_private
from parties.running.runspec import RunSpec, begin_again, save_spec
from protocols.errors import StateError

WORKER_COMMAND = (sys.executable, "-P", "-m", "parties.running.worker")
"""-P keeps the run folder, which is the worker's current folder, off the import path."""
LOCK_FILE = "lock"
LOG_FILE = "worker.log"
PID_FILE = "pid"
NUMERICS = (
    "OPENBLAS_CORETYPE",
    "OPENBLAS_L2_SIZE",
    "MKL_CBWR",
    "ATEN_CPU_CAPABILITY",
    "NPY_DISABLE_CPU_FEATURES",
    "NPY_ENABLE_CPU_FEATURES",
)
"""Which machine instructions numpy and torch use: with the same ones alone a worker gets a simulation's bits."""
INHERITED = ("PATH", "LANG", "LC_ALL", "HOME", *NUMERICS)
WORD_SECONDS = (
    8.0  # for a stop by word or end of file (the worker polls at each step and writes its checkpoint)
)
TERM_SECONDS = 3.0
Finished = Callable[["Worker", int], None]


@dataclass(slots=True)
class Worker:
    """One running worker; `asked` is how we ended it ("cancel", "revoke", "stop"), "" when it ended by itself."""

    digest: str
    run: int
    folder: Path
    process: subprocess.Popen[bytes]
    asked: str = ""
    ended: threading.Event = field(default_factory=threading.Event)


def run_folder(runs: Path, digest: str, run: int) -> Path:
    """Where run number `run` of the request keeps its files."""
    return runs / f"{digest}-{run}"


def prepare_folder(folder: Path, spec: RunSpec, *, resumed: bool) -> None:
    """A complete run folder under its name: made under another one and renamed, or, resumed, with a new run.json.

    An older attempt that never sent a message leaves nothing that is taken up again. The last word of one that did is
    taken back: it must not be read as the new attempt's.
    """
    if resumed and folder.is_dir():
        begin_again(folder)
        save_spec(folder, spec)
        return
    if folder.exists():
        shutil.rmtree(folder)
    new = Path(tempfile.mkdtemp(prefix=".new-", dir=make_private_folder(folder.parent)))
    try:
        save_spec(new, spec)
        (new / LOCK_FILE).touch(mode=0o600)
        (new / LOG_FILE).touch(mode=0o600)
        os.rename(new, folder)
    except OSError:
        shutil.rmtree(new, ignore_errors=True)
        raise
    sync_folder(folder.parent)


def alive(folder: Path) -> bool:
    """Whether a worker of this run folder lives; probes never disturb each other (shared lock)."""
    try:
        descriptor = os.open(folder / LOCK_FILE, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def kill_old(folder: Path) -> None:
    """Kills the group of a worker that another supervisor spawned; its held lock proves that the group is its own."""
    text = (folder / PID_FILE).read_text() if (folder / PID_FILE).exists() else ""
    if not text.isdecimal() or not alive(folder):
        return
    try:
        os.killpg(int(text), signal.SIGKILL)
    except ProcessLookupError:
        print(f"supervisor: worker of {folder.name} had ended", file=sys.stderr)


def worker_environment() -> dict[str, str]:
    """An allow-list, never a copy: no secret of supervisor or syft reaches a worker; one thread for equal bits."""
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *(path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path)]
    environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return environment | {
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
    }


class Workers:
    """All workers of one supervisor; `finished(worker, exit status)` is called once for each, in its own thread."""

    def __init__(self, finished: Finished, command: Sequence[str] = WORKER_COMMAND) -> None:
        self._finished = finished
        self._command = tuple(command)
        self._lock = threading.Lock()
        self._workers: dict[str, Worker] = {}

    def spawn(self, digest: str, run: int, folder: Path) -> Worker:
        """Starts the worker of a prepared run folder; StateError when one lives there already."""
        lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        log = os.open(folder / LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise StateError(
                    f"a worker of {folder.name} is still alive", remedy="wait for its end"
                ) from error
            process = subprocess.Popen(
                [*self._command, str(folder)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=worker_environment(),
                cwd=folder,
                start_new_session=True,
                close_fds=True,
                pass_fds=(lock,),
            )
        finally:
            os.close(log)
            os.close(lock)  # the lock lives on in the worker
        write_private(folder / PID_FILE, str(process.pid))
        worker = Worker(digest=digest, run=run, folder=folder, process=process)
        with self._lock:
            self._workers[digest] = worker
        threading.Thread(target=self._reap, args=(worker,), name=f"reap-{digest[:8]}", daemon=True).start()
        return worker

    def _reap(self, worker: Worker) -> None:
        status = worker.process.wait()
        try:
            self._finished(worker, status)
        finally:
            if worker.process.stdin is not None:
                _close(worker)
            with self._lock:
                if self._workers.get(worker.digest) is worker:
                    del self._workers[worker.digest]
            worker.ended.set()

    def find(self, digest: str) -> Worker | None:
        """The living worker of a request."""
        with self._lock:
            return self._workers.get(digest)

    def tell(self, digest: str, word: str) -> Worker | None:
        """Says "cancel" or "revoke" to the worker and sees to its end in the background; None when there is none."""
        worker = self.find(digest)
        if worker is None:
            return None
        worker.asked = word
        _write(worker, word)
        threading.Thread(target=_end, args=(worker,), name=f"end-{digest[:8]}", daemon=True).start()
        return worker

    def close(self) -> None:
        """Closes every stdin (checkpoint and stop), then TERM, then KILL; returns when all are gone and reaped."""
        with self._lock:
            workers = list(self._workers.values())
        for worker in workers:
            worker.asked = worker.asked or "stop"
            _close(worker)
        enders = [threading.Thread(target=_end, args=(worker,)) for worker in workers]
        for ender in enders:
            ender.start()
        for ender in enders:
            ender.join()


def _end(worker: Worker) -> None:
    """Waits for a worker that was told to stop; its whole group gets TERM and KILL when it doesn't."""
    for number, seconds in ((0, WORD_SECONDS), (signal.SIGTERM, TERM_SECONDS), (signal.SIGKILL, 5.0)):
        if number and worker.process.poll() is None:
            _signal(worker, number)
        if worker.ended.wait(seconds):
            return


def _signal(worker: Worker, number: int) -> None:
    try:
        os.killpg(
            worker.process.pid, number
        )  # its own group (start_new_session); not yet reaped, so the id is its own
    except ProcessLookupError:
        print(f"supervisor: worker of {worker.folder.name} had ended", file=sys.stderr)


def _write(worker: Worker, word: str) -> None:
    if worker.process.stdin is None:
        return
    try:
        worker.process.stdin.write(word.encode() + b"\n")
        worker.process.stdin.flush()
    except (OSError, ValueError):
        print(f"supervisor: worker of {worker.folder.name} no longer listens", file=sys.stderr)


def _close(worker: Worker) -> None:
    if worker.process.stdin is None:
        return
    try:
        worker.process.stdin.close()
    except OSError:  # a word that could not be delivered was still in the buffer
        print(f"supervisor: worker of {worker.folder.name} had closed its stdin", file=sys.stderr)
