"""The gate: what the manifest doesn't list can neither leave a party nor be accepted by it.

Every party has its own gate and trusts no other's. A release (one line of the manifest) is known by message
kind, sender and receiver; a message passes when each of its array, bytes and text fields is listed and fits,
its encoded size fits and the number of messages isn't used up. `Trace` collects the messages of a rehearsal,
to show that the bounds hold and are tight.
"""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType

import numpy as np

from protocols import wire
from protocols.errors import GateError
from protocols.request import ComputationRequest, Release

ReleaseKey = tuple[str, str, str]
"""Message kind, sender's role, receiver's role."""

Shapes = Mapping[str, tuple[int, ...]]
_NOTHING_USED: Mapping[ReleaseKey, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseUse:
    """How much of one release was used; rows are the first dimensions of all arrays, summed."""

    kind: str
    sender: str
    receiver: str
    messages: int
    bytes: int
    rows: int


class Gate:
    """One party's guard over one run, in both directions; safe to share between threads.

    `used` are messages that an earlier, interrupted worker of the same run has used (or reserved) already.
    """

    def __init__(
        self,
        manifest: ComputationRequest | Iterable[Release],
        role: str,
        *,
        used: Mapping[ReleaseKey, int] = _NOTHING_USED,
    ) -> None:
        self._releases = _by_key(manifest)
        self._role = role
        self._lock = threading.Lock()
        self._used = {key: used.get(key, 0) for key in self._releases}
        self._bytes = dict.fromkeys(self._releases, 0)
        self._rows = dict.fromkeys(self._releases, 0)

    def outbound(self, to: str, message: wire.Message, nbytes: int) -> None:
        """Counts a message of `nbytes` encoded bytes that is about to leave for role `to`.

        Raises GateError: don't send it.
        """
        self._pass("outbound", (type(message).__name__, self._role, to), message, nbytes)

    def inbound(self, sender: str, message: wire.Message, nbytes: int) -> None:
        """Counts a message of `nbytes` encoded bytes that came from role `sender`.

        Raises GateError: don't use it.
        """
        self._pass("inbound", (type(message).__name__, sender, self._role), message, nbytes)

    @property
    def used(self) -> Mapping[ReleaseKey, int]:
        """Messages counted so far for each release of the manifest."""
        with self._lock:
            return dict(self._used)

    def summary(self) -> tuple[ReleaseUse, ...]:
        """What went through, for each release that this party sends or receives, in the manifest's order."""
        with self._lock:
            return tuple(
                ReleaseUse(
                    kind=key[0],
                    sender=key[1],
                    receiver=key[2],
                    messages=self._used[key],
                    bytes=self._bytes[key],
                    rows=self._rows[key],
                )
                for key in self._releases
                if self._role in key[1:]
            )

    def _pass(self, direction: str, key: ReleaseKey, message: wire.Message, nbytes: int) -> None:
        shapes = wire.shapes(message)
        with self._lock:
            reason = excess(self._releases.get(key), shapes, nbytes, self._used.get(key, 0))
            if reason:
                raise GateError(
                    f"{direction} {_named(key)}: {reason}",
                    remedy="the run must stop; compare code and manifest",
                )
            self._used[key] += 1
            self._bytes[key] += nbytes
            self._rows[key] += _rows(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceLine:
    """One message of a rehearsal."""

    sender: str
    to: str
    kind: str
    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    nbytes: int

    @property
    def key(self) -> ReleaseKey:
        """The release that this message uses."""
        return (self.kind, self.sender, self.to)


class Trace:
    """The messages of a rehearsal in order; `observe` fits the argument of `simulate`."""

    def __init__(self) -> None:
        self._lines: list[TraceLine] = []

    @property
    def lines(self) -> tuple[TraceLine, ...]:
        """What was recorded, in order."""
        return tuple(self._lines)

    def observe(self, sender: str, to: str, message: wire.Message) -> None:
        """Records a message with the size that it has on the wire."""
        self.record(sender, to, type(message).__name__, wire.shapes(message), len(wire.encode(message)))

    def record(self, sender: str, to: str, kind: str, shapes: Shapes, nbytes: int) -> None:
        """Records one message by its facts."""
        line = TraceLine(sender=sender, to=to, kind=kind, shapes=tuple(sorted(shapes.items())), nbytes=nbytes)
        self._lines.append(line)

    def fits(self, manifest: ComputationRequest | Iterable[Release]) -> None:
        """Raises GateError at the first message that a gate would stop; returns nothing if all pass."""
        releases = _by_key(manifest)
        used = dict.fromkeys(releases, 0)
        for number, line in enumerate(self._lines, start=1):
            reason = excess(releases.get(line.key), dict(line.shapes), line.nbytes, used.get(line.key, 0))
            if reason:
                raise GateError(
                    f"message {number}, {_named(line.key)}: {reason}",
                    remedy="the manifest doesn't fit the code",
                )
            used[line.key] += 1

    def fill(self, manifest: ComputationRequest | Iterable[Release]) -> dict[ReleaseKey, float]:
        """For each release, the bytes sent as a part of all it allows: 1.0 is a bound without slack."""
        releases = _by_key(manifest)
        sent = dict.fromkeys(releases, 0)
        for line in self._lines:
            if line.key in sent:
                sent[line.key] += line.nbytes
        return {
            key: sent[key] / (release.repetitions * release.max_bytes) for key, release in releases.items()
        }


def excess(release: Release | None, shapes: Shapes, nbytes: int, used: int) -> str:
    """In what a message goes beyond its release after `used` earlier ones, in words; "" when it may pass."""
    if release is None:
        return "unlisted: the manifest has no such release"
    if used >= release.repetitions:
        return f"repetitions: {release.repetitions} allowed, this is number {used + 1}"
    if nbytes > release.max_bytes or nbytes < 0:
        return f"bytes: {nbytes}, at most {release.max_bytes} are allowed"
    allowed = dict(release.shapes)
    for field, shape in shapes.items():
        bound = allowed.get(field)
        if bound is None:
            return f"shape: field {field!r} is not listed"
        if len(shape) != len(bound):
            return f"shape: field {field!r} has {len(shape)} dimensions, {len(bound)} are allowed"
        if any(size > most for size, most in zip(shape, bound, strict=True)):
            return f"shape: field {field!r} is {shape}, at most {bound} is allowed"
    return ""


def _by_key(manifest: ComputationRequest | Iterable[Release]) -> dict[ReleaseKey, Release]:
    lines = manifest.manifest if isinstance(manifest, ComputationRequest) else tuple(manifest)
    releases = {(line.kind, line.sender, line.receiver): line for line in lines}
    if len(releases) != len(lines):
        raise GateError("the manifest lists a kind twice for the same sender and receiver")
    return releases


def _named(key: ReleaseKey) -> str:
    return f"{key[0]} {key[1]} -> {key[2]}"


def _rows(message: wire.Message) -> int:
    values = (getattr(message, field.name) for field in fields(message))
    return sum(int(v.shape[0]) for v in values if isinstance(v, np.ndarray) and v.ndim)
