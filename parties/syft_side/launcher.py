"""Starts and stops a party's syft server process; imports no syft, so that the supervisor stays small.

The process binds 127.0.0.1 only. Its secrets reach it through the 0600 file in the state folder, never through the
environment it is started with (which every process of the same user could read). It ends when its standard input
ends: whoever started it may die in any way, it doesn't stay behind.
"""

import os
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

from parties.home.state import State
from parties.shim import STATE_VARIABLE
from protocols.errors import DatasiteError, PortInUse

SECRETS = ("SERVER_PRIVATE_KEY", "DEFAULT_ROOT_PASSWORD")
START_SECONDS = 120.0
STOP_SECONDS = 8.0
"""Longer than the 3 seconds that a waiting long poll gets, plus the hard end after it."""
INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "PYTHONPATH", "VIRTUAL_ENV", "COVERAGE_PROCESS_START")
"""All that the process gets of our environment; an allow-list, never a copy."""


def ready_path(state: State) -> Path:
    """The file that exists while the server answers and its settings are applied."""
    return state.folder / "syft" / "ready"


def log_path(state: State) -> Path:
    """The server's output; readable by the owner only."""
    return state.folder / "syft" / "server.log"


def launch(state: State) -> subprocess.Popen[bytes]:
    """The started syft server process. Keep it: closing its `stdin`, or dying, ends it.

    Raises PortInUse within milliseconds when the port is taken, DatasiteError for an address that isn't loopback.
    Use `wait_until_ready` afterwards (about 5 seconds) and `stop` at the end.
    """
    with bind(state.host, state.port) as listener:
        ready_path(state).unlink(missing_ok=True)
        log = os.open(log_path(state), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.fchmod(log, 0o600)
            return subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "parties.syft_side.datasite_process",
                    str(state.folder),
                    str(listener.fileno()),
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=state.folder / "syft",
                env=_start_environment(),
                pass_fds=(listener.fileno(),),
                start_new_session=True,
            )
        finally:
            os.close(log)


def bind(host: str, port: int) -> socket.socket:
    """A bound TCP socket, not yet listening: the port is ours before the slow imports begin."""
    if host not in ("127.0.0.1", "localhost"):
        raise DatasiteError(
            f"a syft server binds 127.0.0.1 only, got {host!r}",
            remedy="put a reverse proxy with TLS in front of it",
        )
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        listener.close()
        raise PortInUse(
            f"port {port} on 127.0.0.1 can't be used for the syft server: {error.strerror}",
            remedy="stop the program that uses it, or set another port in party.toml",
        ) from error
    return listener


def wait_until_ready(process: subprocess.Popen[bytes], state: State, seconds: float = START_SECONDS) -> None:
    """Returns when the server answers; DatasiteError when it ended or isn't up in time, with the log's place."""
    end = time.monotonic() + seconds
    while not ready_path(state).exists():
        status = process.poll()
        if status is not None:
            raise DatasiteError(
                f"the syft server ended with status {status}", remedy=f"read {log_path(state)}"
            )
        if time.monotonic() > end:
            raise DatasiteError(
                f"the syft server wasn't ready after {seconds:.0f} s", remedy=f"read {log_path(state)}"
            )
        time.sleep(0.05)


def stop(process: subprocess.Popen[bytes], seconds: float = STOP_SECONDS) -> int:
    """Ends the server in order, or by force after `seconds`; gives back its exit status and leaves no process."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def server_environment(state: State) -> dict[str, str]:
    """What syft reads when it is imported, without its secrets."""
    folder = state.folder / "syft"
    return {
        "TMPDIR": str(folder),
        "SYFT_TEMP_ROOT": "blobs",
        "SYFT_DB_URL": f"sqlite:///{folder}/control.db",
        "SERVER_UID": uuid.UUID(state.uid).hex,
        "SYFT_NAME": state.name,
        "SYFT_RESET": "False",
        "SYFT_DEV_MODE": "False",
        "SYFT_N_CONSUMERS": "0",
        "SYFT_CREATE_PRODUCER": "False",  # its queue hands the server's private key to whoever connects
        "DEFAULT_ROOT_EMAIL": state.root_email,
        "DEFAULT_ROOT_USERNAME": "owner",
        "MIN_SIZE_BLOB_STORAGE_MB": "64",
        "OMP_NUM_THREADS": "1",
        "MPLCONFIGDIR": str(folder / "blobs"),
        STATE_VARIABLE: str(state.folder),
    }


def _start_environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
    here = str(Path(__file__).resolve().parents[2])  # the folder that holds our packages, installed or not
    kept["PYTHONPATH"] = os.pathsep.join(
        dict.fromkeys([here, *kept.get("PYTHONPATH", "").split(os.pathsep)])
    ).rstrip(os.pathsep)
    return kept
