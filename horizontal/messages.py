"""The messages of a horizontal run, in the order of a round. numpy only.

Both carry named arrays in the packed form of `protocols.wire`: a model of any architecture, and next to it, under
names of their own, what an algorithm needs besides (such as control variates). Which names, dtypes and shapes there
have to be is the receiver's to check, against its own model.
"""

from __future__ import annotations

from dataclasses import dataclass

from horizontal.average import Array, Arrays
from protocols.errors import WireError
from protocols.wire import Message, pack_arrays, unpack_arrays


@dataclass(frozen=True, slots=True, eq=False)
class Broadcast(Message):
    """The global model at the start of `round` (from 1), or, with `last`, the one that the run ends with."""

    round: int
    last: bool
    packed: bytes

    @classmethod
    def of(cls, number: int, arrays: Arrays, *, last: bool = False) -> Broadcast:
        """The message with these arrays. WireError for a dtype that doesn't travel."""
        return cls(number, last, pack_arrays(arrays))

    def arrays(self) -> dict[str, Array]:
        """The arrays, read-only. WireError if they are malformed."""
        return unpack_arrays(self.packed)


@dataclass(frozen=True, slots=True, eq=False)
class Update(Message):
    """A client's weights after training in `round` on `examples` rows; or no arrays and why: `failure`, a code.

    Whether the count makes sense is the aggregator's to check, so that it can say whose it was.
    """

    round: int
    examples: int
    failure: str
    packed: bytes

    @classmethod
    def trained(cls, number: int, examples: int, arrays: Arrays) -> Update:
        """The message of a client that has trained. WireError for a dtype that doesn't travel."""
        return cls(number, examples, "", pack_arrays(arrays))

    @classmethod
    def failed(cls, number: int, code: str) -> Update:
        """The message of a client that could not train; `code` is all that the aggregator learns."""
        return cls(number, 0, code, b"")

    def check(self) -> None:
        """WireError if it carries both arrays and a failure."""
        if self.failure and (self.packed or self.examples):
            raise WireError("Update: a failure carries neither examples nor arrays")

    def arrays(self) -> dict[str, Array]:
        """The arrays, read-only. WireError if they are malformed."""
        return unpack_arrays(self.packed)


KINDS: tuple[type[Message], ...] = (Broadcast, Update)
"""Every kind that a worker of a horizontal computation accepts."""
