"""A horizontal run as a client sees it, whatever the method; `rounds` says which messages there are.

A method is, at a client, its `Work`: what it makes of a broadcast. Training moves nothing at the client but what it
remembers, such as a control variate, and that only if it ends well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from horizontal.average import Array, Arrays, named, unnamed
from horizontal.masked_client import Masking, add_update
from horizontal.messages import AGGREGATOR, Broadcast, Task, Update
from protocols.errors import ProtocolError, Stopped, to_wire
from protocols.program import Checkpoint, Json, Observe, Outcome, Program, Progress, Send, compute, receive

Notes: TypeAlias = Mapping[str, Json]


def silent(progress: Progress) -> None:
    """An observer that does nothing."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """What a client makes of a broadcast: its message, what it remembers, and what it reports of the round."""

    update: Update
    memory: Arrays = field(default_factory=dict)
    notes: Mapping[str, Json] = field(default_factory=dict)


Work: TypeAlias = Callable[[Broadcast, Arrays], Answer]
"""(broadcast, what it remembers) -> answer. What it raises becomes a failure of this client in this round."""
Evaluate: TypeAlias = Callable[[Arrays], Notes]
"""What a client reports of the final model on its own test rows; nothing if it has none."""


def client_program(
    work: Work,
    rounds: int,
    observe: Observe = silent,
    *,
    evaluate: Evaluate | None = None,
    resume: Arrays | None = None,
    masking: Masking | None = None,
) -> Program[Outcome]:
    """The run as a client sees it; its Outcome has the final model, under `model.`, and a report of its own rounds.

    An error of `work` costs the client this round; the aggregator learns its code only, and what the client remembers
    stays as it was. After each training there is a checkpoint, of which `resume` is the state. With `masking` updates
    are only shown as a sum with others'; what one remembers stays as it was if it isn't in the sum. Raises
    ProtocolError for a message out of turn, and what `add_update` raises.
    """
    side = _Client() if resume is None else _Client.unpack(resume)
    while True:
        broadcast = yield from receive(AGGREGATOR, Broadcast)
        if broadcast.task == Task.FINISH:
            final = broadcast.arrays()
            tested = {} if evaluate is None else (yield from compute(evaluate, final))
            report = {**side.report(), "test": tested} if tested else side.report()
            return Outcome(report, named("model", final))
        if not side.last < broadcast.round <= rounds:
            expected = f"expected round {side.last + 1} to {rounds}, came {broadcast.round}"
            raise ProtocolError(f"Broadcast from {AGGREGATOR}: {expected}")
        try:
            answer = yield from compute(work, broadcast, side.memory)
        except Stopped:
            raise
        except Exception as problem:  # whatever goes wrong in here, the other clients can go on without it
            failed = Update.failed(broadcast.round, Task(broadcast.task), to_wire(problem))
            answer = Answer(update=failed, memory=side.memory)
        if masking is None:
            yield Send(AGGREGATOR, answer.update)
        elif code := (yield from add_update(answer.update, masking)):
            answer = Answer(
                update=Update.failed(broadcast.round, Task(broadcast.task), code), memory=side.memory
            )
        side.memory = answer.memory
        if broadcast.task == Task.TRAIN:
            side.note(broadcast.round, answer)
            yield Checkpoint(broadcast.round, side.pack())
            observe(Progress("rounds", broadcast.round, rounds, note=answer.update.failure))
        del broadcast, answer  # a thousand clients that wait hold no models


@dataclass(slots=True)
class _Client:
    """What changes while a client runs: its last round, what it remembers, and what it reports."""

    last: int = 0
    memory: Arrays = field(default_factory=dict)
    taken: dict[str, Json] = field(default_factory=dict)
    failures: dict[str, Json] = field(default_factory=dict)

    def note(self, number: int, answer: Answer) -> None:
        self.last = number
        if answer.update.failure:
            self.failures[str(number)] = answer.update.failure
        else:
            self.taken[str(number)] = answer.notes

    def report(self) -> dict[str, Json]:
        took_part = f"{len(self.taken)} rounds"
        return {"end": "done", "took_part": took_part, "failures": self.failures, "rounds": self.taken}

    def pack(self) -> dict[str, Array]:
        text = json.dumps([self.taken, self.failures]).encode()
        return {"round": np.array(self.last), "history": np.frombuffer(text, np.uint8)} | named(
            "memory", self.memory
        )

    @classmethod
    def unpack(cls, packed: Arrays) -> _Client:
        taken, failures = json.loads(packed["history"].tobytes())
        return cls(int(packed["round"]), unnamed("memory", packed), taken, failures)
