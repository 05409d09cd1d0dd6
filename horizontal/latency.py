"""A simulated clock: how long clients take, who is late, who drops out, and when a round ends. numpy only.

A client's seconds for a round's full work are a shifted exponential, `shift + Exp(mean)`. A round ends when all chosen
clients have answered, or at the deadline. A straggler is left out, or with partial work (FedProx) does as many epochs
as fit before the deadline. Nothing waits: time is a number, and depends on seed, client and round alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from protocols.errors import FedaccordError
from protocols.program import Json
from protocols.seeds import numpy_generator


class LateError(FedaccordError):
    """A simulated client could not finish before the deadline."""

    code = "late"


class DroppedError(FedaccordError):
    """A simulated client did not answer."""

    code = "dropped"


def finished_epochs(seconds: float, epochs: int, deadline: float, *, partial_work: bool) -> int:
    """How many of the epochs, all of which take so many seconds, are done before the deadline."""
    if seconds <= deadline:
        return epochs
    return int(epochs * deadline / seconds) if partial_work else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The clients' speeds: `shift` seconds that each needs at least, and the `mean` seconds on top of it.

    `deadline` of a round in seconds, `drop` the probability that a client doesn't answer at all.
    """

    seed: int
    shift: Mapping[str, float]
    mean: Mapping[str, float]
    deadline: float = float("inf")
    drop: float = 0.0
    partial_work: bool = False

    def expected(self, client: str) -> float:
        """The seconds of a round that a client expects."""
        return self.shift[client] + self.mean[client]

    def seconds(self, client: str, number: int) -> float:
        """The seconds that a client would take for all epochs of a round; infinite if it drops out."""
        generator = numpy_generator(self.seed, f"latency of {client} in round {number}")
        dropped = generator.random() < self.drop
        return (
            float("inf") if dropped else self.shift[client] + float(generator.exponential(self.mean[client]))
        )

    def effort(self, client: str, epochs: int) -> Callable[[int], int]:
        """The epochs that a client does in a round, by its number; LateError if none is done, DroppedError."""

        def done(number: int) -> int:
            seconds = self.seconds(client, number)
            if seconds == float("inf"):
                raise DroppedError(f"{client} did not answer in round {number}")
            finished = finished_epochs(seconds, epochs, self.deadline, partial_work=self.partial_work)
            if finished == 0:
                raise LateError(f"{client} needs {seconds:.1f} s, the deadline is {self.deadline:.1f} s")
            return finished

        return done

    def elapsed(self, report: Mapping[str, Json]) -> list[float]:
        """The simulated seconds at the end of each round of an aggregator's report."""
        history = cast(Mapping[str, Mapping[str, list[str]]], report["rounds"])
        ends, now = [], 0.0
        for number, record in history.items():
            asked = [*record["clients"], *record["failures"]]
            answered = [self.seconds(client, int(number)) for client in asked]
            waits = [min(seconds, self.deadline) for seconds in answered]
            now += max((wait for wait in waits if wait < float("inf")), default=0.0)
            ends.append(now)
        return ends
