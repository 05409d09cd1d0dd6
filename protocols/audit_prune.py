"""Deleting old entries from the front of an audit log, with a stub in their place.

The entry about the deletion is on the disk before anything is deleted; then the shorter file takes the place of the log
in one step. A crash in between leaves the whole log with an entry about a deletion that can be done again; when the
file can't be put there, a second entry says so.
"""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from protocols.audit_entry import Entry, Result
from protocols.audit_file import find_tail, locked, repair, sync_folder, write_entry
from protocols.audit_reading import read_stub, scan
from protocols.audit_stub import Stub
from protocols.errors import AuditError
from protocols.records import encode_record, parse_utc

CHUNK = 1 << 20


def prune(path: Path, cutoff: datetime, note: Entry) -> Stub | None:
    """Deletes the entries before the first that isn't older than `cutoff`; None when there is none to delete.

    `note` is the entry about it, still without its detail and its place in the chain. Raises AuditError for a log that
    is altered or can't be written: then nothing is deleted.
    """
    with locked(path, write=True) as file:
        tail = find_tail(file, note.party)
        if tail.torn:
            tail = repair(file, path, tail, note)
        with path.open("rb") as log:
            old = _oldest(log, tail.size, cutoff)
            if old is None:
                return None
            last, end = old
            stub = Stub(
                party=note.party,
                last=last.index,
                count=last.index,
                digest=_digest(log, end),
                head=last.hash,
                newest=last.time,
                time=note.time,
                who=note.who,
            )
            told = replace(note, detail=tuple(sorted(stub.detail().items())))
            write_entry(file, path, tail, told)
            try:
                _put_in_place(log, end, stub, path)
            except AuditError:
                write_entry(file, path, find_tail(file, note.party), replace(told, result=Result.FAILED))
                raise
        return stub


def _oldest(log: BinaryIO, size: int, cutoff: datetime) -> tuple[Entry, int] | None:
    """The last entry to delete and the position after it. The whole log is read, since one that is altered stays."""
    found: tuple[Entry, int] | None = None
    ended = False
    for entry, end in scan(log, size, read_stub(log)):
        ended = ended or parse_utc(entry.time, "time", AuditError) >= cutoff
        if not ended:
            found = (entry, end)
    return found


def _digest(log: BinaryIO, end: int) -> str:
    """SHA-256 (hex) over the lines that go, an earlier stub among them."""
    sha = hashlib.sha256()
    log.seek(0)
    while chunk := log.read(min(CHUNK, end - log.tell())):
        sha.update(chunk)
    return sha.hexdigest()


def _put_in_place(log: BinaryIO, end: int, stub: Stub, path: Path) -> None:
    """Writes stub and remaining entries to a new file and renames it to the log."""
    new = path.with_name(f".{path.name}.pruned")
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as shorter:
            shorter.write(encode_record(stub) + b"\n")
            for chunk in _rest(log, end):
                shorter.write(chunk)
            shorter.flush()
            os.fsync(descriptor)
        os.replace(new, path)
        sync_folder(path.parent)
    except OSError as failure:
        new.unlink(missing_ok=True)
        raise AuditError(
            f"the shortened audit log can't be written: {failure.strerror}",
            remedy="make room on the disk; nothing was deleted",
        ) from failure


def _rest(log: BinaryIO, end: int) -> Iterator[bytes]:
    log.seek(end)
    while chunk := log.read(CHUNK):
        yield chunk
