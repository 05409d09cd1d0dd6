"""What went over a run's links so far: messages, bytes, and a hash over all messages of a direction."""

import hashlib
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

_LENGTH: Final = struct.Struct("!Q")
_HASH_LATER: Final = 1 << 23


class Transcript:
    """SHA-256 over all messages of one direction in order, each after its length.

    Hashing waits until `settle`, which the driver calls after a send, when the peer has something to do too.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0

    def add(self, data: bytes) -> None:
        """Takes one message into the transcript."""
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        if self._waiting_bytes > _HASH_LATER:
            self.settle()

    def settle(self) -> None:
        """Hashes what is waiting."""
        for data in self._waiting:
            self._hash.update(_LENGTH.pack(len(data)))
            self._hash.update(data)
        self._waiting.clear()
        self._waiting_bytes = 0

    def digest(self) -> str:
        """The hash so far, hex."""
        self.settle()
        return self._hash.hexdigest()


@dataclass(slots=True)
class Direction:
    """What went one way on one link."""

    messages: int = 0
    size: int = 0
    """Bytes of all encoded messages."""
    transcript: Transcript = field(default_factory=Transcript)

    def add(self, data: bytes) -> None:
        """Counts one message."""
        self.messages += 1
        self.size += len(data)
        self.transcript.add(data)


class Traffic:
    """What this side has sent to and received from each role so far; `Gate.summary` has it by kind."""

    def __init__(self, roles: Iterable[str]) -> None:
        names = tuple(roles)
        self.sent = {role: Direction() for role in names}
        self.received = {role: Direction() for role in names}

    @property
    def bytes_sent(self) -> int:
        """Bytes of all encoded messages sent."""
        return sum(direction.size for direction in self.sent.values())

    @property
    def bytes_received(self) -> int:
        """Bytes of all encoded messages received."""
        return sum(direction.size for direction in self.received.values())

    @property
    def messages(self) -> int:
        """Messages both ways."""
        return sum(one.messages for way in (self.sent, self.received) for one in way.values())
