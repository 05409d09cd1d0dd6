"""The supervisor's pen: what has happened already waits for room in the log, what is still to happen doesn't."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from parties.home.journal import Journal
from parties.home.state import State, init_party
from protocols import audit_file
from protocols.audit import AuditEvent, Result, check
from protocols.errors import AuditError


class Disk:
    """Where a log is written to, while there is room."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        self._write = audit_file.write_entry
        monkeypatch.setattr("protocols.audit.write_entry", self._entry)

    def _entry(self, *arguments: object) -> object:
        if self.full:
            raise AuditError("no room")
        return self._write(*arguments)  # type: ignore[arg-type]


@pytest.fixture
def bank(tmp_path: Path) -> State:
    return init_party(tmp_path / "bank", name="bank", organisation="Bank")


def test_owed_entries_come_first_when_there_is_room_and_say_when_it_happened(
    bank: State, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    minutes = iter(range(60))
    journal = Journal(bank, lambda: datetime(2026, 1, 2, 3, next(minutes), tzinfo=UTC))
    before = len(list(journal.log.entries()))
    disk = Disk(monkeypatch)
    disk.full = True
    journal.owe(AuditEvent.TEMPORARY_DELETED, Result.OK, "request a", deleted="temporary")
    journal.owe(AuditEvent.RUN_FAILED, Result.FAILED, "request a", reason="disk_full")
    assert capsys.readouterr().err.count("isn't in the log yet") == 2
    with pytest.raises(AuditError):
        journal.ok(AuditEvent.STARTED, journal.itself, "request b")
    disk.full = False
    # another writer finds room first: what is owed must not be dated before it
    Journal(bank, lambda: datetime(2026, 1, 2, 3, 3, tzinfo=UTC)).ok(
        AuditEvent.LOG_READ, journal.itself, "log"
    )
    journal.ok(AuditEvent.STARTED, journal.itself, "request c")
    journal.owe(AuditEvent.RUN_FINISHED, Result.OK, "request c")
    written = list(journal.log.entries())[before:]
    assert [
        (entry.event.value, entry.object[-1], entry.time[14:16], dict(entry.detail).get("happened"))
        for entry in written
    ] == [
        ("log_read", "g", "03", None),
        ("temporary_deleted", "a", "03", "2026-01-02T03:00:00Z"),
        ("run_failed", "a", "03", "2026-01-02T03:01:00Z"),
        ("started", "c", "03", None),
        ("run_finished", "c", "04", None),
    ]
    assert check(bank.audit_path).set_back == ()
