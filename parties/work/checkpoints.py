"""The checkpoints of a run folder: the program's state and what the gate had counted by then, newest few only."""

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
_STATE: Final = "state."
_USED: Final = "used."


class Checkpoints:
    """Checkpoint files `00000120.ckpt` (0600) in one folder; each is written whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self._folder = make_private_folder(folder)

    def steps(self) -> tuple[int, ...]:
        """The steps that there is a checkpoint of, ascending."""
        return tuple(sorted(int(path.stem) for path in self._folder.glob("*.ckpt") if path.stem.isdigit()))

    def save(self, checkpoint: Checkpoint, gate: Gate) -> None:
        """Writes one checkpoint and removes the oldest above `KEPT`."""
        arrays = {_STATE + name: array for name, array in checkpoint.state.items()}
        for key, used in gate.used.items():
            arrays[_USED + "/".join(key)] = np.array(used, dtype=np.int64)
        write_private(self._path(checkpoint.step), wire.pack_arrays(arrays))
        for step in self.steps()[:-KEPT]:
            self._path(step).unlink(missing_ok=True)

    def load(self, step: int) -> tuple[dict[str, NDArray[np.generic]], dict[ReleaseKey, int]]:
        """State of the program and messages used for each release at that step; StateError when the file is damaged.

        What was sent after the checkpoint and is sent again is the same bytes, from the same seeds, so it isn't counted
        twice; the audit log has both attempts. The intersection comes before the first checkpoint: an attempt that
        begins again blinds the same keys anew.
        """
        try:
            arrays = wire.unpack_arrays(self._path(step).read_bytes())
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

    def _path(self, step: int) -> Path:
        return self._folder / f"{step:08d}.ckpt"
