"""The supervisor's Unix socket: one JSON line in, one JSON line out, then the connection closes.

Only processes of our own user are answered. Nothing that comes in can end the server: size, time and the number of
connections are bounded, and every refusal is a typed answer. Paths longer than the 108 bytes of a socket address are
reached through the folder's descriptor in /proc/self/fd.
"""

import json
import os
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from protocols.errors import FedaccordError, ProtocolError, StateError, to_wire

LINE_LIMIT = (
    8 * 1024 * 1024
)  # bytes of a request or an answer; a request with a large manifest has some 100 KB
READ_SECONDS = 10.0  # a client sends its whole line within this time
CONNECTIONS = 48  # served at once; more wait in the backlog
NAME = "supervisor.sock"

Answer = dict[str, object]
Handler = Callable[[Mapping[str, object]], Mapping[str, object]]


@contextmanager
def _reachable(folder: Path) -> Iterator[str]:
    """A short path of the socket in the folder, valid inside the block."""
    path = str(folder / NAME)
    if len(os.fsencode(path)) < 100:
        yield path
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{NAME}"
    finally:
        os.close(descriptor)


def call(state_folder: Path, request: Mapping[str, object], timeout: float = 30.0) -> Answer:
    """Sends one request to the supervisor of the state folder and gives back its answer, refusals included.

    `timeout` bounds the whole exchange in seconds. Raises StateError when no supervisor answers there.
    """
    line = json.dumps(dict(request), allow_nan=False).encode() + b"\n"
    if len(line) > LINE_LIMIT:
        raise StateError("the request to the supervisor is too large")
    end = time.monotonic() + timeout
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout)
            _connect(connection, state_folder)
            connection.sendall(line)
            answer = _read_line(connection, end)
    except TimeoutError as error:
        raise StateError(f"the supervisor of {state_folder} didn't answer within {timeout:g} s") from error
    except OSError as error:
        raise StateError(f"the supervisor of {state_folder} went away: {error.strerror}") from error
    return _object(answer)


def _connect(connection: socket.socket, folder: Path) -> None:
    try:
        with _reachable(folder) as path:
            connection.connect(path)
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError) as error:
        raise StateError(
            f"no supervisor runs for {folder}", remedy=f"fedaccord serve --state {folder}"
        ) from error


def _read_line(connection: socket.socket, end: float) -> bytes:
    """One line without its end; TimeoutError, ProtocolError when it is too long or the other side stops within it."""
    parts: list[bytes] = []
    size = 0
    while True:
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        part = connection.recv(65536)
        if not part:
            raise ProtocolError("the connection ended within a line")
        size += len(part)
        if size > LINE_LIMIT:
            raise ProtocolError(f"a line has at most {LINE_LIMIT} bytes")
        parts.append(part)
        if b"\n" in part:
            line, _, rest = b"".join(parts).partition(b"\n")
            if rest:
                raise ProtocolError("one line per connection")
            return line


def _object(line: bytes) -> Answer:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("the line is not JSON") from error
    if not isinstance(value, dict):
        raise ProtocolError("the line is not a JSON object")
    return value


def refusal(error: BaseException) -> Answer:
    """The typed answer for an error; the text of an error that isn't ours stays in the local log."""
    answer: Answer = {
        "ok": False,
        "error": to_wire(error),
        "message": "internal error, see the supervisor's log",
        "remedy": "",
    }
    if isinstance(error, FedaccordError):
        answer |= {"message": str(error), "remedy": error.remedy}
    return answer


class SocketServer:
    """Serves `handler` on the state folder's socket, one bounded thread per connection."""

    def __init__(self, folder: Path, handler: Handler) -> None:
        self._folder = folder
        self._handler = handler
        self._slots = threading.BoundedSemaphore(CONNECTIONS)
        self._stopping = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._acceptor = threading.Thread(target=self._accept, name="socket", daemon=True)

    def start(self) -> None:
        """Binds and serves; the caller holds the state folder's lock, so a socket that lies there is a dead one."""
        (self._folder / NAME).unlink(missing_ok=True)
        with _reachable(self._folder) as path:
            self._listener.bind(path)
        (self._folder / NAME).chmod(0o600)
        self._listener.listen(64)
        self._listener.settimeout(0.2)
        self._acceptor.start()

    def stop(self, seconds: float = 5.0) -> None:
        """Accepts nothing more, removes the socket and waits a little for the answers under way."""
        self._stopping.set()
        if self._acceptor.is_alive():
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes it
            self._acceptor.join(seconds)
        self._listener.close()
        (self._folder / NAME).unlink(missing_ok=True)
        end = time.monotonic() + seconds
        for _ in range(CONNECTIONS):
            self._slots.acquire(timeout=max(0.0, end - time.monotonic()))

    def _accept(self) -> None:
        while not self._stopping.is_set():
            if not self._slots.acquire(timeout=0.2):
                continue
            try:
                connection, _ = self._listener.accept()
            except OSError as error:  # nobody came, or out of descriptors: look again
                self._slots.release()
                if not isinstance(error, TimeoutError):
                    time.sleep(0.1)
                continue
            threading.Thread(target=self._serve, args=(connection,), name="socket-call", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                connection.settimeout(READ_SECONDS)
                connection.sendall(self._answer(connection))
        except OSError as error:  # the client went away; nothing to tell it
            print(f"socket: client gone ({type(error).__name__})", file=sys.stderr)
        finally:
            self._slots.release()

    def _answer(self, connection: socket.socket) -> bytes:
        try:
            line = _read_line(connection, time.monotonic() + READ_SECONDS)
            if (
                _peer_uid(connection) != os.getuid()
            ):  # after reading, else the answer is lost with what is unread
                raise ProtocolError("only the owner's own processes are answered")
            answer = {"ok": True, **self._handler(_object(line))}
            line = json.dumps(answer, allow_nan=False).encode()
            if len(line) >= LINE_LIMIT:
                raise ProtocolError("the answer is too large")
        except FedaccordError as error:
            line = json.dumps(refusal(error)).encode()
        except TimeoutError:
            line = json.dumps(refusal(ProtocolError(f"no whole line within {READ_SECONDS:g} s"))).encode()
        except Exception as error:
            traceback.print_exception(error, file=sys.stderr)
            line = json.dumps(refusal(error)).encode()
        connection.settimeout(READ_SECONDS)
        return line + b"\n"


def _peer_uid(connection: socket.socket) -> int:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", credentials)
    return int(uid)
