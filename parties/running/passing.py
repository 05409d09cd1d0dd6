"""What of a run's folder passes: what its worker, or the supervisor of one that died, deletes at its end."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from parties.running.runspec import ARTIFACTS_FILE, CHECKPOINTS, RESULT_FILE, SEED_FILE, TEMPORARY, State

PASSING = (CHECKPOINTS, TEMPORARY, SEED_FILE)
"""What a run leaves that nobody needs once it is over for good."""
HALF = (TEMPORARY, ARTIFACTS_FILE, RESULT_FILE)
"""What a worker that died leaves, and that no later one reads."""


def passing_at(state: State) -> tuple[str, ...]:
    """Temporary material always; checkpoints and the seed unless the run may be taken up again; no half result."""
    half = () if state is State.DONE else (ARTIFACTS_FILE,)
    resumable = state in (State.FAILED, State.INTERRUPTED)
    return (TEMPORARY, *half, *(() if resumable else (CHECKPOINTS, SEED_FILE)))


def delete_passing(folder: Path, names: Sequence[str] = PASSING) -> tuple[str, ...]:
    """Deletes checkpoints, temporary material and the private seed (or what is named), and names what was there."""
    there = [folder / name for name in names if (folder / name).exists()]
    for path in there:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    return tuple(path.name for path in there)
