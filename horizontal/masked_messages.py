"""The messages with which a round's updates are added up under masks, in order; `masked_rounds` says what they do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from horizontal.messages import Task, Turn
from protocols.errors import WireError
from protocols.masking import SEED_BYTES, MaskKey
from protocols.wire import Message, array


@dataclass(frozen=True, slots=True, eq=False)
class Ready(Turn):
    """A client's answer to a broadcast: it has trained, and this is its signed key for the round; or a failure's code.

    The aggregator learns nothing of the update, not even on how many rows it was trained.
    """

    round: int
    failure: str
    key: str
    signature: str

    @property
    def topic(self) -> tuple[int, str]:
        """That of the broadcast."""
        return self.round, Task.TRAIN

    def check(self) -> None:
        """WireError if it carries both a key and a failure, or neither."""
        if bool(self.failure) is bool(self.key) or bool(self.key) is not bool(self.signature):
            raise WireError("Ready: expected either a signed key or a failure")


class Step(StrEnum):
    """What a client is asked for: its masked words, its seed, or nothing any more in this round."""

    MASK = "mask"
    REVEAL = "reveal"
    OVER = "over"


@dataclass(frozen=True, slots=True, eq=False)
class MaskStep(Turn):
    """What the aggregator asks of a client that is ready; to mask, it sends the group's keys after it.

    Every client that was asked to train in a round gets one that ends it: a reveal, or over.
    """

    round: int
    attempt: int
    step: str

    @classmethod
    def of(cls, number: int, attempt: int, step: Step) -> MaskStep:
        """The message with this step."""
        return cls(number, attempt, step.value)

    @property
    def topic(self) -> tuple[int, str]:
        """Round, step and attempt."""
        return self.round, f"{self.step} {self.attempt}"

    def check(self) -> None:
        """WireError for an unknown step."""
        if self.step not in tuple(Step):
            raise WireError(f"MaskStep.step: expected one of {', '.join(Step)}")


@dataclass(frozen=True, slots=True, eq=False)
class GroupKeys(Turn):
    """The signed keys of an attempt's clients, by role."""

    round: int
    attempt: int
    roles: tuple[str, ...]
    keys: tuple[str, ...]
    signatures: tuple[str, ...]

    @classmethod
    def of(cls, number: int, attempt: int, keys: Sequence[MaskKey]) -> GroupKeys:
        """The message with these keys, one or more."""
        roles, public, signed = zip(*((k.role, k.public, k.signature) for k in keys), strict=True)
        return cls(number, attempt, roles, public, signed)

    @property
    def topic(self) -> tuple[int, str]:
        """Round, the step to mask, and attempt."""
        return self.round, f"{Step.MASK} {self.attempt}"

    def check(self) -> None:
        """WireError for lists of different lengths."""
        if len({len(self.roles), len(self.keys), len(self.signatures)}) != 1:
            raise WireError("GroupKeys: expected as many keys and signatures as roles")

    def mask_keys(self) -> tuple[MaskKey, ...]:
        """The keys; nothing about them is checked yet."""
        listed = zip(self.roles, self.keys, self.signatures, strict=True)
        return tuple(MaskKey(role=role, public=key, signature=signed) for role, key, signed in listed)


@dataclass(frozen=True, slots=True, eq=False)
class Masked(Turn):
    """A client's words (n,) under the masks of an attempt: evenly distributed, whatever they hide."""

    round: int
    attempt: int
    words: NDArray[np.uint64] = array(np.uint64, 1)

    @property
    def topic(self) -> tuple[int, str]:
        """That of the keys."""
        return self.round, f"{Step.MASK} {self.attempt}"


@dataclass(frozen=True, slots=True, eq=False)
class Revealed(Turn):
    """The seed of a client's own mask in an attempt that all of its clients have answered: with all of them the sum."""

    round: int
    attempt: int
    seed: bytes

    @property
    def topic(self) -> tuple[int, str]:
        """That of the step."""
        return self.round, f"{Step.REVEAL} {self.attempt}"

    def check(self) -> None:
        """WireError for a seed of another length."""
        if len(self.seed) != SEED_BYTES:
            raise WireError(f"Revealed.seed: expected {SEED_BYTES} bytes")


MASKED_KINDS: tuple[type[Message], ...] = (Ready, MaskStep, GroupKeys, Masked, Revealed)
"""What a worker accepts besides, with secure aggregation."""
