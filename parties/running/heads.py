"""Heads of the parties' logs that go over between the opening and the closing of a run, at its checkpoints.

A run may take days, or never come to its end: with a head of each checkpoint the peer can show that entries from before
it were changed or cut off later. A head isn't of the program: it passes neither gate, is in no count of messages, and a
program that waits doesn't see it.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from parties.links.handshake import Peer, parse_peer_head
from parties.links.link import Link
from parties.running.pen import WorkerPen
from protocols import wire
from protocols.audit import Head, SignedHead
from protocols.errors import PEER_FAULTS, AuditError, FedaccordError, ProtocolError, WireError
from protocols.request import ComputationRequest, party

_log = logging.getLogger(__name__)
HEAD_LIMIT: Final = 4096
"""Bytes of the largest message that is looked at as a head."""
_AT_FIRST: Final = 2


@dataclass(frozen=True, slots=True)
class AuditHead(wire.Message):
    """The signed head of the sender's log, as text; no program may have a kind of this name."""

    head: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Giving:
    """How own heads are made: `sign` asks the supervisor for one, at most every `seconds` of `clock`."""

    sign: Callable[[], str]
    seconds: float
    clock: Callable[[], float]


class HeadExchange:
    """Gives own heads to all peers and notes theirs, each in its turn after the opening ones of `peers`.

    Of one peer at most twice as many are noted as we would give in the same time: it can't fill our log.
    """

    def __init__(
        self,
        links: Mapping[str, Link],
        peers: Iterable[Peer],
        request: ComputationRequest,
        pen: WorkerPen,
        giving: Giving,
    ) -> None:
        self._links = links
        self._request = request
        self._pen = pen
        self._giving = giving
        self._began = self._given = giving.clock()
        self._newest: dict[str, Head] = {peer.role: peer.head.head for peer in peers}
        self._noted = dict.fromkeys(links, 0)

    def give(self) -> None:
        """At a checkpoint: our head to every peer, unless the last one is too recent.

        It never ends a run: without a supervisor's answer there is none this time, and what is wrong with a link is met
        again where the program uses it.
        """
        if self._giving.clock() - self._given < self._giving.seconds:
            return
        self._given = self._giving.clock()
        try:
            data = wire.encode(AuditHead(self._giving.sign()))
        except FedaccordError as problem:
            _log.warning("no head of the log at this checkpoint: %s", problem)
            return
        for role, link in self._links.items():
            try:
                link.send(data)
            except PEER_FAULTS as problem:
                _log.info("no head of the log for %s at this checkpoint: %s", role, problem)

    def take(self, role: str, data: bytes) -> bool:
        """Whether the message is a head, which then is noted; ProtocolError for one that isn't its party's next."""
        if len(data) > HEAD_LIMIT:
            return False
        try:
            came = wire.decode(data, (AuditHead,), limit=HEAD_LIMIT)
        except WireError:
            return False
        assert isinstance(came, AuditHead)
        try:
            signed = parse_peer_head(came.head, self._request, role)
        except AuditError as problem:
            raise ProtocolError(str(problem)) from problem
        self.note(role, signed, "checkpoint")
        return True

    def note(self, role: str, signed: SignedHead, when: str) -> None:
        """Logs a head; ProtocolError, after that, unless it can follow on the last one of this peer's log."""
        head, before = signed.head, self._newest.get(role, signed.head)
        follows = head.index > before.index or head == before
        if when == "checkpoint" and follows and not self._may_note(role):
            return
        self._pen.head(signed, when)
        if not follows:
            name = party(self._request, role).name
            raise ProtocolError(
                f"{name} gave a head of its log at entry {head.index} after one at entry {before.index} that it can't "
                "follow: its log was cut or rewritten while the run went on",
                remedy=f"have {name} verify its log against both heads; ours holds them",
            )
        self._newest[role] = head

    def _may_note(self, role: str) -> bool:
        if self._giving.seconds > 0:
            turns = (self._giving.clock() - self._began) / self._giving.seconds
            if self._noted[role] >= _AT_FIRST + 2 * turns:
                return False
        self._noted[role] += 1
        return True
