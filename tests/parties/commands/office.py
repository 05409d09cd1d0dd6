"""A party's supervisor without a syft server: what it is given, and one as a process of its own, which may be killed.

`python -m tests.parties.commands.office STATEFOLDER WORKERCOMMAND...` is that process.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from parties import catalog
from parties.blocks.store import Store
from parties.control.socket import call
from parties.control.supervisor import Options, serve
from parties.home.state import State, open_state
from protocols.errors import StateError
from tests.waiting import PATIENCE, until

ROOT = Path(__file__).resolve().parents[3]


def options(state: State, command: Sequence[str]) -> Options:
    """What `serve` would give the party's supervisor, but for syft; `command` is what runs as a worker."""
    store = Store(state.blocks)

    def current(name: str) -> tuple[int, str]:
        schema = store.describe(name)
        return schema.version, schema.commitment

    return Options(
        current_block=current,
        code_digest=catalog.code_digest,
        model_wanted=catalog.model_wanted,
        model_fits=catalog.check_trained,
        model_used_alone=catalog.used_alone,
        blocks=lambda: tuple(schema.block for schema in store.list()),
        worker_command=command,
    )


class Office:
    """The supervisor of one party as a process."""

    def __init__(self, state: State, command: Sequence[str]) -> None:
        self.state = state
        self.command = tuple(command)
        self.said = state.folder.with_name(f"{state.name}-office.txt")
        """What it prints."""
        self._process: subprocess.Popen[bytes] | None = None

    def serve(self) -> None:
        """Starts it; returns when it answers."""
        words = (sys.executable, "-m", "tests.parties.commands.office", str(self.state.folder), *self.command)
        with self.said.open("ab") as said:
            self._process = subprocess.Popen(words, cwd=ROOT, stdout=said, stderr=said)
        until(self._answers, bool)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "the supervisor ended"
        try:
            return call(self.state.folder, {"action": "requests"}).get("ok") is True
        except StateError:
            return False

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """Kills it on the spot."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """Ends it in order, as Ctrl-C does."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(PATIENCE)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    serve(open_state(folder, test_mode=True), options(open_state(folder, test_mode=True), sys.argv[2:]))
