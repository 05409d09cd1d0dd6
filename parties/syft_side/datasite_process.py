"""The syft server process of one party: `python -m parties.syft_side.datasite_process STATE [DESCRIPTOR]`.

Started by `parties.syft_side.launcher.launch`, which hands over a bound socket and keeps our standard input open;
when that ends, we end. The secrets are read here, after exec, from the 0600 file, set only while syft is imported and
made to build its server, and removed from the environment before the first connection is accepted.
"""

import os
import socket
import sys
import threading
import time
import traceback
from functools import partial
from pathlib import Path

import uvicorn

from parties.blocks.store import Store
from parties.control.asking import ask
from parties.control.socket import call as call_supervisor
from parties.datasite import application, check_closed, log_in
from parties.home.private_files import write_json
from parties.home.state import State, open_state
from parties.syft_side.launcher import SECRETS, bind, ready_path, server_environment
from parties.syft_side.publication import Publication
from parties.syft_side.steward import Steward
from parties.syft_side.syft_desk import SyftDesk
from protocols.errors import FedaccordError

GRACE_SECONDS = 3
"""What a waiting long poll gets when the server stops."""
HARD_END_SECONDS = 6.0
"""After this time the process goes, whatever hangs in it."""
ENDED_BY_FORCE = 70
STEWARD_FAILED = 71


def main(arguments: list[str]) -> int:
    """Serves until standard input ends or a signal comes; the exit status."""
    if len(arguments) not in (1, 2):
        print("usage: python -m parties.syft_side.datasite_process STATE [DESCRIPTOR]", file=sys.stderr)
        return 2
    os.umask(0o077)
    stopping = threading.Event()
    state = open_state(Path(arguments[0]), test_mode=True)
    _end_with(stopping, ready_path(state))
    listener = (
        socket.socket(fileno=int(arguments[1])) if len(arguments) == 2 else bind(state.host, state.port)
    )
    password = state.secrets()["DEFAULT_ROOT_PASSWORD"]
    news = threading.Event()
    server = uvicorn.Server(_config(state, news))
    threading.Thread(
        target=_serve_party, args=(state, password, server, news, stopping), name="steward", daemon=True
    ).start()
    threading.Thread(target=_stop_server, args=(server, stopping), name="stop", daemon=True).start()
    try:
        server.run(sockets=[listener])
    finally:
        ready_path(state).unlink(missing_ok=True)
    return 0


def _config(state: State, news: threading.Event) -> uvicorn.Config:
    secrets = {name: state.secrets()[name] for name in SECRETS}
    os.environ.update(server_environment(state) | secrets)
    try:
        app = application(
            lambda email, success: _tell_of_login(state, email, success),
            partial(_report_refused_start, state),
            news.set,
        )
    finally:
        for name in SECRETS:
            os.environ.pop(name, None)
    return uvicorn.Config(
        app, access_log=False, log_level="warning", lifespan="on", timeout_graceful_shutdown=GRACE_SECONDS
    )


def _tell_of_login(state: State, email: str, success: bool) -> None:
    ask(state.folder, "login", email=email, success=success)


def _report_refused_start(state: State, name: str, caller: str) -> None:
    """Tells the supervisor; whatever happens, syft's answer to the caller stays what it was."""
    try:
        ask(state.folder, "refused_in_syft", name=name, caller=caller)
    except FedaccordError as error:
        print(f"a start that syft refused could not be reported: {error}", file=sys.stderr)


def _end_with(stopping: threading.Event, ready: Path) -> None:
    """Watches standard input from the first moment, also while syft is still being imported."""

    def watch() -> None:
        while os.read(0, 4096):
            continue
        stopping.set()
        time.sleep(HARD_END_SECONDS)
        ready.unlink(missing_ok=True)
        os._exit(ENDED_BY_FORCE)

    threading.Thread(target=watch, name="parent", daemon=True).start()


def _stop_server(server: uvicorn.Server, stopping: threading.Event) -> None:
    stopping.wait()
    server.should_exit = True


def _serve_party(
    state: State, password: str, server: uvicorn.Server, news: threading.Event, stopping: threading.Event
) -> None:
    """The steward's thread: see that strangers get nothing, log in, say that the server is ready, work."""
    try:
        while not server.started:
            time.sleep(0.02)
        url = f"http://127.0.0.1:{state.port}"
        check_closed(url)
        desk = SyftDesk(log_in(url, state.root_email, password))
        write_json(ready_path(state), {"pid": os.getpid(), "port": state.port})
        steward = Steward(
            desk,
            supervisor=lambda question: call_supervisor(state.folder, question),
            publication=lambda block: _publication(state, block),
            news=news,
        )
        steward.run(stopping)
    except Exception as error:
        # A server that nobody looks after would leave requests waiting for ever: end, and say so in the log.
        traceback.print_exception(error)
        os._exit(STEWARD_FAILED)


def _publication(state: State, block: str) -> Publication:
    """The newest version of a block, as it may be published."""
    store = Store(state.blocks)
    return Publication(schema=store.describe(block), card=state.card(), mock=store.mock(block))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
