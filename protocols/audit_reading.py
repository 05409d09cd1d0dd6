"""Reading an audit log and checking it: its chain, the stub of deleted entries, and heads that others hold of it."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

from protocols.audit_entry import (
    GENESIS,
    Entry,
    Head,
    SignedHead,
    head_of,
    parse_line,
    torn_line,
    verify_head,
)
from protocols.audit_file import LINE_LIMIT, locked
from protocols.audit_stub import Stub, parse_stub
from protocols.errors import AuditError
from protocols.records import parse_utc

CLOCK_BACK = timedelta(minutes=1)
"""An entry that is dated so much before the one before it tells that the clock was set back; less comes of several
writers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBack:
    """The entry at which the clock had been set back, and by how many seconds at least."""

    index: int
    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What a check of a log found: its head, the stub of deleted entries, and what became of the signed heads.

    `compared` fit; `deleted` are of entries that the log no longer has, so nothing can be said about them. `set_back`
    is no error: clocks are corrected. But what hangs on dates, such as an expiry, isn't shown by such a log.
    """

    head: Head
    stub: Stub | None
    compared: tuple[SignedHead, ...]
    deleted: tuple[SignedHead, ...]
    set_back: tuple[SetBack, ...] = ()


def read(path: Path) -> Iterator[Entry]:
    """The entries of a log one by one, in constant memory, up to the end that it has at the start.

    Raises AuditError naming the first entry that is altered, out of its place, or torn.
    """
    with locked(path, write=False) as lock:
        size = os.fstat(lock).st_size
        file = path.open("rb")  # nobody replaces the file while we hold its lock
    with file:
        for entry, _ in scan(file, size, read_stub(file)):
            yield entry


def read_stub(file: BinaryIO) -> Stub | None:
    """The stub at the beginning of the log; the file then stands at its first entry."""
    stub = parse_stub(file.readline(LINE_LIMIT + 1).removesuffix(b"\n"))
    if stub is None:
        file.seek(0)
    return stub


def scan(file: BinaryIO, size: int, stub: Stub | None) -> Iterator[tuple[Entry, int]]:
    """The entries up to `size`, each with the position after its line. Raises like `read`."""
    head = Head(party="-", index=0, hash=GENESIS) if stub is None else stub.end
    while file.tell() < size:
        line = file.readline(LINE_LIMIT + 1)
        if not line.endswith(b"\n"):
            raise torn_line(head.index + 1)
        entry = parse_line(line[:-1], f"entry {head.index + 1}")
        _check_place(entry, head)
        head = head_of(entry)
        yield entry, file.tell()


def verify(path: Path, *, heads: Iterable[SignedHead] = ()) -> Head:
    """The head of the log, after the checks of `check`."""
    return check(path, heads=heads).head


def check(path: Path, *, heads: Iterable[SignedHead] = ()) -> Checked:
    """Checks every entry, each signed head against the entry it names, and a stub against the entry about it.

    Raises AuditError naming the entry that is altered, missing, out of its place or torn. Whose key signed a
    head is the caller's check (`verify_head`).
    """
    signed = sorted(heads, key=lambda given: given.head.index)
    for given in signed:
        verify_head(given)
    with locked(path, write=False) as lock:
        size = os.fstat(lock).st_size
        file = path.open("rb")
    with file:
        return _check(file, size, [given for given in signed if given.head.index > 0])


def _check(file: BinaryIO, size: int, signed: list[SignedHead]) -> Checked:
    stub = read_stub(file)
    head = Head(party="-", index=0, hash=GENESIS) if stub is None else stub.end
    deleted = tuple(given for given in signed if given.head.index < head.index)
    compared = tuple(given for given in signed if given.head.index >= head.index)
    waiting, told = list(compared), stub is None
    last = None if stub is None else parse_utc(stub.newest, "newest", AuditError)
    set_back = []
    while waiting and waiting[0].head.index == head.index:
        _check_against(waiting.pop(0), head)
    for entry, _ in scan(file, size, stub):
        head, time = head_of(entry), parse_utc(entry.time, "time", AuditError)
        if last is not None and last - time > CLOCK_BACK:
            set_back.append(SetBack(index=entry.index, seconds=int((last - time).total_seconds())))
        last = time
        told = told or (stub is not None and stub.check(entry))
        while waiting and waiting[0].head.index == entry.index:
            _check_against(waiting.pop(0), head)
    if not told:
        raise AuditError(
            f"entries 1 to {'-' if stub is None else stub.last} are missing: "
            "a stub stands for them, but no entry tells of their deletion",
            remedy="the beginning of the log was cut off; compare with copies and exports of it",
        )
    if waiting:
        _raise_missing(head, waiting[-1])
    return Checked(head=head, stub=stub, compared=compared, deleted=deleted, set_back=tuple(set_back))


def _raise_missing(head: Head, last: SignedHead) -> None:
    raise AuditError(
        f"entry {head.index + 1} is missing: the log ends at entry {head.index}, "
        f"but its head at entry {last.head.index} was signed at {last.time}",
        remedy="the end of the log was cut off; compare with the copies that the other parties hold",
    )


def _check_place(entry: Entry, before: Head) -> None:
    name = f"entry {before.index + 1}"
    if entry.index != before.index + 1:
        raise AuditError(f"{name} is not in its place: entry {entry.index} stands there")
    if entry.previous != before.hash:
        raise AuditError(f"{name} doesn't continue entry {before.index}: one of the two was replaced")
    if before.index and entry.party != before.party:
        raise AuditError(f"{name} is of {entry.party}, but the log is of {before.party}")


def _check_against(signed: SignedHead, head: Head) -> None:
    name = f"entry {head.index}"
    if signed.head.party != head.party:
        raise AuditError(f"a head of {signed.head.party} was given to check the log of {head.party}")
    if signed.head.hash != head.hash:
        raise AuditError(
            f"{name} is not the one whose head was signed at {signed.time}: the log was rewritten"
        )
