"""The steps that both sides of an alignment share: blind the own set, send a list in parts, take one in.

Shapes: n keys of a set, c items of one part; a list of points is uint8 (n, 33).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from protocols.errors import ProtocolError, SubjectKeyError
from protocols.program import Observe, Program, Progress, compute, receive
from protocols.psi.crew import Crew, Wait
from protocols.psi.curve import POINT_BYTES
from protocols.psi.jobs import Job, Operation, pack_keys
from protocols.psi.messages import Part
from protocols.psi.terms import PART

Items: TypeAlias = NDArray[np.uint8]
_KEY, _DUMMY = b"k", b"d"
PHASE = "align"
"""How an alignment's progress is called."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class BlindedSet:
    """A blinded set in ascending order of its points (n, 33); `rows` (n,) are the own rows, -1 for a dummy."""

    points: Items
    rows: NDArray[np.int64]


class Meter:
    """Tells in tenths how far an alignment is: five for the first list of points to be blinded, five for the second.

    An analyst sees it, so it must not tell how many keys a party has: shares are those of `bounds`, the largest
    possible lengths of the two lists, and a list's last part and its end are told as one.
    """

    def __init__(self, observe: Observe, bounds: tuple[int, int]) -> None:
        self._observe = observe
        self._bounds = bounds
        self._list = self._done = 0
        self._tell(0)

    def add(self, count: int) -> None:
        """So many more points of the list are done, and it goes on."""
        self._done += count
        self._tell(5 * self._list + min(4, 5 * self._done // max(1, self._bounds[self._list])))

    def end(self) -> None:
        """The list is done."""
        self._list, self._done = self._list + 1, 0
        self._tell(5 * self._list)

    def _tell(self, tenths: int) -> None:
        self._observe(Progress(PHASE, tenths, 10))


def check_keys(keys: Sequence[bytes]) -> None:
    """SubjectKeyError, with counts only, for a set with an empty or a repeated key."""
    if any(not key for key in keys):
        raise SubjectKeyError("a subject key is empty", remedy="leave rows without a key out of the block")
    repeated = len(keys) - len(set(keys))
    if repeated:
        raise SubjectKeyError(
            f"{repeated} of {len(keys)} rows repeat the subject key of another row",
            remedy="keep one row per person before the alignment",
        )


def secret_for(seed: bytes, purpose: str) -> bytes:
    """32 bytes for one purpose, from a party's private seed."""
    return hmac.digest(seed, purpose.encode(), hashlib.sha256)


def begin_blinding(keys: Sequence[bytes], shown: int, seed: bytes, secret: bytes, crew: Crew) -> list[Wait]:
    """Has the crew begin to blind the keys, and after them dummies up to `shown` points.

    A dummy is of a kind of its own and random, so it is no key. The blinding secret, which each side draws anew, is in
    it: so it is no dummy of the other side either, even if both were given one seed.
    """
    dummy = hmac.digest(seed, b"psi dummies" + secret, hashlib.sha256)
    waits = []
    for start in range(0, shown, PART):
        part = [_KEY + key for key in keys[start : start + PART]]
        while len(part) < min(PART, shown - start):
            part.append(_DUMMY + hmac.digest(dummy, b"%d" % (start + len(part)), hashlib.sha256))
        job = Job(operation=Operation.BLIND_KEYS, secret=secret, content=pack_keys(part))
        waits.append(crew.begin(job))
    return waits


def begin_again(crew: Crew, secret: bytes, points: Items) -> Wait:
    """Has the crew begin to blind points (c, 33) once more."""
    return crew.begin(Job(operation=Operation.BLIND_POINTS, secret=secret, content=points.tobytes()))


def finished(waits: Sequence[Wait], meter: Meter, whose: str) -> Program[Items]:
    """The points of a whole list, one after the other; ProtocolError naming `whose` bytes were none."""
    parts: list[Items] = []
    for wait in waits:
        parts.append((yield from finished_part(wait, whose)))
        if len(parts) < len(waits):
            meter.add(len(parts[-1]))
    meter.end()
    return np.concatenate(parts) if parts else np.zeros((0, POINT_BYTES), np.uint8)


def finished_part(wait: Wait, whose: str) -> Program[Items]:
    """The points (c, 33) of one job; raises like `finished`."""
    return (yield from compute(_points, wait, whose))


def in_order(points: Items, keys: int) -> BlindedSet:
    """The blinded set of `keys` keys with their dummies behind them, sorted: that hides which point is whose."""
    order = np.argsort(as_texts(points), kind="stable").astype(np.int64)
    return BlindedSet(points=points[order], rows=np.where(order < keys, order, -1))


def collect(
    sender: str, kind: type[Part], *, ascending: bool, take: Callable[[Items], None] = lambda part: None
) -> Program[Items]:
    """The whole list that the sender sends in parts, each handed to `take` as it comes.

    ProtocolError for parts that don't fit together and, where `ascending`, for a list that isn't strictly so: then
    nothing is in it twice, and its order tells nothing.
    """
    parts: list[Items] = []
    of, count = 0, 0
    while not parts or count < of:
        message = yield from receive(sender, kind)
        of = of if parts else message.of
        count += len(message.items)
        if message.of != of or count > of:
            raise ProtocolError(f"{sender} sent parts of {kind.__name__} that don't fit together")
        parts.append(message.items)
        if ascending and not _ascending(parts[-2:]):
            raise ProtocolError(f"{sender} sent {kind.__name__} with an item out of order or repeated")
        take(message.items)
    return np.concatenate(parts)


def cut(array: Items, length: int) -> list[Items]:
    """Consecutive parts of so many items; one empty part of an empty list."""
    return [array[start : start + length] for start in range(0, max(1, len(array)), length)]


def as_texts(array: Items) -> NDArray[np.bytes_]:
    """Rows of bytes (n, width) as n items that numpy compares like bytes; all have the same width."""
    return np.ascontiguousarray(array).view(f"S{array.shape[1]}").reshape(-1)


def find(wanted: Items, ascending: Items) -> NDArray[np.int64]:
    """For each wanted row of bytes its place in the ascending list, -1 where it isn't in it.

    They are looked up in ascending order: neighbours then lie near each other in memory, which is several times as
    fast with a million.
    """
    found = np.full(len(wanted), -1, np.int64)
    if not len(ascending):
        return found
    order = np.argsort(as_texts(wanted))
    texts = as_texts(wanted)[order]
    place = np.searchsorted(as_texts(ascending), texts).astype(np.int64)
    place[place == len(ascending)] = 0
    found[order] = np.where(as_texts(ascending)[place] == texts, place, -1)
    return found


def _ascending(parts: Sequence[Items]) -> bool:
    last = as_texts(np.concatenate([*(part[-1:] for part in parts[:-1]), parts[-1]]))
    return bool(np.all(last[1:] > last[:-1]))  # type: ignore[operator]  # numpy's stubs lack it for bytes_


def _points(wait: Wait, whose: str) -> Items:
    try:
        return np.frombuffer(wait(), np.uint8).reshape(-1, POINT_BYTES)
    except ProtocolError as problem:
        raise ProtocolError(f"{whose} sent points that are none of the curve") from problem
