"""Who does the arithmetic of an alignment: this process, or a crew of helper processes on all cores.

A program asks a `Crew` to begin jobs and later waits for each result, so it stays the same with any number of helpers,
and so do its results. A helper (`protocols.psi.helper`) gets its jobs, secret exponent included, through a socket that
only the two have: nothing secret stands in arguments, environment or files. When we end, however, its socket ends, and
so does it.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Final, Protocol, TypeAlias

from protocols.errors import HelperLost, ProtocolError
from protocols.psi.jobs import Job, read_answer

COMMAND: Final = (sys.executable, "-P", "-m", "protocols.psi.helper")
FEW: Final = 2
"""So many jobs at a time are done sooner alone than by helpers that have to be started."""
_ROOT: Final = str(Path(__file__).resolve().parents[2])
Wait: TypeAlias = Callable[[], bytes]
"""Waits for a job's points and gives them back; raises what went wrong with it."""


class Crew(Protocol):
    """Who works on jobs. Results don't depend on who does."""

    def begin(self, job: Job) -> Wait:
        """Takes a job and gives back how to wait for its points; never waits itself.

        ProtocolError from the wait for points that are none, HelperLost when whoever works on it is gone.
        """

    def rest(self) -> None:
        """Lets go of all helpers, and with them of what they remember, when no job is under way."""


class Alone:
    """This process alone: a job is done when it is waited for."""

    def begin(self, job: Job) -> Wait:
        """See `Crew`."""
        return job.run

    def rest(self) -> None:
        """See `Crew`; there is nobody to let go of."""


ALONE: Final = Alone()


def all_cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


@contextmanager
def crew_of(helpers: int) -> Iterator[Crew]:
    """So many helper processes, started when there is enough to do and gone after the block; one needs no process."""
    if helpers <= 1:
        yield ALONE
        return
    crew = _Helpers(helpers)
    try:
        yield crew
    finally:
        crew.close()


class _Helper:
    """One helper process and our end of its socket; it works on one job at a time."""

    def __init__(self) -> None:
        ours, its = socket.socketpair()
        with its:
            self._process = subprocess.Popen(
                COMMAND, stdin=its.fileno(), stdout=subprocess.DEVNULL, env=_environment()
            )
        self._socket = ours
        self._incoming = ours.makefile("rb")

    def work(self, job: Job) -> bytes:
        try:
            self._socket.sendall(job.encode())
            points = read_answer(self._incoming.read)
        except (OSError, EOFError) as problem:
            raise HelperLost(
                f"a helper process of the alignment {self._how()} before its work was done",
                remedy="see that the machine has memory left (fewer cores need less), then start the run again",
            ) from problem
        if points is None:
            raise ProtocolError("these bytes are no points of the curve")
        return points

    def _how(self) -> str:
        """How it ended, as far as the system says: a kill by a signal is mostly one for want of memory."""
        try:
            status = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return "fell silent"
        return f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"

    def end(self) -> None:
        self._process.kill()  # it keeps nothing that an orderly end would save
        self._process.wait()

    def close(self) -> None:
        self._incoming.close()
        self._socket.close()


class _Begun:
    """A job that was begun: by a helper once it has a `future`, else by whoever waits for it."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.future: Future[bytes] | None = None

    def wait(self) -> bytes:
        return self.job.run() if self.future is None else self.future.result()


class _Helpers:
    """See `crew_of`. One thread for each helper moves bytes to and from it."""

    def __init__(self, helpers: int) -> None:
        self._size = helpers
        self._all: tuple[_Helper, ...] = ()
        self._free: SimpleQueue[_Helper] = SimpleQueue()
        self._threads: ThreadPoolExecutor | None = None
        self._begun: list[_Begun] = []

    def begin(self, job: Job) -> Wait:
        begun = _Begun(job)
        self._begun.append(begun)
        if self._threads is None and len(self._begun) > FEW:
            self._start()
        elif self._threads is not None:
            begun.future = self._threads.submit(self._work, job)

        def wait() -> bytes:
            self._begun.remove(begun)
            return begun.wait()

        return wait

    def rest(self) -> None:
        if not self._begun:
            self.close()

    def close(self) -> None:
        """Ends all helpers at once, whatever they are at."""
        for helper in self._all:
            helper.end()
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)  # their helpers are gone, so they end
        for helper in self._all:
            helper.close()
        self._all, self._threads = (), None
        self._begun.clear()

    def _start(self) -> None:
        self._all = tuple(_Helper() for _ in range(self._size))
        self._free = SimpleQueue()
        for helper in self._all:
            self._free.put(helper)
        self._threads = ThreadPoolExecutor(self._size, thread_name_prefix="psi")
        for begun in self._begun:
            begun.future = self._threads.submit(self._work, begun.job)

    def _work(self, job: Job) -> bytes:
        helper = self._free.get()
        try:
            return helper.work(job)
        finally:
            self._free.put(helper)


def _environment() -> dict[str, str]:
    """An allow-list: where our code and its packages lie, and one thread for each helper."""
    paths = dict.fromkeys([_ROOT, *(path for path in sys.path if path)])
    return {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
