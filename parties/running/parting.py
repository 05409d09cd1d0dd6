"""The end of a run between its workers: closing heads are exchanged, and each side's count of messages is compared.

Each side says too whether it holds the run's numbers back: the other's report may count its people.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from parties.links.handshake import check_goodbye, goodbye
from parties.links.link import Check, Link
from parties.running.drive import next_message
from parties.running.heads import HeadExchange
from parties.running.pen import WorkerPen
from parties.running.traffic import Traffic
from protocols.errors import PEER_FAULTS, FedaccordError, PeerStopped, RevokedRun
from protocols.request import ComputationRequest

GOODBYE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """What parting from all peers needs; with `may_miss` a peer at fault doesn't keep the run from its end."""

    links: Mapping[str, Link]
    request: ComputationRequest
    traffic: Traffic
    pen: WorkerPen
    heads: HeadExchange
    check: Check
    held: bool
    may_miss: bool

    def exchange(self, head: str, faults: Mapping[str, FedaccordError]) -> bool:
        """Gives each peer our closing head and notes theirs in the log; whether any side holds numbers back.

        `faults` is what went wrong with peers before. With `may_miss` those and the peers that can't part are named in
        the log, unless their people revoked; else the first such error is raised. Who didn't part may have numbers to
        hold back, so that counts as if it had said so.
        """
        held = self.held
        missed: dict[str, FedaccordError] = {}
        for action in (self._tell, self._hear):
            for role in [role for role in self.links if role not in missed]:
                try:
                    held |= action(role, head)
                except PEER_FAULTS as problem:
                    self.check()  # a link that this side closed because it stops isn't the peer's fault
                    revoked = isinstance(problem, PeerStopped) and problem.reason == RevokedRun.code
                    if revoked or not self.may_miss:
                        raise
                    missed[role] = problem
        for role, fault in {**missed, **faults}.items():
            self.pen.fault(role, fault, closed=role not in missed)
        return held or bool(missed)

    def _tell(self, role: str, head: str) -> bool:
        self.links[role].send(goodbye(head, self.traffic, role, held=self.held))
        return self.held

    def _hear(self, role: str, head: str) -> bool:
        data = next_message(self.links[role], role, GOODBYE_S, self.heads.take)
        signed, held = check_goodbye(data, self.request, self.traffic, role)
        self.heads.note(role, signed, "closing")
        return held
