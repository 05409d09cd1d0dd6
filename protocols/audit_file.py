"""The file of an audit log: its lock, its tail, one durable write, and the repair of a torn last line."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from protocols.audit_entry import GENESIS, AuditEvent, Entry, Head, Result, head_of, link, parse_line
from protocols.errors import AuditError
from protocols.records import encode_record

LINE_LIMIT = 1 << 16
"""Longest line of a log, in bytes."""


@dataclass(frozen=True, slots=True)
class Tail:
    """Where the chain goes on: the head, the size of all whole lines, the bytes of a torn line after."""

    head: Head
    size: int
    torn: int


@contextlib.contextmanager
def locked(path: Path, *, write: bool) -> Iterator[int]:
    """The open file under its lock: exclusive to write, shared to read.

    The lock ends with the file descriptor. While we waited for it, another process may have put a shorter file in the
    place of ours (`prune`): what is written to ours would be lost, so the one that is there now is opened.
    """
    while True:
        file = _open(path, write)
        try:
            fcntl.flock(file, fcntl.LOCK_EX if write else fcntl.LOCK_SH)
            if _is_at(file, path):
                yield file
                return
        finally:
            os.close(file)


def _open(path: Path, write: bool) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND if write else os.O_RDONLY
    try:
        return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as failure:
        raise AuditError(f"the audit log {path} can't be opened: {failure.strerror}") from failure


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.lstat())
    except FileNotFoundError:
        return False


def find_tail(file: int, party: str) -> Tail:
    """The end of the log; only the last lines are read."""
    total = os.fstat(file).st_size
    start = max(0, total - 2 * LINE_LIMIT)
    data = os.pread(file, total - start, start)
    end = data.rfind(b"\n") + 1
    torn = len(data) - end
    if torn > LINE_LIMIT:
        raise AuditError(f"the audit log of {party} ends in {torn} bytes that no crash leaves")
    if start + end == 0:
        return Tail(head=Head(party=party, index=0, hash=GENESIS), size=0, torn=torn)
    last = parse_line(data[data.rfind(b"\n", 0, end - 1) + 1 : end - 1], "the last entry")
    if last.party != party:
        raise AuditError(f"the audit log belongs to {last.party}, not to {party}")
    return Tail(head=Head(party=party, index=last.index, hash=last.hash), size=start + end, torn=torn)


def repair(file: int, path: Path, tail: Tail, wanted: Entry) -> Tail:
    """Moves a torn last line to a file beside the log and says so in an entry; the new end of the log."""
    try:
        name = _set_aside(os.pread(file, tail.torn, tail.size), path, tail.head.index + 1)
        os.ftruncate(file, tail.size)
        os.fsync(file)
    except OSError as failure:
        raise AuditError(f"the torn end of the audit log can't be moved: {failure.strerror}") from failure
    note = replace(
        wanted,
        event=AuditEvent.LOG_REPAIRED,
        who="fedaccord",
        organisation=wanted.party,
        role="program",
        result=Result.OK,
        object=path.name,
        detail=(("bytes", tail.torn), ("moved_to", name)),
    )
    entry = write_entry(file, path, replace(tail, torn=0), note)
    return Tail(head=head_of(entry), size=os.fstat(file).st_size, torn=0)


def _set_aside(data: bytes, path: Path, index: int) -> str:
    """Writes the bytes to a new file beside the log; its name."""
    number = 1
    while (side := path.with_name(f"{path.name}.torn-{index}-{number}")).exists():
        number += 1
    copy = os.open(side, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(copy, "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(copy)
    return side.name


def write_entry(file: int, path: Path, tail: Tail, unlinked: Entry) -> Entry:
    """Appends the entry after `tail` and syncs it; on a failure the log is as before."""
    entry = link(unlinked, tail.head)
    line = encode_record(entry) + b"\n"
    if len(line) > LINE_LIMIT:
        raise AuditError(f"entry {entry.index} has {len(line)} bytes, at most {LINE_LIMIT} are allowed")
    try:
        written = 0
        while written < len(line):
            written += os.write(file, line[written:])
        os.fsync(file)
        if tail.size == 0:
            sync_folder(path.parent)
    except OSError as failure:
        with contextlib.suppress(
            OSError
        ):  # bytes that stay are a torn line, which the next append sets aside
            os.ftruncate(file, tail.size)
        raise AuditError(
            f"entry {entry.index} can't be written to the audit log: {failure.strerror}",
            remedy="make room on the disk or repair it; nothing is done that can't be logged",
        ) from failure
    return entry


def sync_folder(folder: Path) -> None:
    """Makes a new file's name as durable as its content."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
