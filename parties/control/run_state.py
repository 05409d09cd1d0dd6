"""The states of a request and its runs, and the rows of the ledger that hold them."""

from dataclasses import dataclass
from enum import StrEnum


class RunState(StrEnum):
    """State of a request at one party, the same words for parties and analyst."""

    PENDING = "PENDING"
    APPROVED = "APPROVED"
    RUNNING = "RUNNING"
    DONE = "DONE"
    FAILED = "FAILED"
    INTERRUPTED = "INTERRUPTED"
    CANCELLED = "CANCELLED"
    REVOKED = "REVOKED"


ENDED = frozenset(
    {RunState.DONE, RunState.FAILED, RunState.INTERRUPTED, RunState.CANCELLED, RunState.REVOKED}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRow:
    """One request: `caller` is the only syft verify key that may call it, `run` its newest run (0: none yet)."""

    digest: str
    caller: str
    analyst: str
    allowed: int
    used: int
    run: int
    state: RunState
    reason: str
    changed: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A run that may start now; `resumed` when it takes up an earlier attempt and its folder."""

    run: int
    attempt: int
    resumed: bool
