"""A worker process for the toy computation: `python -m tests.parties.running.toy_worker FOLDER [TAMPERED] [MORE]`.

MORE is "open" for a gate that is switched off, "patient" for one that waits long for its peer. With the variable
MEETING, a folder, it begins when a second one is ready there too: what happens between the two then doesn't hang on how
long each takes to start.
"""

import logging
import os
import sys
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np

from parties.running import parting, pen, worker_tools
from parties.running.runspec import RunSpec, load_spec, save_spec
from parties.running.worker import run
from parties.running.worker_tools import Tools, utc_now
from protocols.errors import AuditError, BlockError
from protocols.gate import Gate
from protocols.request import ComputationRequest
from tests.parties.running import toy
from tests.waiting import PATIENCE
from vertical.table import NumericColumn, PartyData, Table

MEETING = "FEDACCORD_TEST_MEETING"


class Open(Gate):
    """An own gate that was switched off."""

    def outbound(self, to: str, message: object, nbytes: int) -> None:
        """Lets all pass."""


def data(spec: RunSpec, request: ComputationRequest) -> PartyData:
    if not Path(spec.store).is_dir():
        raise BlockError("block content changed")
    column = NumericColumn(name="x", values=np.zeros(2))
    return PartyData(keys=(b"1", b"2"), table=Table((column,)), split=np.zeros(2, np.uint8))


def no_room(*arguments: object) -> None:
    """In place of the entry of the end."""
    raise AuditError("no space left on device")


def wait_for_the_other(meeting: Path) -> None:
    (meeting / str(os.getpid())).touch()
    while len(list(meeting.iterdir())) < 2:
        time.sleep(0.005)


def main() -> int:
    if os.environ.get(MEETING):
        wait_for_the_other(Path(os.environ[MEETING]))
    folder, tampered = Path(sys.argv[1]), sys.argv[2]
    if "patient" in sys.argv:
        save_spec(folder, replace(load_spec(folder), connect_s=PATIENCE, silence_s=PATIENCE))
    computations = toy.computation(tampered)
    os.umask(0o077)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    kind = Open if "open" in sys.argv else Gate
    if tampered == "no goodbye":
        parting.goodbye = lambda head, traffic, role, held: os._exit(9)
    if tampered == "careless":
        worker_tools.approvals_of = lambda text, request, now: ()
    if tampered == "disk full at the end":
        pen.WorkerPen.end = no_room  # type: ignore[method-assign]
    ahead = timedelta(hours=1) if tampered == "an hour ahead" else timedelta()
    return run(
        folder,
        Tools(
            now=lambda: utc_now() + ahead,
            find=lambda name, version: computations[name],
            check_code=lambda request: None,
            open_data=data,
            gate=lambda request, role, used: kind(request, role, used=used),
        ),
    )


if __name__ == "__main__":
    sys.exit(main())
