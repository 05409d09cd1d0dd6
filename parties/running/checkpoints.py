"""The checkpoints of a run folder: the program's state and what the gate had counted by then, newest few only.

Each file begins with an HMAC-SHA-256 of its step and content under the run's private seed. That finds accidents (a
torn write, a failing disk, a file of another run or step, a seed that is gone). It stops no owner who edits his own
checkpoint: the seed lies beside it.
"""

import hashlib
import hmac
import logging
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from parties.home.private_files import make_private_folder, sync_folder, write_private
from protocols import wire
from protocols.errors import StateError, WireError
from protocols.gate import Gate, ReleaseKey
from protocols.program import Checkpoint

KEPT: Final = 3
"""Two sides are at most one step apart, so of three each has one that the other has too."""
_log = logging.getLogger(__name__)
_TAG_BYTES: Final = 32
_STATE: Final = "state."
_USED: Final = "used."


class Checkpoints:
    """Checkpoint files `00000120.ckpt` (0600) in one folder; each is written whole or not at all.

    Opening the folder sets aside what is damaged (as `00000120.damaged`, with a line in the log), so the newest good
    one that the peers have too is gone on from. An empty `seed` makes the HMAC a mere checksum.
    """

    def __init__(self, folder: Path, seed: bytes = b"", *, kept: int = KEPT) -> None:
        self._folder = make_private_folder(folder)
        self._kept = kept
        self._seed = seed
        for step in self.steps():
            self._set_aside_if_damaged(step)

    def steps(self) -> tuple[int, ...]:
        """The steps that there is a checkpoint of, ascending."""
        return tuple(sorted(int(path.stem) for path in self._folder.glob("*.ckpt") if path.stem.isdigit()))

    def save(self, checkpoint: Checkpoint, gate: Gate) -> None:
        """Writes one checkpoint and removes the oldest above the number that is kept."""
        arrays = {_STATE + name: array for name, array in checkpoint.state.items()}
        for key, used in gate.used.items():
            arrays[_USED + "/".join(key)] = np.array(used, dtype=np.int64)
        content = wire.pack_arrays(arrays)
        write_private(self._path(checkpoint.step), self._tag(checkpoint.step, content) + content)
        for step in self.steps()[: -self._kept]:
            self._path(step).unlink(missing_ok=True)

    def load(self, step: int) -> tuple[dict[str, NDArray[np.generic]], dict[ReleaseKey, int]]:
        """State of the program and messages used for each release at that step; StateError when the file is damaged.

        What was sent after the checkpoint and is sent again is the same bytes, from the same seeds, so it isn't counted
        twice; the audit log has both attempts. The intersection comes before the first checkpoint: an attempt that
        begins again blinds the same keys anew.
        """
        try:
            arrays = wire.unpack_arrays(self._content(step))
        except (OSError, WireError) as problem:
            raise StateError(
                f"the checkpoint of step {step} can't be read ({type(problem).__name__})"
            ) from problem
        state = {name[len(_STATE) :]: array for name, array in arrays.items() if name.startswith(_STATE)}
        used: dict[ReleaseKey, int] = {}
        for name, array in arrays.items():
            if name.startswith(_USED):
                kind, sender, receiver = name[len(_USED) :].split("/")
                used[kind, sender, receiver] = int(array)
        return state, used

    def clear_after(self, step: int) -> None:
        """Removes newer checkpoints, which belong to an attempt that isn't gone on with."""
        for newer in self.steps():
            if newer > step:
                self._path(newer).unlink()
        sync_folder(self._folder)

    def _set_aside_if_damaged(self, step: int) -> None:
        try:
            self._content(step)
        except (OSError, StateError) as problem:
            _log.warning(
                "the checkpoint of step %d is damaged and not used (%s)", step, type(problem).__name__
            )
            self._path(step).rename(self._path(step).with_suffix(".damaged"))

    def _content(self, step: int) -> bytes:
        """What `save` wrote; StateError when it has changed since, or belongs to another run or step."""
        data = self._path(step).read_bytes()
        tag, content = data[:_TAG_BYTES], data[_TAG_BYTES:]
        if not hmac.compare_digest(tag, self._tag(step, content)):
            raise StateError(f"the checkpoint of step {step} isn't what was written")
        return content

    def _tag(self, step: int, content: bytes) -> bytes:
        return hmac.digest(self._seed, step.to_bytes(8, "big") + content, hashlib.sha256)

    def _path(self, step: int) -> Path:
        return self._folder / f"{step:08d}.ckpt"
