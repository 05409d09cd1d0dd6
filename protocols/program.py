"""Protocol programs as generators of effects, and `simulate`, which runs any number of them in one thread.

A program yields effects and gets their results back; it never touches sockets, files or clocks. Read from top
to bottom it *is* the protocol: its docstring lists the messages in order and what each side learns from them.

    views = yield from receive("passive", PassiveViews)
    loss, gradients = yield from compute(step, views, state)
    yield Send("passive", gradients)

A driver delivers the messages of each sender in order, refuses one of another kind than the program waits for
(`expect`), runs the function of a Compute and raises its error inside the program, stores checkpoints and keeps
deadlines.
There are no retries inside a program: a run that ends early resumes from a checkpoint.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Generator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar, TypeVarTuple, cast

import numpy as np
from numpy.typing import NDArray

from protocols.errors import DeadlockError, PeerLost, ProtocolError
from protocols.wire import Message

M = TypeVar("M", bound=Message)
R = TypeVar("R")
Arguments = TypeVarTuple("Arguments")
Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"


@dataclass(frozen=True, slots=True)
class Send:
    """Send `message` to the role `to`; the program goes on at once."""

    to: str
    message: Message


@dataclass(frozen=True, slots=True)
class Receive:
    """Wait for the next message of the role `sender`, which must be of `kind`. Its result is the message."""

    sender: str
    kind: type[Message]


@dataclass(frozen=True, slots=True)
class Compute:
    """Call `function(*arguments)`. Its result is the function's; an error is raised inside the program."""

    function: Callable[..., object]
    arguments: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Store `state` as the state after `step`. A driver may ignore it."""

    step: int
    state: Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class Deadline:
    """Bound all waits from here to the next Deadline together to `seconds`; 0: each only as the driver bounds it.

    A Receive that hasn't got its message by then raises PeerTimeout in the program. The clock is the driver's:
    `simulate`, where waiting takes no time, does nothing.
    """

    seconds: float


Effect: TypeAlias = Send | Receive | Compute | Checkpoint | Deadline
Program: TypeAlias = Generator[Effect, object, R]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a program is: `step` of `of` in `phase`. It stays at the party."""

    phase: str
    step: int
    of: int
    loss: float | None = None
    note: str = ""


Observe: TypeAlias = Callable[[Progress], None]
"""A program's way to tell its progress: I/O that is passed in."""


def silent(progress: Progress) -> None:
    """Tells nobody."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a program leaves: `report` may be released by the disclosure rules, `artifacts` stay here.

    `people` are the own rows behind the report's numbers, by name; for a comparison with earlier releases, and neither
    released nor kept. Names that begin with "people" say who counts in a number of people, others what else is told.
    """

    report: Mapping[str, Json]
    artifacts: Mapping[str, NDArray[np.generic]]
    people: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)


def expect(sender: str, kind: type[M], message: object) -> M:
    """The message, if it is of exactly this kind; else ProtocolError naming sender, expected and came."""
    if type(message) is not kind:
        raise ProtocolError(f"expected {kind.__name__} from {sender}, came {type(message).__name__}")
    return message


def receive(sender: str, kind: type[M]) -> Generator[Effect, object, M]:
    """Wait for the next message of `sender`: `batch = yield from receive("active", Batch)`.

    Raises ProtocolError if it is of another kind.
    """
    message = yield Receive(sender, kind)
    return expect(sender, kind, message)


def compute(function: Callable[[*Arguments], R], *arguments: *Arguments) -> Generator[Effect, object, R]:
    """Let the driver call the function: `loss = yield from compute(step, views)`."""
    result = yield Compute(function, arguments)
    return cast(R, result)


ComputeAll: TypeAlias = Callable[[Sequence[Compute]], Sequence[object]]
"""Runs several Computes, which don't depend on each other, and gives each one's result or its exception, in order."""
Keep: TypeAlias = Callable[[str, Checkpoint], None]
"""Stores the checkpoint of a role."""


def simulate(
    programs: Mapping[str, Program[object]],
    *,
    observe: Callable[[str, str, Message], None] | None = None,
    compute_all: ComputeAll | None = None,
    keep: Keep | None = None,
    may_fail: Container[str] = (),
) -> dict[str, object]:
    """The results of all programs by role. One thread, a fixed order of events; checkpoints go to `keep`, if given.

    Each program runs until it has to wait; then the next one that can go on does. Messages are passed by
    reference, which is safe since nobody can change them. `observe(sender, to, message)` sees each message
    when it is sent. With `compute_all` a program waits at each Compute too, and when nobody can go on all of
    them are run in one call, which may do the work of many as one.

    Raises DeadlockError saying who waits for what from whom; ProtocolError for a message of another kind than
    its receiver waits for, to or from a role that takes no part, or that nobody received; and what the
    programs raise. An error of a role in `may_fail` ends this program only, as if its machine had gone: it is
    its result, and whoever waits for it or sends to it from then on gets PeerLost, as over a link. All
    programs are closed in any case.
    """
    with ExitStack() as stack:
        for program in programs.values():
            stack.callback(program.close)
        return _Simulation(programs, observe, compute_all, keep, may_fail).run()


