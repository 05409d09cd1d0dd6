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

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

from protocols.audit_entry import (
    GENESIS,
    AuditEvent,
    Entry,
    Head,
    Result,
    SignedHead,
    head_detail,
    head_of,
    parse_head,
    sign_head,
    to_text,
    torn_line,
    verify_head,
)
from protocols.audit_file import find_tail, locked, repair, write_entry
from protocols.audit_prune import prune
from protocols.audit_reading import Checked, SetBack, check, read, verify
from protocols.audit_stub import LEAST_MONTHS, Stub, months_before
from protocols.errors import AuditError
from protocols.records import Scalar, utc_text

__all__ = [
    "GENESIS",
    "LEAST_MONTHS",
    "AuditEvent",
    "AuditLog",
    "Checked",
    "Entry",
    "Head",
    "Result",
    "SetBack",
    "SignedHead",
    "Stub",
    "check",
    "head_detail",
    "months_before",
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
        self._written = Head(party=party, index=0, hash=GENESIS)

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

        Raises AuditError: the entry is malformed or can't be written, or an entry that was written here is gone.

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
            self._check_kept(tail.head)
            if tail.torn:
                tail = repair(file, self._path, tail, unlinked)
            entry = write_entry(file, self._path, tail, unlinked)
            self._written = head_of(entry)
            return entry

    def _check_kept(self, head: Head) -> None:
        """AuditError when the log lacks what this object wrote last: a deleted log would begin anew, unnoticed."""
        if head.index < self._written.index or (head.index == self._written.index and head != self._written):
            raise AuditError(
                f"the audit log of {self._party} ends at entry {head.index}, but entry {self._written.index} was "
                "written before: it was cut off, deleted or replaced",
                remedy=f"find out who did that and put {self._path} back from a copy; nothing is done that can't be "
                "logged",
            )

    def prune(
        self, cutoff: datetime, *, who: str, role: str, organisation: str, origin: str, now: datetime
    ) -> Stub | None:
        """Deletes entries older than `cutoff` (see `protocols.audit_prune`) and logs that; None when there is none."""
        note = Entry(
            index=0,
            time=utc_text(now),
            party=self._party,
            event=AuditEvent.LOG_PRUNED,
            who=who,
            role=role,
            organisation=organisation,
            result=Result.OK,
            origin=origin,
            object="audit log",
            detail=(),
            previous="",
            hash="",
        )
        return prune(self._path, cutoff, note)

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
