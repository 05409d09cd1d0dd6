"""The demo's processes: two datasites started by the same command that an owner types, and stopped whatever happens."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from parties.home.state import State
from parties.syft_side.launcher import ready_path
from protocols.errors import DatasiteError, FedaccordError

READY_SECONDS = 300.0
STOP_SECONDS = 25.0
POLL = 0.2


def free_ports(count: int) -> list[int]:
    """So many ports of the loopback address that nobody uses now, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def free_range(size: int, attempts: int = 50) -> str:
    """A "127.0.0.1:first-last" of so many neighbouring free ports. DatasiteError when none is found."""
    for _ in range(attempts):
        (first,) = free_ports(1)
        if first + size <= 65536 and all(_is_free(port) for port in range(first, first + size)):
            return f"127.0.0.1:{first}-{first + size - 1}"
    raise DatasiteError(
        f"no {size} neighbouring free ports on 127.0.0.1", remedy="stop programs that hold many ports"
    )


@contextmanager
def served(state: State, *, injected_seed: int | None) -> Iterator[subprocess.Popen[bytes]]:
    """A running datasite, `fedaccord serve` in a process of its own; ended in order, or by force, on the way out."""
    command = [sys.executable, "-m", "parties", "serve", "--until-stdin-ends", "--state", str(state.folder)]
    if injected_seed is not None:
        command += ["--inject-private-seed", str(injected_seed)]
    with (state.folder / "serve.log").open("ab") as log:
        # Its own session: Ctrl-C reaches us only, and we end it in order. If we are killed, its standard input ends.
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            stdin=subprocess.PIPE,
            env=_environment(),
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _end(process)


def wait_until_ready(processes: dict[str, subprocess.Popen[bytes]], states: dict[str, State]) -> None:
    """Returns when every datasite answers. DatasiteError with the place of the log when one ended or is too slow."""
    end = time.monotonic() + READY_SECONDS
    for name, state in states.items():
        while not ready_path(state).exists():
            status = processes[name].poll()
            if status is not None:
                raise DatasiteError(
                    f"the datasite of {name} ended with status {status}: {_last_line(state.folder / 'serve.log')}",
                    remedy=f"read {state.folder / 'serve.log'}",
                )
            if time.monotonic() > end:
                raise DatasiteError(
                    f"the datasite of {name} isn't up after {READY_SECONDS:.0f} s",
                    remedy=f"read {state.folder / 'serve.log'}",
                )
            time.sleep(POLL)


def wait_for(what: str, attempt: Callable[[], bool], seconds: float = 60.0) -> None:
    """Returns when `attempt` says True; DatasiteError naming what was waited for after `seconds`."""
    end = time.monotonic() + seconds
    last: FedaccordError | None = None
    while time.monotonic() < end:
        try:
            if attempt():
                return
        except FedaccordError as error:
            last = error
        time.sleep(POLL)
    raise DatasiteError(f"waited {seconds:.0f} s for {what}" + (f": {last}" if last else ""))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def _environment() -> dict[str, str]:
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)), "OMP_NUM_THREADS": "1"}


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "no output"
