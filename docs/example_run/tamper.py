"""What three kinds of tampering with a copy of the bank's log look like to somebody who verifies it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from protocols.audit import AuditEvent, Entry, Head, SignedHead, read, verify
from protocols.audit_entry import GENESIS, head_of, link
from protocols.errors import AuditError
from protocols.records import encode_record

NEW_REASON = "never approved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tampering:
    """What was done to the copy; what `verify` says of it alone, and with the head that the other party holds."""

    done: str
    alone: str
    with_head: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OneByte:
    """The line of the approval before and after one byte was changed, and the error."""

    before: str
    after: str
    error: str


def change_one_byte(log: Path, copy: Path) -> OneByte:
    """Changes the first letter of the reason that stands in the entry of the approval."""
    lines = log.read_bytes().splitlines(keepends=True)
    (at,) = (entry.index - 1 for entry in read(log) if entry.event is AuditEvent.APPROVED)
    place = lines[at].index(b'["reason","') + len(b'["reason","')
    changed = bytes([lines[at][place] ^ 1])
    new = lines[at][:place] + changed + lines[at][place + 1 :]
    copy.write_bytes(b"".join([*lines[:at], new, *lines[at + 1 :]]))
    return OneByte(before=lines[at].decode(), after=new.decode(), error=_verdict(copy))


def tamper(log: Path, copy: Path, head: SignedHead) -> tuple[Tampering, ...]:
    """Three copies of the log: one byte changed, its end cut off, and rewritten with every later hash made anew."""
    entries = tuple(read(log))
    (approval,) = (entry for entry in entries if entry.event is AuditEvent.APPROVED)
    ways: Sequence[tuple[str, Callable[[], object]]] = (
        (f"one byte of entry {approval.index} changed", lambda: change_one_byte(log, copy)),
        (
            f"everything after entry {head.head.index - 1} cut off",
            lambda: _write(copy, entries[: head.head.index - 1]),
        ),
        (
            f"the reason in entry {approval.index} rewritten, and every later hash made anew",
            lambda: _write(copy, _rewritten(entries, approval.index)),
        ),
    )
    found = []
    for done, change in ways:
        change()
        found.append(Tampering(done=done, alone=_verdict(copy), with_head=_verdict(copy, head)))
    return tuple(found)


def _rewritten(entries: Sequence[Entry], index: int) -> list[Entry]:
    """The chain as a party would forge it that changes one of its own entries: consistent in itself."""
    forged: list[Entry] = []
    head = Head(party=entries[0].party, index=0, hash=GENESIS)
    for entry in entries:
        told = replace(entry, detail=(("reason", NEW_REASON),)) if entry.index == index else entry
        forged.append(link(told, head))
        head = head_of(forged[-1])
    return forged


def _write(copy: Path, entries: Sequence[Entry]) -> None:
    copy.write_bytes(b"".join(encode_record(entry) + b"\n" for entry in entries))


def _verdict(log: Path, *heads: SignedHead) -> str:
    try:
        head = verify(log, heads=heads)
    except AuditError as error:
        return f"{type(error).__name__}: {error}"
    return f"ok: {head.index} entries, chain unbroken"
