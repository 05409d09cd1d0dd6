"""Opens a worker's links to all parties that the manifest lets it speak with, and shakes hands on each."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from parties.links.handshake import HELLO_LIMIT, Peer, check_hello, for_same_run
from parties.links.link import Check
from parties.links.rendezvous import Meeting, Met, TurnedAway, bind, dial, listen, tell_nobody
from parties.links.tls_identity import Pin
from parties.links.tls_link import Terms, TlsLink
from parties.running.drive import largest_message
from parties.running.runspec import RunSpec
from protocols.errors import FedaccordError, RosterError, to_wire
from protocols.request import ComputationRequest, PartyEntry, party

_GRACE_S: Final = 10.0


def peers_of(request: ComputationRequest, role: str) -> tuple[PartyEntry, ...]:
    """The parties that some message of the manifest goes to from `role`, or comes from."""
    spoken = {r.receiver for r in request.manifest if r.sender == role}
    spoken |= {r.sender for r in request.manifest if r.receiver == role}
    return tuple(entry for entry in request.parties if entry.role in spoken)


def listens(request: ComputationRequest, role: str, peer: str) -> bool:
    """Whether `role` listens for `peer`: the one with an address does; of two, the first of the roster.

    Raises RosterError when neither has one.
    """
    for entry in request.parties:
        if entry.role in (role, peer) and entry.address:
            return entry.role == role
    raise RosterError(
        f"neither {party(request, role).name} nor {party(request, peer).name} has an address to listen on",
        remedy="one of the two needs an address in its card",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """Open links by role, and what the other sides said in their hellos."""

    links: Mapping[str, TlsLink]
    peers: tuple[Peer, ...]


class Connecting:
    """Meets all peers in the background, so that the worker can read its block and import libraries meanwhile."""

    def __init__(
        self,
        spec: RunSpec,
        request: ComputationRequest,
        hello: Callable[[], bytes],
        check: Check,
        turned_away: TurnedAway = tell_nobody,
    ) -> None:
        """Binds the ports at once (PortInUse), the rest goes on in threads; `check` ends the waits of all links."""
        self._request = request
        self._turned_away = turned_away
        self._role = spec.role
        self._end: float | None = None
        self._check = check
        self._met: dict[str, Future[Met]] = {}
        peers = peers_of(request, spec.role)
        jobs = {entry.role: self._job(spec, entry, hello) for entry in peers}
        self._pool = ThreadPoolExecutor(max(1, len(jobs)), thread_name_prefix="connect")
        for role, job in jobs.items():
            self._met[role] = self._pool.submit(job)

    def finish(self, now: Callable[[], datetime]) -> Connected:
        """Waits for all, checks their hellos; on the first failure all links are closed with its code."""
        links: dict[str, TlsLink] = {}
        try:
            peers = []
            for role, future in self._met.items():
                met = future.result()
                links[role] = met.link
                moment = now()
                came = moment - timedelta(seconds=time.monotonic() - met.came)
                peers.append(check_hello(met.hello, self._request, role, moment, came))
        except BaseException as problem:
            self.give_up(problem, grace=0.0)
            raise
        self._pool.shutdown()
        return Connected(links=links, peers=tuple(peers))

    def give_up(self, problem: BaseException, grace: float = _GRACE_S) -> None:
        """Closes all links with the code of the problem; those not open yet may still open for `grace` seconds.

        So a side that can't take part says so at once, instead of letting the other wait for its timeout.
        """
        self._end = time.monotonic() + grace
        self._pool.shutdown()
        for future in self._met.values():
            if future.exception() is None:
                future.result().link.close(to_wire(problem))

    def _checked(self) -> None:
        self._check()
        if self._end is not None and time.monotonic() > self._end:
            raise FedaccordError("this side has given up")

    def _job(self, spec: RunSpec, entry: PartyEntry, hello: Callable[[], bytes]) -> Callable[[], Met]:
        own = party(self._request, self._role)
        limit = largest_message(self._request.manifest, entry.role, self._role)
        here = listens(self._request, self._role, entry.role)
        meeting = Meeting(
            pin=Pin(
                peer=entry.name,
                certificate=entry.link_certificate,
                own_key=Path(spec.link_key),
                own_certificate=Path(spec.link_certificate),
            ),
            address=own.address if here else entry.address,
            hello=hello,
            is_ours=for_same_run(spec.digest, entry.role),
            terms=Terms(
                patience=spec.message_s,
                silence=spec.silence_s,
                message_limit=max(limit, HELLO_LIMIT),
                check=self._checked,
            ),
            seconds=spec.connect_s,
            turned_away=self._turned_away,
        )
        if not here:
            return lambda: dial(meeting)
        listener = bind(meeting.address, spec.bind)
        return lambda: listen(listener, meeting)
