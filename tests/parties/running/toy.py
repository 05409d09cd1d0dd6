"""A tiny computation of two roles for tests: the passive party sends rows, the active party sends back their sums."""

import hashlib
import logging
import os
import signal
import sys
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parties.computation import Computation, Inputs, MockPeople, Resume
from protocols.errors import CancelledRun, PeerLost
from protocols.program import Checkpoint, Observe, Outcome, Program, Progress, Send, compute, receive
from protocols.psi import crew_of
from protocols.psi.jobs import Job, Operation, pack_keys
from protocols.request import Release
from protocols.wire import Message, array, encode

WIDTH = 4
CELL = "secret cell 42"


@dataclass(frozen=True, slots=True)
class Rows(Message):
    step: int
    values: NDArray[np.float32] = array(np.float32, 2)


@dataclass(frozen=True, slots=True)
class Sums(Message):
    step: int
    values: NDArray[np.float32] = array(np.float32, 1)


@dataclass(frozen=True, slots=True)
class Secret(Message):
    """A kind that the manifest doesn't list."""

    values: NDArray[np.float32] = array(np.float32, 2)


KINDS = (Rows, Sums, Secret)


def manifest(steps: int) -> tuple[Release, ...]:
    shapes = {Rows: (WIDTH, 2), Sums: (2,)}
    ways = ((Rows, "passive", "active"), (Sums, "active", "passive"))
    return tuple(
        Release(
            kind=kind.__name__,
            sender=sender,
            receiver=receiver,
            shapes=(("values", shapes[kind]),),
            repetitions=steps,
            max_bytes=len(encode(kind(10**6, np.zeros(shapes[kind], np.float32)))),
            learns="numbers",
        )
        for kind, sender, receiver in ways
    )


def active(steps: int, pause: float, start: Resume, observe: Observe) -> Program[Outcome]:
    total = np.zeros(2, np.float32) if start is None else np.array(start["total"])
    for step in range(0 if start is None else int(start["at"]), steps):
        if step and step % 5 == 0:
            yield Checkpoint(step, {"at": np.array(step), "total": total})
        rows = yield from receive("passive", Rows)
        sums = yield from compute(np.sum, rows.values, 0)
        total = total + sums
        yield Send("passive", Sums(step, sums))
        observe(Progress("sum", step + 1, steps, loss=float(step)))
        time.sleep(pause)
    report = {"score": {"people": 100, "value": 0.12345}, "people": 3}
    return Outcome(report=report, artifacts={"total": total})


def passive(steps: int, seed: bytes, start: Resume, observe: Observe, tampered: str) -> Program[Outcome]:
    scale = np.float32(hashlib.sha256(seed).digest()[0])
    for step in range(0 if start is None else int(start["at"]), steps):
        if step and step % 5 == 0:
            yield Checkpoint(step, {"at": np.array(step)})
        if tampered == "unlisted" and step == 3:
            yield Send("active", Secret(np.ones((WIDTH, 2), np.float32)))
        if tampered == "wrong way" and step == 3:
            yield Send("active", Sums(step, np.ones(2, np.float32)))
        rows = WIDTH * 10 if tampered == "large" and step == 3 else WIDTH
        if tampered == "crash" and step == 3:
            raise ValueError(CELL)
        if tampered == "made up" and step == 3:
            raise PeerLost(CELL)
        if tampered == "made up stop" and step == 3:
            yield from compute(_stop, CELL)
        if tampered == "helpers killed" and step == 3:
            yield from compute(lose_helpers)
        if tampered == "loud" and step == 3:
            yield from compute(_tell_all, CELL)
        yield Send("active", Rows(step, scale * np.full((rows, 2), step, np.float32)))
        yield from receive("active", Sums)
        observe(Progress("rows", step + 1, steps))
    return Outcome(report={}, artifacts={"scale": np.array(scale)})


def _stop(cell: str) -> None:
    raise CancelledRun(cell)


def lose_helpers() -> None:
    """An alignment's work whose helper processes the system kills."""
    with crew_of(2) as crew:
        job = Job(operation=Operation.BLIND_KEYS, secret=b"\1" * 32, content=pack_keys([b"7"] * 4000))
        waits = [crew.begin(job) for _ in range(4)]
        for pid in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        for wait in waits:
            wait()


def _tell_all(cell: str) -> None:
    print(cell, flush=True)
    print(cell, file=sys.stderr, flush=True)
    warnings.warn(cell, stacklevel=1)
    logging.getLogger("toy").error("%s", cell)
    raise KeyError(cell)


def computation(tampered: str = "") -> Mapping[str, Computation]:
    def program(inputs: Inputs) -> Program[Outcome]:
        given = dict(inputs.settings.parameters)
        steps = int(given["steps"])
        pause = 0.0 if tampered == "hurried" else float(given["pause"])
        if inputs.role == "active":
            return active(steps, pause, inputs.resume, inputs.observe)
        return passive(steps, inputs.seed, inputs.resume, inputs.observe, tampered)

    toy = Computation(
        name="toy.sums",
        version="1",
        summary="sums",
        roles=("active", "passive"),
        analyst_receives=("a score",),
        parameters=lambda given, minimum_overlap: tuple(sorted(given.items())),
        manifest=lambda parameters, rows: manifest(int(dict(parameters)["steps"])),
        mock_people=lambda parameters, rows: MockPeople(common=0),
        program=program,
        kinds=lambda: KINDS,
    )
    return {"toy.sums": toy}
