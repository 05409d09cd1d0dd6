"""Protocol programs as generators of effects, and `simulate`, which runs any number of them in one thread.

A program yields effects and gets their results back; it never touches sockets, files or clocks. Read from top
to bottom it *is* the protocol: its docstring lists the messages in order and what each side learns from them.

    views = yield from receive("passive", PassiveViews)
    loss, gradients = yield from compute(step, views, state)
    yield Send("passive", gradients)

A driver delivers the messages of each sender in order, refuses one of another kind than the program waits for
(`expect`), runs the function of a Compute and raises its error inside the program, and stores checkpoints.
There are no retries inside a program: a run that ends early resumes from a checkpoint.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeAlias, TypeVar, TypeVarTuple, cast

import numpy as np
from numpy.typing import NDArray

from protocols.errors import DeadlockError, ProtocolError
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


Effect: TypeAlias = Send | Receive | Compute | Checkpoint
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
    """What a program leaves: `report` may be released by the disclosure rules, `artifacts` stay here."""

    report: Mapping[str, Json]
    artifacts: Mapping[str, NDArray[np.generic]]


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


def simulate(
    programs: Mapping[str, Program[object]], *, observe: Callable[[str, str, Message], None] | None = None
) -> dict[str, object]:
    """The results of all programs by role. One thread, a fixed order of events; checkpoints are dropped.

    Each program runs until it has to wait; then the next one that can go on does. Messages are passed by
    reference, which is safe since nobody can change them. `observe(sender, to, message)` sees each message
    when it is sent.

    Raises DeadlockError saying who waits for what from whom; ProtocolError for a message of another kind than
    its receiver waits for, to or from a role that takes no part, or that nobody received; and what the
    programs raise. All programs are closed in any case.
    """
    with ExitStack() as stack:
        for program in programs.values():
            stack.callback(program.close)
        return _Simulation(programs, observe).run()


class _Simulation:
    """The state of one `simulate`: who can go on, who waits for what, and what is on its way."""

    def __init__(
        self, programs: Mapping[str, Program[object]], observe: Callable[[str, str, Message], None] | None
    ) -> None:
        self.programs = programs
        self.observe = observe
        self.ready = deque(programs)
        self.waiting: dict[str, Receive] = {}
        self.queues: dict[tuple[str, str], deque[Message]] = {}  # (sender, receiver)
        self.results: dict[str, object] = {}

    def run(self) -> dict[str, object]:
        while self.ready:
            self.advance(self.ready.popleft())
        if self.waiting:
            raise DeadlockError(
                "; ".join(self.wait_text(role) for role in self.programs if role in self.waiting)
            )
        for (sender, receiver), queue in self.queues.items():
            if queue:
                kind = type(queue[0]).__name__
                raise ProtocolError(f"{receiver} ended without receiving {kind} from {sender}")
        return {role: self.results[role] for role in self.programs}

    def wait_text(self, role: str) -> str:
        waits = self.waiting[role]
        ended = ", who has ended" if waits.sender in self.results else ""
        return f"{role} waits for {waits.kind.__name__} from {waits.sender}{ended}"

    def advance(self, role: str) -> None:
        """Run one program until it waits or ends."""
        effect = self.resume(role, self.take(role, self.waiting.pop(role)) if role in self.waiting else None)
        while role not in self.results:
            match effect:
                case Send(to, message):
                    self.deliver(role, to, message)
                    effect = self.resume(role)
                case Receive(sender, _):
                    self.check_role(role, sender)
                    if not self.queues.get((sender, role)):
                        self.waiting[role] = effect
                        return
                    effect = self.resume(role, self.take(role, effect))
                case Compute(function, arguments):
                    effect = self.compute(role, function, arguments)
                case Checkpoint():
                    effect = self.resume(role)
                case _:
                    raise ProtocolError(f"{role} yielded {type(effect).__name__}, which is not an effect")

    def resume(self, role: str, value: object = None, error: Exception | None = None) -> Effect | None:
        """The next effect of a program; None, and its result is kept, if it has ended."""
        program = self.programs[role]
        try:
            return program.send(value) if error is None else program.throw(error)
        except StopIteration as end:
            self.results[role] = end.value
            return None

    def compute(
        self, role: str, function: Callable[..., object], arguments: tuple[object, ...]
    ) -> Effect | None:
        try:
            result = function(*arguments)
        except Exception as error:  # raised in the program, as if it had called the function itself
            return self.resume(role, error=error)
        return self.resume(role, result)

    def take(self, role: str, effect: Receive) -> Message:
        message = self.queues[effect.sender, role].popleft()
        if type(message) is not effect.kind:
            came = type(message).__name__
            raise ProtocolError(f"{role} expected {effect.kind.__name__} from {effect.sender}, came {came}")
        return message

    def deliver(self, role: str, to: str, message: Message) -> None:
        self.check_role(role, to)
        if not isinstance(message, Message):
            raise ProtocolError(f"{role} sends {type(message).__name__} to {to}, which is not a message")
        if self.observe is not None:
            self.observe(role, to, message)
        queue = self.queues.setdefault((role, to), deque())
        queue.append(message)
        if len(queue) == 1 and to in self.waiting and self.waiting[to].sender == role:
            self.ready.append(to)

    def check_role(self, role: str, peer: str) -> None:
        if peer == role or peer not in self.programs:
            others = ", ".join(name for name in self.programs if name != role) or "nobody"
            raise ProtocolError(f"{role} addresses {peer}; expected one of: {others}")
