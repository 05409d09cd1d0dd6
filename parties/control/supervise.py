"""Runs a party's datasite in the foreground: the supervisor wired to the store, the catalog and the syft server."""

import os
import signal
import sys
import threading
import time

from parties import catalog
from parties.blocks.store import Store
from parties.control.supervisor import Options, serve
from parties.home.state import State
from parties.syft_side.launcher import START_SECONDS, launch, ready_path

POLL = 0.1  # seconds between two looks for the syft server


def run_datasite(
    state: State, *, injected_seed: int | None = None, bind: str = "", until_stdin_ends: bool = False
) -> None:
    """Serves until Ctrl-C, SIGTERM or `shutdown`, and with `until_stdin_ends` until whoever started us is gone.

    Raises StateError, PortInUse or DatasiteError with the remedy.
    """
    store = Store(state.blocks)

    def current_block(name: str) -> tuple[int, str]:
        schema = store.describe(name)
        return schema.version, schema.commitment

    options = Options(
        current_block=current_block,
        code_digest=catalog.code_digest,
        model_wanted=catalog.model_wanted,
        model_fits=catalog.check_trained,
        model_used_alone=catalog.used_alone,
        check_seats=catalog.check_seats,
        blocks=lambda: tuple(schema.block for schema in store.list()),
        launcher=launch,
        injected_seed=injected_seed,
        bind=bind,
    )
    if until_stdin_ends:
        threading.Thread(target=_end_with_stdin, name="stdin", daemon=True).start()
    # In a thread of its own: a signal must end the start, too.
    announcing = threading.Thread(target=_announce, args=(state,), name="announce", daemon=True)
    serve(state, options, ready=announcing.start)


def _end_with_stdin() -> None:
    """Ends this process in order, as SIGTERM does, when its standard input ends."""
    while os.read(0, 4096):
        continue
    os.kill(os.getpid(), signal.SIGTERM)


def _announce(state: State) -> None:
    print(
        f"{state.name}: supervisor {os.getpid()} answers in {state.folder}; the syft server is starting, which takes"
        " 5 to 30 seconds",
        flush=True,
    )
    end = time.monotonic() + START_SECONDS
    while not ready_path(state).exists() and time.monotonic() < end:
        time.sleep(POLL)
    if ready_path(state).exists():
        print(
            f"{state.name}: datasite ready on http://{state.host}:{state.port}  (Ctrl-C stops it)", flush=True
        )
    else:
        print(f"{state.name}: the syft server isn't up yet, see syft/server.log", file=sys.stderr, flush=True)
