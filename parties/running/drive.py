"""Runs one party's side of a program over real links, past its own gate in both directions.

For each message that leaves: encode, gate, reserve it in the audit log, send.  For each that comes: reserve, check its
size, decode, gate, hand to the program.  So what the manifest doesn't list neither leaves nor reaches a program, and
after a crash the log says at most how many messages were used, never fewer.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar, cast

from parties.links.link import Check, Link, never_stops
from parties.running.traffic import Traffic
from protocols import wire
from protocols.errors import (
    PEER_FAULTS,
    FedaccordError,
    GateError,
    LinkError,
    PeerStopped,
    PeerTimeout,
    ProtocolError,
    RevokedRun,
    Stopped,
)
from protocols.gate import Gate
from protocols.program import Checkpoint, Compute, Deadline, Effect, Program, Receive, Send, expect
from protocols.request import Release

R = TypeVar("R")
RESERVED_AT_ONCE: Final = 256
"""Messages, sent and received together, that one synced audit entry covers."""
_SLOWEST_BYTES_PER_S: Final = 1e6


class Reserve(Protocol):
    """Notes durably that messages up to number `last` of this run count as used; returns when that is on the disk."""

    def __call__(self, first: int, last: int) -> None: ...


def largest_message(manifest: Iterable[Release], sender: str, receiver: str) -> int:
    """Bytes of the largest message that the manifest lets `sender` send to `receiver`; 0 when none."""
    return max((r.max_bytes for r in manifest if (r.sender, r.receiver) == (sender, receiver)), default=0)


Take = Callable[[str, bytes], bool]
"""Whether a message from this role isn't the program's: then it is dealt with."""


def takes_none(role: str, data: bytes) -> bool:
    """Leaves every message to the program."""
    return False


def next_message(link: Link, role: str, seconds: float, take: Take) -> bytes:
    """The next message on the link that isn't taken, within so many seconds; raises like `Link.receive`."""
    end = time.monotonic() + seconds
    data = link.receive(seconds)
    while take(role, data):
        left = end - time.monotonic()
        if left <= 0:
            raise PeerTimeout(f"{link.peer} sent heads of its log, and no message within {seconds:g} s")
        data = link.receive(left)
    return data


