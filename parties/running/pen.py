"""The worker's pen for its party's audit log."""

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path

from parties.links.handshake import Peer
from parties.running.ending import End
from parties.running.runspec import RESULT_DETAIL, RunSpec, State
from parties.running.traffic import Traffic
from protocols.audit import AuditEvent, AuditLog, Result, SignedHead, head_detail
from protocols.errors import AuditError, FedaccordError
from protocols.gate import ReleaseUse
from protocols.program import Json
from protocols.psi import PSI_KINDS, PSI_SIZE_KINDS
from protocols.records import Scalar
from protocols.request import ComputationRequest, party, set_in_words
from protocols.suppressed import suppressions

_log = logging.getLogger(__name__)
TURNED_AWAY_KEPT = 20
"""Entries that one run spends on strangers at its port: they must not be able to fill the log."""
_ENDS = {
    State.DONE: AuditEvent.RUN_FINISHED,
    State.FAILED: AuditEvent.RUN_FAILED,
    State.INTERRUPTED: AuditEvent.RUN_INTERRUPTED,
    State.CANCELLED: AuditEvent.RUN_CANCELLED,
    State.REVOKED: AuditEvent.RUN_CANCELLED,
}
ALIGNING = frozenset(kind.__name__ for kind in (*PSI_KINDS, *PSI_SIZE_KINDS))


class WorkerPen:
    """Writes the entries of one run; AuditError when one can't be written: then what it tells of must not happen."""

    def __init__(self, spec: RunSpec, request: ComputationRequest, now: Callable[[], datetime]) -> None:
        self._request = request
        self._party = party(request, spec.role).name
        self._log = AuditLog(Path(spec.audit), self._party)
        self._spec = spec
        self._now = now
        self._turned_away: set[tuple[str, str]] = set()

    def write(self, event: AuditEvent, result: Result = Result.OK, **detail: Scalar) -> None:
        """One entry on this run's request."""
        self._log.append(
            event,
            who="worker",
            role=self._spec.role,
            organisation=self._spec.organisation or self._party,
            result=result,
            origin=f"run {self._spec.run}",
            object=f"request {self._spec.digest}",
            detail={"run": self._spec.run, **detail},
            now=self._now(),
        )

    def reserve(self, first: int, last: int) -> None:
        """See `parties.running.drive.Reserve`."""
        self.write(AuditEvent.MESSAGES_RESERVED, first=first, last=last)

    def met(self, peer: Peer) -> None:
        """A peer's worker has shaken hands: its log's head, and a warning when the two clocks differ."""
        self.write(AuditEvent.HANDSHAKE, peer=peer.name, peer_role=peer.role)
        if peer.skew:
            seconds = round(peer.ahead)
            self.write(
                AuditEvent.CLOCKS_DIFFER,
                Result.FAILED,
                peer=peer.name,
                ahead_seconds=seconds,
                warning=peer.skew,
            )
        self.head(peer.head, "opening")

    def turned_away(self, host: str, why: str) -> None:
        """Somebody was refused at our port: one entry for each host and reason, up to TURNED_AWAY_KEPT of them."""
        if (host, why) in self._turned_away or len(self._turned_away) >= TURNED_AWAY_KEPT:
            return
        self._turned_away.add((host, why))
        try:
            reason = " ".join(why.split())[:200].rstrip()
            self.write(AuditEvent.HANDSHAKE_REFUSED, Result.REFUSED, came_from=host, reason=reason)
        except AuditError:
            _log.exception("a refused connection could not be recorded")

    def head(self, signed: SignedHead, when: str) -> None:
        """A peer's signed head: at the `opening`, at a `checkpoint` or at the `closing` of the run."""
        self.write(AuditEvent.HEAD_RECEIVED, Result.OK, **head_detail(signed, when))

    def aligned(self, tag: str) -> None:
        """An alignment has ended; the sets are those that the request names.

        Equal tags in both logs say that both parties speak of the same people in one order; a mere size has no tag.
        """
        detail: dict[str, Scalar] = {"alignment": tag or "none: only a size was learnt"}
        self.write(AuditEvent.PSI_FINISHED, Result.OK, **detail, **self._sets())

    def alignment_cut_short(self, reason: str, uses: Iterable[ReleaseUse]) -> None:
        """The run ended before its alignment was logged: how many messages of each kind went through says how far it
        came, and so what either side may know."""
        went = [f"{use.kind} {use.messages}" for use in uses if use.kind in ALIGNING and use.messages]
        detail: dict[str, Scalar] = {
            "alignment": f"not told: the run ended first ({reason})",
            "messages": ", ".join(went) or "none",
        }
        self.write(AuditEvent.PSI_FINISHED, Result.FAILED, **detail, **self._sets())

    def _sets(self) -> dict[str, Scalar]:
        return {
            f"set of {entry.name}": set_in_words(self._request, entry.role) for entry in self._request.parties
        }

    def fault(self, role: str, problem: FedaccordError, *, closed: bool) -> None:
        """What last went wrong with a peer that the run went on without, and whether it gave its closing head."""
        self.write(
            AuditEvent.PEER_FAULT,
            Result.FAILED,
            peer=party(self._request, role).name,
            peer_role=role,
            code=problem.code,
            closing_head="received" if closed else "missing",
        )

    def suppressed(self, released: Mapping[str, Json]) -> None:
        """How many places of what the run releases hold no number, and why; no entry when there is none."""
        reasons = suppressions(released)
        if reasons:
            detail = {f"for: {reason}": count for reason, count in reasons.items()}
            self.write(AuditEvent.RESULT_SUPPRESSED, Result.OK, places=sum(reasons.values()), **detail)

    def program_finished(self, traffic: Traffic) -> None:
        """The program has ended, with what went over each link: the closing head covers this, the run's end is open."""
        self.write(AuditEvent.PROGRAM_FINISHED, Result.OK, **_went(traffic))

    def end(self, end: End, traffic: Traffic, result: str = "") -> None:
        """How the run ended, with what went over each link; a run has one such entry, its last but for a restart's.

        `result` is the SHA-256 of the result's file in hex: only that file is released later.
        """
        detail: dict[str, Scalar] = {"state": end.state.value, "reason": end.reason or "none"}
        if result:
            detail[RESULT_DETAIL] = result
        if end.detail:
            detail["detail"] = " ".join(end.detail.split())[:200].rstrip()
        result = Result.FAILED if end.state is State.FAILED else Result.OK
        self.write(_ENDS[end.state], Result.REFUSED if end.refused else result, **detail, **_went(traffic))


def _went(traffic: Traffic) -> dict[str, Scalar]:
    """Messages, bytes and the hash over all of them, for each way of each link."""
    detail: dict[str, Scalar] = {}
    for word, way in (("sent", traffic.sent), ("received", traffic.received)):
        for role, direction in way.items():
            detail[f"{word} {role}"] = (
                f"{direction.messages} messages, {direction.size} bytes, sha256 {direction.transcript.digest()}"
            )
    return detail
