"""A real worker that can be made to stop before one of its messages: in place of `parties.running.worker`.

The file `hold` in the party's state folder names a kind of message. Before the worker sends the first of this kind it
leaves a file `held` in its run folder, and waits until there is one called `go`. So a test can do something to a
worker, or to its peer, at a known moment of an alignment. A file `patience` holds the seconds after which a silent
peer is lost.
"""

import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from parties.running import worker
from parties.running.runspec import load_spec
from parties.running.worker_tools import Tools
from protocols import wire
from protocols.gate import Gate, ReleaseKey
from protocols.request import ComputationRequest

HOLD, HELD, GO, PATIENCE = "hold", "held", "go", "patience"
SECONDS = 300.0
"""A worker that nobody lets go ends by itself."""


class Held(Gate):
    """A gate that holds the first message of `kind` up."""

    kind = ""

    def outbound(self, to: str, message: wire.Message, nbytes: int) -> None:
        """Waits before it lets the message through."""
        if type(message).__name__ == self.kind:
            _wait()
        super().outbound(to, message, nbytes)


def _wait() -> None:
    """In the run folder, which is a worker's current folder."""
    end = time.monotonic() + SECONDS
    Path(HELD).touch()
    while not Path(GO).exists():
        if time.monotonic() > end:
            sys.exit("nobody let this worker go")
        time.sleep(0.02)


def gate(request: ComputationRequest, role: str, used: Mapping[ReleaseKey, int]) -> Gate:
    """In place of `worker_tools.make_gate`."""
    return Held(request, role, used=used)


if __name__ == "__main__":
    spec = load_spec(Path(sys.argv[1]))
    hold, patience = Path(spec.state) / HOLD, Path(spec.state) / PATIENCE
    if hold.exists():
        Held.kind = hold.read_text()
        worker.Tools = partial(Tools, gate=gate)  # type: ignore[assignment,misc]
    if patience.exists():
        spec = replace(spec, silence_s=float(patience.read_text()))
    worker.load_spec = lambda folder: spec
    sys.exit(worker.main(sys.argv[1:]))
