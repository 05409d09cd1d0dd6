"""The audit log of one party: JSON Lines in one hash chain, append-only.

Each line is the canonical form of an Entry. Its hash covers all its other fields, among them the hash of the
entry before; so a changed, swapped or dropped entry breaks the chain there. A chain can't show that its own
end was cut off: for that the head is signed and handed to the other party (`sign_head`), and `verify`
compares. The log holds no key, no cell of data and no plain hash of a key: a detail is a number or a short
text.

An entry is written under a file lock, which holds between processes too, and is on the disk when `append`
returns. If it can't be written, nothing remains of it and AuditError is raised: what was to be logged must
then not be done.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

from protocols.audit_entry import (
    GENESIS,
    AuditEvent,
    Entry,
    Head,
    Result,
    SignedHead,
    head_of,
    parse_head,
    parse_line,
    sign_head,
    to_text,
    torn_line,
    verify_head,
)
from protocols.audit_file import LINE_LIMIT, find_tail, locked, repair, write_entry
from protocols.errors import AuditError
from protocols.records import Scalar, utc_text

__all__ = [
    "GENESIS",
    "AuditEvent",
    "AuditLog",
    "Entry",
    "Head",
    "Result",
    "SignedHead",
    "parse_head",
    "read",
    "sign_head",
    "to_text",
    "verify",
    "verify_head",
]


class AuditLog:
    """The log of `party` in the file `path`; made at the first append. Several processes may use one file."""

    def __init__(self, path: Path, party: str) -> None:
        self._path = Path(path)
        self._party = party

    def append(
        self,
        event: AuditEvent,
        *,
        who: str,
        role: str,
        organisation: str,
        result: Result,
        origin: str,
        object: str,
        detail: Mapping[str, Scalar],
        now: datetime,
    ) -> Entry:
        """The new last entry, written and synced.

        Raises AuditError: the entry is malformed or can't be written.

        If a crash has left a torn last line, its bytes move to a file beside the log and an entry of its own
        tells so.
        """
        unlinked = Entry(
            index=0,
            time=utc_text(now),
            party=self._party,
            event=event,
            who=who,
            role=role,
            organisation=organisation,
            result=result,
            origin=origin,
            object=object,
            detail=tuple(sorted(detail.items())),
            previous="",
            hash="",
        )
        with locked(self._path, write=True) as file:
            tail = find_tail(file, self._party)
            if tail.torn:
                tail = repair(file, self._path, tail, unlinked)
            return write_entry(file, self._path, tail, unlinked)

    def entries(self) -> Iterator[Entry]:
        """The entries from the first on, the chain checked on the way. Raises AuditError naming the entry."""
        return read(self._path) if self._path.exists() else iter(())

    def head(self) -> Head:
        """Index and hash of the last entry. Raises AuditError if the last line is torn or altered."""
        if not self._path.exists():
            return Head(party=self._party, index=0, hash=GENESIS)
        with locked(self._path, write=False) as file:
            tail = find_tail(file, self._party)
        if tail.torn:
            raise torn_line(tail.head.index + 1)
        return tail.head


def read(path: Path) -> Iterator[Entry]:
    """The entries of a log one by one, in constant memory, up to the end that it has at the start.

    Raises AuditError naming the first entry that is altered, out of its place, or torn.
    """
    with locked(path, write=False) as lock:
        size = os.fstat(lock).st_size
    head = Head(party="-", index=0, hash=GENESIS)
    with path.open("rb") as file:
        while file.tell() < size:
            line = file.readline(LINE_LIMIT + 1)
            if not line.endswith(b"\n"):
                raise torn_line(head.index + 1)
            entry = parse_line(line[:-1], f"entry {head.index + 1}")
            _check_place(entry, head)
            head = head_of(entry)
            yield entry


def verify(path: Path, *, heads: Iterable[SignedHead] = ()) -> Head:
    """The head of the log, after checking every entry and each signed head against the entry it names.

    Raises AuditError naming the entry that is altered, missing, out of its place or torn. Whose key signed a
    head is the caller's check (`verify_head`).
    """
    signed = sorted(heads, key=lambda given: given.head.index)
    for given in signed:
        verify_head(given)
    head = Head(party="-", index=0, hash=GENESIS)
    signed = [given for given in signed if given.head.index > 0]
    for entry in read(path):
        head = head_of(entry)
        while signed and signed[0].head.index == entry.index:
            _check_against(signed.pop(0), entry)
    if signed:
        last = signed[-1]
        raise AuditError(
            f"entry {head.index + 1} is missing: the log ends at entry {head.index}, "
            f"but its head at entry {last.head.index} was signed at {last.time}",
            remedy="the end of the log was cut off; compare with the copies that the other parties hold",
        )
    return head


def _check_place(entry: Entry, before: Head) -> None:
    name = f"entry {before.index + 1}"
    if entry.index != before.index + 1:
        raise AuditError(f"{name} is not in its place: entry {entry.index} stands there")
    if entry.previous != before.hash:
        raise AuditError(f"{name} doesn't continue entry {before.index}: one of the two was replaced")
    if before.index and entry.party != before.party:
        raise AuditError(f"{name} is of {entry.party}, but the log is of {before.party}")


def _check_against(signed: SignedHead, entry: Entry) -> None:
    name = f"entry {entry.index}"
    if signed.head.party != entry.party:
        raise AuditError(f"a head of {signed.head.party} was given to check the log of {entry.party}")
    if signed.head.hash != entry.hash:
        raise AuditError(
            f"{name} is not the one whose head was signed at {signed.time}: the log was rewritten"
        )
