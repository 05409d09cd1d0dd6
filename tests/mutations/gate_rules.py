"""Rules of the gate: nothing that the manifest doesn't list leaves its own party or is taken in by the other."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from protocols.errors import GateError, WireError
from protocols.gate import Gate
from protocols.wire import Message, array
from tests.mutations.rule import Cut, Place, Rule, switched_off
from tests.parties.running import toy
from tests.parties.running.test_drive import STEPS, programs, run_both, sides

EXCESS = "protocols.gate.excess"
DRIVE = "parties.running.drive._Drive."
OUT = Cut(f"{DRIVE}_send", "self._driver.gate.outbound(to, message, len(data))", "pass")
IN = Cut(f"{DRIVE}_receive", "self._driver.gate.inbound(sender, message, len(data))", "pass")
SIZE = Cut(f"{DRIVE}_receive", "len(data) > limit")
DECODED = Cut(f"{DRIVE}_receive", "self._kinds, limit=limit", "self._kinds")
UNLISTED = Cut(
    "protocols.gate.Gate._pass",
    "if reason:",
    "if reason.startswith('unlisted'):\n            return\n        if reason:",
)
BYTES = Cut(EXCESS, "nbytes > release.max_bytes or nbytes < 0")
SHAPE = Cut(EXCESS, "any(size > most for size, most in zip(shape, bound, strict=True))")


@dataclass(frozen=True, slots=True)
class Rows(Message):
    """The listed kind with an array more than is listed."""

    step: int
    values: NDArray[np.float32] = array(np.float32, 2)
    more: NDArray[np.float32] = array(np.float32, 1)


def small(rows: int = toy.WIDTH, columns: int = 2) -> toy.Rows:
    return toy.Rows(1, np.zeros((rows, columns), np.float32))


def through(
    gate: Callable[[Message, int], None], message: Message, *, nbytes: int = 1, times: int = 1
) -> None:
    for _ in range(times):
        gate(message, nbytes)


def out(message: Message, place: Place, *, nbytes: int = 1, times: int = 1) -> None:
    """The passive party's worker tries to send it."""
    gate = Gate(toy.manifest(STEPS), "passive")
    through(lambda each, size: gate.outbound("active", each, size), message, nbytes=nbytes, times=times)


def into(message: Message, place: Place, *, nbytes: int = 1, times: int = 1) -> None:
    """The active party's worker is sent it."""
    gate = Gate(toy.manifest(STEPS), "active")
    through(lambda each, size: gate.inbound("passive", each, size), message, nbytes=nbytes, times=times)


def tampered(role: str, place: Place, *, program: str = "", steps: int = STEPS) -> None:
    """Both sides of a run in which the passive one was tampered with, or both do more steps than are listed.

    Raises what the party in this role was stopped by, if its own gate stopped it.
    """
    ended = dict(zip(("active", "passive"), run_both(sides(), programs(steps, program)), strict=True))
    for problem in (ended[role], *ended.values()) if steps > STEPS else (ended[role],):
        if isinstance(problem, GateError | WireError):
            raise problem


def from_a_worker_without_a_gate(program: str, place: Place) -> None:
    """The passive party's own gate is switched off: what is left is the active one's."""
    with switched_off(OUT):
        tampered("active", place, program=program)


def rules(way: str, attempt: Callable[..., None]) -> tuple[Rule, ...]:
    """The same rules for what leaves and for what comes in."""
    return (
        Rule(
            name=f"gate, {way}: no kind that isn't listed",
            off=(UNLISTED,),
            attempt=partial(attempt, toy.Secret(np.zeros((1, 1), np.float32))),
            stopped=GateError,
            saying="unlisted",
        ),
        Rule(
            name=f"gate, {way}: no more often than listed",
            off=(Cut(EXCESS, "used >= release.repetitions"),),
            attempt=partial(attempt, small(), times=STEPS + 1),
            stopped=GateError,
            saying="repetitions",
        ),
        Rule(
            name=f"gate, {way}: no more bytes than listed",
            off=(BYTES,),
            attempt=partial(attempt, small(), nbytes=10_000),
            stopped=GateError,
            saying="bytes",
        ),
        Rule(
            name=f"gate, {way}: no more rows than listed",
            off=(SHAPE,),
            attempt=partial(attempt, small(rows=toy.WIDTH + 1)),
            stopped=GateError,
            saying="shape",
        ),
        Rule(
            name=f"gate, {way}: no field that isn't listed",
            off=(
                Cut(
                    EXCESS, "if bound is None:", "if bound is None:\n            continue\n        if False:"
                ),
            ),
            attempt=partial(attempt, Rows(1, np.zeros((1, 2), np.float32), np.zeros(1, np.float32))),
            stopped=GateError,
            saying="is not listed",
        ),
    )


RULES = (
    *rules("out", out),
    *rules("in", into),
    Rule(
        name="gate, out: a tampered program's unlisted message doesn't pass its own worker",
        off=(OUT,),
        attempt=partial(tampered, "passive", program="unlisted"),
        stopped=GateError,
        saying="Secret",
    ),
    Rule(
        name="gate, out: a tampered program's larger message doesn't pass its own worker",
        off=(OUT,),
        attempt=partial(tampered, "passive", program="large"),
        stopped=GateError,
        saying="bytes",
    ),
    Rule(
        name="gate, out and in: one message more passes neither worker",
        off=(OUT, IN),
        attempt=partial(tampered, "passive", steps=STEPS + 1),
        stopped=GateError,
        saying="repetitions",
    ),
    Rule(
        name="gate, in: a tampered worker's unlisted message isn't taken in by its peer",
        off=(IN,),
        attempt=partial(from_a_worker_without_a_gate, "unlisted"),
        stopped=GateError,
        saying="inbound",
    ),
    Rule(
        name="gate, in: a tampered worker's larger message isn't taken in by its peer",
        off=(SIZE, DECODED, IN),
        attempt=partial(from_a_worker_without_a_gate, "large"),
        stopped=GateError,
        saying="inbound",
    ),
)
