"""Running the console: on 127.0.0.1, until Ctrl-C."""

import contextlib
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime

import uvicorn

from parties.console.app import console
from parties.console.entrance import Entrance
from parties.home.state import State
from parties.roles.signer import Signer
from protocols.errors import StateError

HOST = "127.0.0.1"
CONNECTIONS = 64
Tell = Callable[[str], None]


def run_console(state: State, *, port: int, signer: Signer | None, tell: Tell) -> None:
    """Serves the console until Ctrl-C; with a signer it tells a link that logs this person in, once.

    `port` 0 takes a free one. StateError when the port is taken.
    """
    with _listening(port) as listener:
        port = listener.getsockname()[1]
        entrance = Entrance.of(state, port, clock=time.monotonic, now=lambda: datetime.now(UTC))
        for line in _announcement(state, entrance, port, signer):
            tell(line)
        config = uvicorn.Config(
            console(entrance, port),
            access_log=False,
            log_level="critical",  # a traceback may hold private values
            server_header=False,
            lifespan="off",
            ws="none",
            limit_concurrency=CONNECTIONS,
            timeout_graceful_shutdown=2,
        )
        with contextlib.suppress(KeyboardInterrupt):  # which is how it ends
            uvicorn.Server(config).run(sockets=[listener])


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port))
    except (OSError, OverflowError) as error:
        raise StateError(
            f"port {port} of {HOST} can't be used", remedy="--port with another, or 0 for a free one"
        ) from error


def _announcement(state: State, entrance: Entrance, port: int, signer: Signer | None) -> list[str]:
    address = f"http://{HOST}:{port}"
    if signer is None:
        way = f"log in with the name and passphrase of a person of {state.name}"
    else:
        link = f"{address}/enter/{entrance.tickets.issue(signer)}"
        way = f"{signer.person.name} logs in, once and within five minutes, at {link}"
    return [f"console of {state.name} at {address} (this machine only; Ctrl-C ends it)", way]