class _Simulation:
    """The state of one `simulate`: who can go on, who waits for what, and what is on its way."""

    def __init__(
        self,
        programs: Mapping[str, Program[object]],
        observe: Callable[[str, str, Message], None] | None,
        compute_all: ComputeAll | None,
        keep: Keep | None,
        may_fail: Container[str],
    ) -> None:
        self.programs = programs
        self.observe, self.compute_all, self.keep, self.may_fail = observe, compute_all, keep, may_fail
        self.ready = deque(programs)
        self.waiting: dict[str, Receive] = {}
        self.computing: dict[str, Compute] = {}  # until all others wait
        self.computed: dict[str, object] = {}
        self.queues: dict[tuple[str, str], deque[Message]] = {}  # (sender, receiver)
        self.results: dict[str, object] = {}
        self.lost: set[str] = set()

    def run(self) -> dict[str, object]:
        while self.ready or self.computing:
            if self.ready:
                self.advance(self.ready.popleft())
            else:
                self.compute_waiting()
        if self.waiting:
            raise DeadlockError(
                "; ".join(self.wait_text(role) for role in self.programs if role in self.waiting)
            )
        for (sender, receiver), queue in self.queues.items():
            if queue and receiver not in self.lost:
                kind = type(queue[0]).__name__
                raise ProtocolError(f"{receiver} ended without receiving {kind} from {sender}")
        return {role: self.results[role] for role in self.programs}

    def wait_text(self, role: str) -> str:
        waits = self.waiting[role]
        ended = ", who has ended" if waits.sender in self.results else ""
        return f"{role} waits for {waits.kind.__name__} from {waits.sender}{ended}"

    def advance(self, role: str) -> None:
        """Run one program until it waits or ends."""
        effect = self.go_on(role)
        while role not in self.results:
            match effect:
                case Send(to, message):
                    effect = self.deliver(role, to, message)
                case Receive(sender, _):
                    self.check_role(role, sender)
                    if not self.queues.get((sender, role)) and sender not in self.lost:
                        self.waiting[role] = effect
                        return
                    effect = self.take(role, effect)
                case Compute() if self.compute_all is not None:
                    self.computing[role] = effect
                    return
                case Compute(function, arguments):
                    effect = self.compute(role, function, arguments)
                case Checkpoint():
                    if self.keep is not None:
                        self.keep(role, effect)
                    effect = self.resume(role)
                case Deadline():
                    effect = self.resume(role)
                case _:
                    raise ProtocolError(f"{role} yielded {type(effect).__name__}, which is not an effect")

    def go_on(self, role: str) -> Effect | None:
        """The next effect of a program that can go on: it starts, or what it waited for is there."""
        if role in self.waiting:
            return self.take(role, self.waiting.pop(role))
        if role in self.computed:
            result = self.computed.pop(role)
            return (
                self.resume(role, error=result)
                if isinstance(result, Exception)
                else self.resume(role, result)
            )
        return self.resume(role)

    def resume(self, role: str, value: object = None, error: Exception | None = None) -> Effect | None:
        """The next effect of a program; None, and its result is kept, if it has ended."""
        program = self.programs[role]
        try:
            return program.send(value) if error is None else program.throw(error)
        except StopIteration as end:
            self.results[role] = end.value
        except Exception as failure:
            if role not in self.may_fail:
                raise
            self.results[role] = failure
            self.lost.add(role)
            waits = (other for other, receive in self.waiting.items() if receive.sender == role)
            self.ready.extend(other for other in waits if not self.queues.get((role, other)))
        return None

    def compute(
        self, role: str, function: Callable[..., object], arguments: tuple[object, ...]
    ) -> Effect | None:
        try:
            result = function(*arguments)
        except Exception as error:  # raised in the program, as if it had called the function itself
            return self.resume(role, error=error)
        return self.resume(role, result)

    def compute_waiting(self) -> None:
        """Run what all programs wait for to be computed."""
        assert self.compute_all is not None
        effects, self.computing = self.computing, {}
        results = self.compute_all(tuple(effects.values()))
        self.computed.update(zip(effects, results, strict=True))
        self.ready.extend(effects)

    def take(self, role: str, effect: Receive) -> Effect | None:
        """Hands a program the message that it waits for, or that its sender is lost."""
        queue = self.queues.get((effect.sender, role))
        if not queue:
            return self.resume(role, error=PeerLost(f"{effect.sender} has failed"))
        message = queue.popleft()
        if type(message) is not effect.kind:
            came = type(message).__name__
            raise ProtocolError(f"{role} expected {effect.kind.__name__} from {effect.sender}, came {came}")
        return self.resume(role, message)

    def deliver(self, role: str, to: str, message: Message) -> Effect | None:
        self.check_role(role, to)
        if not isinstance(message, Message):
            raise ProtocolError(f"{role} sends {type(message).__name__} to {to}, which is not a message")
        if to in self.lost:
            return self.resume(role, error=PeerLost(f"{to} has failed"))
        if self.observe is not None:
            self.observe(role, to, message)
        queue = self.queues.setdefault((role, to), deque())
        queue.append(message)
        if len(queue) == 1 and to in self.waiting and self.waiting[to].sender == role:
            self.ready.append(to)
        return self.resume(role)

    def check_role(self, role: str, peer: str) -> None:
        if peer == role or peer not in self.programs:
            others = ", ".join(name for name in self.programs if name != role) or "nobody"
            raise ProtocolError(f"{role} addresses {peer}; expected one of: {others}")
