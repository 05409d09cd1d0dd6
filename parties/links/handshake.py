"""What two workers tell each other before the first message of a run and after the last.

Each proves nothing by words: whom one speaks with is settled by the pinned certificate, that the parties agreed by
their countersigned approvals, and a log's head by its party's signature.  All of it is checked here, in the order:
protocol version, digest, role, approvals of all parties, head.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from parties.running.traffic import Traffic
from protocols import wire
from protocols.approval import PartyApproval, parse_approvals, verify_all
from protocols.audit import SignedHead, parse_head
from protocols.errors import ProtocolError, WireError
from protocols.records import parse_utc, utc_text
from protocols.request import ComputationRequest, digest, party

VERSION: Final = 3
SKEW_S: Final = 60.0
"""Clocks of two parties that differ by more than this are told to both owners."""
HELLO_LIMIT: Final = 1 << 23


@dataclass(frozen=True, slots=True)
class Hello(wire.Message):
    """A worker's first message: the run it is for, its party's role there, all approvals, the head of its party's log.

    `held` are the steps of the checkpoints it could go on from, in decimal; `time` is its clock (UTC) as it speaks.
    """

    version: int
    digest: str
    role: str
    approvals: str
    head: str
    held: tuple[str, ...]
    time: str


@dataclass(frozen=True, slots=True)
class Goodbye(wire.Message):
    """A worker's last message: its log's closing head, and the hashes of all it sent to and received from this peer.

    `held` says that its party's people differ too little from those of an earlier release: then neither side may tell
    the analyst exact numbers of this run.
    """

    head: str
    sent: str
    received: str
    held: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """What a checked hello says about the other side; `held` are steps, `ahead` how many seconds its clock goes before
    ours, with the time on the way left out."""

    role: str
    name: str
    head: SignedHead
    held: frozenset[int]
    ahead: float

    @property
    def skew(self) -> str:
        """Which clock goes before the other, in words; "" when they agree well enough."""
        if abs(self.ahead) <= SKEW_S:
            return ""
        way = "ahead of" if self.ahead > 0 else "behind"
        return f"the clock of {self.name} is {abs(self.ahead):.0f} s {way} ours"


def hello(
    request_digest: str, role: str, approvals: str, head: str, held: Iterable[int], now: datetime
) -> bytes:
    """The bytes of this side's hello; `now` is the moment at which they are sent."""
    steps = tuple(str(step) for step in sorted(held))
    return wire.encode(Hello(VERSION, request_digest, role, approvals, head, steps, utc_text(now)))


def for_same_run(request_digest: str, role: str) -> Callable[[bytes], bool]:
    """Whether a hello is of this request and of that role: of another run of the same parties it isn't."""

    def is_ours(data: bytes) -> bool:
        try:
            came = _parse_hello(data)
        except WireError:
            return False
        return came.digest == request_digest and came.role == role

    return is_ours


def check_hello(data: bytes, request: ComputationRequest, role: str, now: datetime, came: datetime) -> Peer:
    """The peer of that role, when its hello holds; it came at `came` by our clock.

    The certificate was the roster's for `role`, or there would be no link.  Raises ProtocolError for another version,
    digest or role; what `verify_all` raises for approvals; AuditError for a head that the party didn't sign.
    """
    hers = _parse_hello(data)
    entry = party(request, role)
    if hers.version != VERSION:
        raise ProtocolError(
            f"{entry.name} speaks version {hers.version} of the handshake, this is version {VERSION}",
            remedy="install the same release at both parties",
        )
    if hers.digest != digest(request):
        raise ProtocolError(
            f"{entry.name} came with request {hers.digest[:12]}, this run is of {digest(request)[:12]}"
        )
    if hers.role != role:
        raise ProtocolError(f"{entry.name} claims the role {hers.role[:40]!r}, the roster says {role}")
    verify_all(request, parse_approvals(hers.approvals), now)
    said = parse_utc(hers.time, "time", ProtocolError)
    return Peer(
        role=role,
        name=entry.name,
        head=parse_peer_head(hers.head, request, role),
        held=_steps(hers.held, entry.name),
        ahead=(said - came).total_seconds(),
    )


def agreed_step(own: Iterable[int], peers: Iterable[Peer]) -> int:
    """The newest step that every side has a checkpoint of, or 0: from the beginning."""
    common = set(own)
    for peer in peers:
        common &= peer.held
    return max(common, default=0)


def led_step(own: Iterable[int], leader: Iterable[int]) -> int:
    """The newest own step that isn't after the leader's newest, or 0: from the beginning."""
    newest = max(leader, default=0)
    return max((step for step in own if step <= newest), default=0)


def goodbye(head: str, traffic: Traffic, role: str, *, held: bool) -> bytes:
    """The bytes of this side's goodbye to that role."""
    sent, received = traffic.sent[role].transcript.digest(), traffic.received[role].transcript.digest()
    return wire.encode(Goodbye(head, sent, received, held))


def check_goodbye(
    data: bytes, request: ComputationRequest, traffic: Traffic, role: str
) -> tuple[SignedHead, bool]:
    """The peer's closing head, and whether it holds numbers back.

    ProtocolError when the two sides don't agree on what was sent and received.
    """
    came = wire.decode(data, (Goodbye,), limit=HELLO_LIMIT)
    assert isinstance(came, Goodbye)
    own = (traffic.received[role].transcript.digest(), traffic.sent[role].transcript.digest())
    if (came.sent, came.received) != own:
        raise ProtocolError(f"{party(request, role).name} and we don't agree on the messages of this run")
    return parse_peer_head(came.head, request, role), came.held


def approvals_of(text: str, request: ComputationRequest, now: datetime) -> tuple[PartyApproval, ...]:
    """The approvals in this side's own papers, verified for all parties."""
    approvals = parse_approvals(text)
    verify_all(request, approvals, now)
    return approvals


def parse_peer_head(text: str, request: ComputationRequest, role: str) -> SignedHead:
    """The head of that role's log, signed by its party; AuditError or ProtocolError when it isn't."""
    entry = party(request, role)
    signed = parse_head(text, entry.signing_key)
    if signed.head.party != entry.name:
        raise ProtocolError(f"{entry.name} sent an audit head of {signed.head.party[:80]}")
    return signed


def _parse_hello(data: bytes) -> Hello:
    came = wire.decode(data, (Hello,), limit=HELLO_LIMIT)
    assert isinstance(came, Hello)
    return came


def _steps(held: tuple[str, ...], name: str) -> frozenset[int]:
    if len(held) > 100 or not all(step.isascii() and step.isdigit() and len(step) < 10 for step in held):
        raise ProtocolError(f"{name} sent a list of checkpoints that isn't one")
    return frozenset(int(step) for step in held)
