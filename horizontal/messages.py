"""The messages of a horizontal run, in the order of a round. numpy only.

Both carry named arrays in the packed form of `protocols.wire`: a model of any architecture and, apart from it, what a
method sends besides (control variates, an indicator). Which names, dtypes and shapes there have to be is the
receiver's to check, against its own model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from horizontal.average import Array, Arrays
from protocols.errors import WireError
from protocols.wire import Message, pack_arrays, unpack_arrays

AGGREGATOR = "aggregator"
"""The aggregator's role."""


class Task(StrEnum):
    """What a client is asked for: to train, to describe its data (FLASH), or to finish with the final model."""

    TRAIN = "train"
    DESCRIBE = "describe"
    FINISH = "finish"


def _check_task(kind: str, task: str) -> None:
    if task not in tuple(Task):
        raise WireError(f"{kind}.task: expected one of {', '.join(Task)}")


class Turn(Message, ABC):
    """A message of a round, or the answer to one: both have the same topic."""

    __slots__ = ()

    @property
    @abstractmethod
    def topic(self) -> tuple[int, str]:
        """Its round, and what it is about."""


@dataclass(frozen=True, slots=True, eq=False)
class Broadcast(Turn):
    """The global model at the start of `round` (from 1), or the final one, and what goes with it."""

    round: int
    task: str
    model: bytes
    extras: bytes

    @classmethod
    def of(cls, number: int, task: Task, model: Arrays, extras: Arrays | None = None) -> Broadcast:
        """The message with these arrays. WireError for a dtype that doesn't travel."""
        return cls(number, str(task), pack_arrays(model), pack_arrays(extras or {}))

    @property
    def topic(self) -> tuple[int, str]:
        """Round and task."""
        return self.round, self.task

    def check(self) -> None:
        """WireError for an unknown task."""
        _check_task("Broadcast", self.task)

    def arrays(self) -> dict[str, Array]:
        """The model, read-only. WireError if it is malformed."""
        return unpack_arrays(self.model)

    def extra_arrays(self) -> dict[str, Array]:
        """What goes with it, read-only. WireError if it is malformed."""
        return unpack_arrays(self.extras)


@dataclass(frozen=True, slots=True, eq=False)
class Update(Turn):
    """A client's answer in `round`: its model after training on `examples` rows, and what goes with it.

    A description has no model. Or there are no arrays at all, and `failure` is a code that says why. Whether the
    count makes sense is the aggregator's to check, so that it can say whose it was.
    """

    round: int
    task: str
    examples: int
    failure: str
    model: bytes
    extras: bytes

    @classmethod
    def of(
        cls, number: int, task: Task, examples: int, model: Arrays, extras: Mapping[str, Array] | None = None
    ) -> Update:
        """The message with these arrays. WireError for a dtype that doesn't travel."""
        return cls(number, str(task), examples, "", pack_arrays(model), pack_arrays(extras or {}))

    @classmethod
    def failed(cls, number: int, task: Task, code: str) -> Update:
        """The message of a client that could not do it; `code` is all that the aggregator learns."""
        return cls(number, str(task), 0, code, b"", b"")

    @property
    def topic(self) -> tuple[int, str]:
        """Round and task."""
        return self.round, self.task

    def check(self) -> None:
        """WireError for an unknown task, or if it carries both arrays and a failure."""
        _check_task("Update", self.task)
        if self.failure and (self.model or self.extras or self.examples):
            raise WireError("Update: a failure carries neither examples nor arrays")

    def arrays(self) -> dict[str, Array]:
        """The model, read-only. WireError if it is malformed."""
        return unpack_arrays(self.model)

    def extra_arrays(self) -> dict[str, Array]:
        """What goes with it, read-only. WireError if it is malformed."""
        return unpack_arrays(self.extras)


KINDS: tuple[type[Message], ...] = (Broadcast, Update)
"""Every kind that a worker of a horizontal computation accepts."""
