"""Want of room is known whatever it broke."""

import errno
import os
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parties.control.database import transaction
from parties.home.disk import for_want_of_room
from parties.running.ending import ending
from parties.running.runspec import State
from protocols.audit import AuditEvent, AuditLog, Result
from protocols.errors import AuditError, DiskFullError, StateError

NO_ROOM = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def wrapped(cause: BaseException) -> AuditError:
    made = AuditError("the entry can't be written")
    made.__cause__ = cause
    return made


@pytest.mark.parametrize(
    ("problem", "found"),
    [
        (NO_ROOM, True),
        (OSError(errno.EDQUOT, ""), True),
        (wrapped(NO_ROOM), True),
        (DiskFullError("no room"), True),
        (OSError(errno.EACCES, ""), False),
        (wrapped(OSError(errno.EACCES, "")), False),
        (sqlite3.OperationalError("disk I/O error"), False),
        (StateError("no"), False),
    ],
)
def test_what_is_want_of_room(problem: Exception, found: bool) -> None:
    assert for_want_of_room(problem) is found
    end = ending(problem)
    assert (end.state, end.reason == end.code == "disk_full") == (State.FAILED, found)
    assert ("make room" in end.detail) is found


def test_a_full_database_says_so_and_keeps_what_it_had(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with transaction(path) as database:
        database.execute("CREATE TABLE t (x TEXT) STRICT")

    def fill() -> None:
        with transaction(path) as database:
            database.execute("PRAGMA max_page_count=3")  # as many pages as a full disk would leave
            database.execute("INSERT INTO t VALUES (?)", ("x" * 100_000,))

    with pytest.raises(DiskFullError, match=r"no room for .*ledger\.db") as caught:
        fill()
    assert "make room" in caught.value.remedy
    with transaction(path) as database:
        assert database.execute("SELECT count(*) FROM t").fetchone()[0] == 0


def test_a_log_without_room_is_want_of_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise NO_ROOM

    monkeypatch.setattr("protocols.audit_file.os.fsync", full)
    with pytest.raises(AuditError) as caught:
        AuditLog(tmp_path / "audit.jsonl", "bank").append(
            AuditEvent.STARTED,
            who="ana",
            role="analyst",
            organisation="Lab",
            result=Result.OK,
            origin="syft",
            object="request",
            detail={},
            now=datetime(2026, 1, 2, tzinfo=UTC),
        )
    assert for_want_of_room(caught.value)