def drop(checkpoint: Checkpoint) -> None:
    """Keeps no checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """All that `drive` needs besides the program.

    `links` and `inbound_limits` (bytes of the largest message) are by the other parties' roles; `kinds` are all
    messages that may be decoded; `take` has each message first; `check` raises when this side shall stop; `message_s`
    bounds the wait for one, and a program's Deadline by the `clock` (seconds) several. What goes wrong with a peer is
    noted in `faults`, the newest by role.
    """

    links: Mapping[str, Link]
    gate: Gate
    kinds: tuple[type[wire.Message], ...]
    inbound_limits: Mapping[str, int]
    reserve: Reserve
    traffic: Traffic
    take: Take = takes_none
    check: Check = never_stops
    save: Callable[[Checkpoint], None] = drop
    message_s: float = 1800.0
    clock: Callable[[], float] = time.monotonic
    faults: dict[str, FedaccordError] = field(default_factory=dict)


def reading_s(limit: int) -> float:
    """Seconds past a deadline for a message of at most `limit` bytes that was sent before it.

    Nobody reads one link while another is waited for, so that much of the message may still be at its sender.
    """
    return 1.0 + limit / _SLOWEST_BYTES_PER_S


class _PeerFault(Exception):
    """What went wrong with one peer, on its way into the program: `problem` is raised there."""

    def __init__(self, problem: FedaccordError) -> None:
        super().__init__(str(problem))
        self.problem = problem


def drive(program: Program[R], driver: Driver) -> R:
    """The program's result, after running it to its end with the links of `driver`.

    What goes wrong with a peer is raised inside the program, where it sends to this peer or waits for it: the errors of
    `Link`, GateError for a message outside the manifest, WireError or ProtocolError for one that should not have been
    sent.  A program that doesn't catch it ends with it. An error of a link or a stop that it raises by itself becomes a
    ProtocolError.

    Raises what the program raises, and past the program GateError for a message that may not leave, PeerStopped for a
    peer whose people revoked, and what `check` and `reserve` raise.  The program is closed in any case; the links stay
    open, so that the caller can say why it ends.
    """
    try:
        return _Drive(program, driver).run()
    finally:
        program.close()


def made_up(problem: LinkError | Stopped) -> ProtocolError:
    """In place of an error of a link or a stop that a program raised by itself.

    Whoever reads such an error's text, the analyst too, takes it for ours; a program's may hold anything.
    """
    return ProtocolError(f"the program raised {type(problem).__name__}, which is for links and stops only")


@contextmanager
def _faults_of_the_peer() -> Iterator[None]:
    """Turns what a peer can be at fault for into _PeerFault; a stop of this side passes."""
    try:
        yield
    except PEER_FAULTS as problem:
        raise _PeerFault(problem) from problem


class _Drive(Generic[R]):
    """The state of one `drive`: how many messages are reserved, and until when waits go on."""

    def __init__(self, program: Program[R], driver: Driver) -> None:
        self._program = program
        self._driver = driver
        self._kinds = driver.kinds
        self._used = 0
        self._reserved = 0
        self._until: float | None = None

    def run(self) -> R:
        check = self._driver.check
        try:
            check()
            effect = self._resume(lambda: next(self._program))
            while True:
                check()
                effect = self._step(effect)
        except StopIteration as end:
            return cast(R, end.value)

    def _step(self, effect: Effect) -> Effect:
        """Does one effect and hands its result to the program."""
        match effect:
            case Send(to, message):
                return self._told(to, lambda: self._send(to, message))
            case Receive(sender, kind):
                return self._told(sender, lambda: self._receive(sender, kind))
            case Compute(function, arguments):
                return self._resume(lambda: self._computed(function, arguments))
            case Checkpoint():
                self._driver.save(effect)
                return self._resume(lambda: self._program.send(None))
            case Deadline(seconds):
                self._until = self._driver.clock() + seconds if seconds else None
                return self._resume(lambda: self._program.send(None))
        raise ProtocolError(f"the program yielded {type(effect).__name__}, which is no effect")

    def _told(self, peer: str, action: Callable[[], wire.Message | None]) -> Effect:
        """The program's next effect after it was handed what the action gave, or the peer's fault in its place."""
        try:
            result = action()
        except _PeerFault as fault:
            problem = fault.problem
        else:
            return self._resume(lambda: self._program.send(result))
        if isinstance(problem, PeerStopped) and problem.reason == RevokedRun.code:
            raise problem  # the request isn't approved by all any more: nobody may go on
        self._driver.check()  # a link that this side closed because it stops isn't the peer's fault
        self._driver.faults[peer] = problem
        return self._resume(lambda: self._program.throw(problem))

    def _computed(self, function: Callable[..., object], arguments: tuple[object, ...]) -> Effect:
        try:
            result = function(*arguments)
        except Exception as problem:  # the program's own error, raised where it asked for the result
            return self._program.throw(problem)
        return self._program.send(result)

    def _resume(self, step: Callable[[], Effect]) -> Effect:
        """The program's next effect. Of what it raises, only what it was handed stays the error of a link or a stop."""
        try:
            return step()
        except (LinkError, Stopped) as problem:
            if any(problem is met for met in self._driver.faults.values()):
                raise
            raise made_up(problem) from problem

    def _send(self, to: str, message: wire.Message) -> None:
        link = self._link(to)
        data = wire.encode(message)
        self._driver.gate.outbound(to, message, len(data))
        self._use()
        traffic = self._driver.traffic
        traffic.sent[to].add(
            data
        )  # before it leaves: a stop while it does must not leave it out of the count
        with _faults_of_the_peer():
            link.send(data)
        traffic.sent[to].transcript.settle()
        traffic.received[to].transcript.settle()

    def _receive(self, sender: str, kind: type[wire.Message]) -> wire.Message:
        link, limit = self._link(sender), self._driver.inbound_limits.get(sender, 0)
        with _faults_of_the_peer():
            data = next_message(link, sender, self._patience(limit), self._driver.take)
        self._use()  # only now: a run whose peer ends before its first message has used nothing
        with _faults_of_the_peer():
            if len(data) > limit:
                raise GateError(
                    f"inbound {sender}: a message of {len(data)} bytes, at most {limit} are allowed"
                )
            message = wire.decode(data, self._kinds, limit=limit)
            self._driver.gate.inbound(sender, message, len(data))
            self._driver.traffic.received[sender].add(data)
            return expect(sender, kind, message)

    def _patience(self, limit: int) -> float:
        """Seconds to wait now for a message of at most `limit` bytes."""
        longest = self._driver.message_s
        if self._until is None:
            return longest
        return min(longest, max(self._until - self._driver.clock(), reading_s(limit)))

    def _link(self, role: str) -> Link:
        link = self._driver.links.get(role)
        if link is None:
            raise ProtocolError(f"the program speaks with {role}, to whom this run has no link")
        return link

    def _use(self) -> None:
        if self._used == self._reserved:
            self._driver.reserve(self._used + 1, self._used + RESERVED_AT_ONCE)
            self._reserved += RESERVED_AT_ONCE
        self._used += 1
