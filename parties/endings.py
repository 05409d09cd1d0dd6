"""How a run ended, and what then stays in its folder."""

import shutil
from datetime import datetime
from pathlib import Path

from parties.private_files import write_json
from parties.runs import RunState
from parties.runspec import CHECKPOINTS, RESULT_FILE, SEED_FILE, TEMPORARY, Snapshot, read_snapshot

PASSING = (CHECKPOINTS, TEMPORARY, SEED_FILE)  # what a run leaves that nobody needs after its end
VANISHED = "worker_ended"
"""Reason of a run whose worker ended without a word."""


def ending(snapshot: Snapshot | None, folder: Path, asked: str) -> tuple[RunState, str]:
    """How a run ended, from the worker's last word and from what we had asked of it."""
    state = RunState(snapshot.state.value) if snapshot is not None else RunState.RUNNING
    if state is RunState.DONE:
        if (folder / RESULT_FILE).exists():
            return state, ""
        return RunState.FAILED, "internal"
    if asked in ("cancel", "revoke"):
        return (RunState.CANCELLED, "cancelled") if asked == "cancel" else (RunState.REVOKED, "revoked")
    if snapshot is None or state is RunState.RUNNING:
        return RunState.INTERRUPTED, "interrupted" if asked == "stop" else VANISHED
    return state, snapshot.reason


def delete_passing(folder: Path) -> tuple[str, ...]:
    """Deletes checkpoints, temporary material and the private seed, and gives back the names of what was there."""
    there = [folder / name for name in PASSING if (folder / name).exists()]
    for path in there:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    return tuple(path.name for path in there)


def mark_withdrawn(folder: Path, party: str, reason: str, now: datetime) -> None:
    """Marks a run's model: consent to it was withdrawn, when, and after which step."""
    snapshot = read_snapshot(folder)
    mark = {
        "mark": f"consent withdrawn by {party}",
        "step": snapshot.step if snapshot else 0,
        "reason": reason,
        "time": now.isoformat(),
    }
    write_json(folder / "withdrawn.json", mark)
