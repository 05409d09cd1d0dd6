"""How a run ended, and what then stays in its folder."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from parties.control.runs import RunState
from parties.home.private_files import write_json
from parties.running.runspec import (
    RESULT_FILE,
    ExitCode,
    Snapshot,
    State,
    load_spec,
    read_snapshot,
)
from protocols.errors import DiskFullError, FedaccordError

VANISHED = "worker_ended"
"""Reason of a run whose worker ended without a word."""
PEER_REVOKED = "peer_stopped:revoked"
WITHDRAWN_FILE = "withdrawn.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """How a run ended; `logged` when the worker lived to write that into the audit log itself."""

    state: RunState
    reason: str
    logged: bool


def last_word(folder: Path, attempt: int) -> Snapshot | None:
    """The newest word of this attempt's worker; None when the folder was never prepared for it.

    Then what lies there is the last word of an earlier attempt, whose end is written already.
    """
    try:
        prepared = load_spec(folder).attempt
    except FedaccordError:  # missing or damaged: the word may still be this attempt's
        return read_snapshot(folder)
    return None if 0 < prepared < attempt else read_snapshot(folder)


def run_end(snapshot: Snapshot | None, folder: Path, asked: str, status: int | None) -> RunEnd:
    """How a run ended, from its worker's last word and exit status (None: unknown) and from what we asked of it."""
    spoke = (
        snapshot is not None
        and snapshot.state is not State.RUNNING
        and (status is None or status in set(ExitCode))
    )
    if snapshot is not None and spoke:
        if snapshot.state is State.DONE and not (folder / RESULT_FILE).exists():
            return RunEnd(state=RunState.FAILED, reason="internal", logged=False)
        return RunEnd(state=RunState(snapshot.state.value), reason=snapshot.reason, logged=snapshot.logged)
    if status == ExitCode.DISK_FULL:
        return RunEnd(state=RunState.FAILED, reason=DiskFullError.code, logged=False)
    if asked == "cancel":
        return RunEnd(state=RunState.CANCELLED, reason="cancelled", logged=False)
    if asked == "revoke":
        return RunEnd(state=RunState.REVOKED, reason="revoked", logged=False)
    return RunEnd(
        state=RunState.INTERRUPTED, reason="interrupted" if asked == "stop" else VANISHED, logged=False
    )


def mark_withdrawn(folder: Path, party: str, reason: str, now: datetime) -> None:
    """Marks a run's model: consent to it was withdrawn, when, and after which step."""
    snapshot = read_snapshot(folder)
    mark = {
        "mark": f"consent withdrawn by {party}",
        "step": snapshot.step if snapshot else 0,
        "reason": reason,
        "time": now.isoformat(),
    }
    write_json(folder / WITHDRAWN_FILE, mark)
