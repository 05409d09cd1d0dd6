"""How a run ends, from what went wrong in it."""

from dataclasses import dataclass

from parties.home.disk import disk_full, for_want_of_room
from parties.running.runspec import State
from protocols.errors import (
    CancelledRun,
    ExpiredError,
    FedaccordError,
    GateError,
    InterruptedRun,
    LinkError,
    PeerStopped,
    RevokedRun,
    Stopped,
    to_wire,
)

_STOPS: dict[type[Exception], State] = {
    CancelledRun: State.CANCELLED,
    RevokedRun: State.REVOKED,
    InterruptedRun: State.INTERRUPTED,
}
_PEER_STOPS = {"cancelled": State.CANCELLED, "revoked": State.REVOKED}


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """One end of a run.

    `reason` is for progress and analyst, `code` for the peer; `note` may name the peer; `detail` is for the own log.
    """

    state: State
    reason: str = ""
    code: str = ""
    note: str = ""
    detail: str = ""
    refused: bool = False
    """Whether a rule forbade it, rather than something breaking."""


def ending(problem: Exception) -> End:
    """The end that this problem makes; the peer's cancel or revocation ends our side alike."""
    if for_want_of_room(problem):  # whatever it broke: it is the disk's fault, and the run can go on later
        problem = disk_full("this run")
    code = to_wire(problem)
    note = str(problem) if isinstance(problem, LinkError | Stopped) else ""  # no program's: see `drive`
    detail = type(problem).__name__
    if isinstance(problem, FedaccordError):
        detail = f"{problem}; {problem.remedy}" if problem.remedy else str(problem)
    if isinstance(problem, PeerStopped):
        state, reason = _PEER_STOPS.get(problem.reason, State.FAILED), f"peer_stopped:{problem.reason}"
        if problem.reason in _PEER_STOPS:
            code = problem.reason  # for the other peers of a run with several: they end like this side
        return End(state=state, reason=reason, code=code, note=note, detail=detail)
    state = _STOPS.get(type(problem), State.FAILED)
    refused = isinstance(problem, GateError | ExpiredError)
    return End(state=state, reason=code, code=code, note=note, detail=detail, refused=refused)
