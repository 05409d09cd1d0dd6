"""No attempt of the table passes at the supervisor's socket, in a handshake or by resuming, and each is logged."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from protocols.audit import AuditEvent
from protocols.request import digest
from tests.attempts.desk import Desk, prepared, refusals, tried
from tests.attempts.door import Door, attempted
from tests.attempts.table import TABLE, Attempt, Impossible, Way, cells
from tests.parties.running.test_worker import Party, Trial
from tests.ports import free_range

REFUSED = (AuditEvent.START_REFUSED, AuditEvent.SUBMITTED)


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    trial = Trial(Party("bank", tmp_path / "bank"), Party("retailer", tmp_path / "retailer"), free_range())
    yield Door.of(trial)
    trial.close()


def test_the_table_has_every_cell_and_a_reason_for_what_can_not_be_tried() -> None:
    assert set(TABLE) == set(Attempt)
    for attempt, line in TABLE.items():
        assert set(line) == set(Way), attempt
        assert all(len(code.split()) > 10 for code in line.values() if isinstance(code, Impossible))


@pytest.mark.parametrize(("attempt", "way", "code"), cells(Way.SOCKET, Way.RESUME))
def test_P3_an_attempt_is_refused_and_logged_at_the_supervisor(
    desk: Desk, attempt: Attempt, way: Way, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    resume = way is Way.RESUME
    with desk.open("resume" if resume else "quick"):
        answer, before, came = tried(desk, attempt, resume=resume, patch=monkeypatch)
    assert answer["ok"] is False, "the attempt passed"
    assert desk.opened() == [entry.event for entry in before].count(AuditEvent.STARTED)
    told = {AuditEvent.STARTED, AuditEvent.START_REFUSED}
    assert [entry.event for entry in came if entry.event in told] == [AuditEvent.START_REFUSED]
    assert [(entry.who, entry.origin) for entry in came if entry.event in told] == [("owner", "socket")]
    assert refusals(came, AuditEvent.START_REFUSED) == [answer["error"]]
    if attempt is Attempt.UNKNOWN_KEY and not resume:  # it wasn't even taken in
        assert (answer["error"], refusals(before, *REFUSED)) == ("request", [code])
    else:
        assert answer["error"] == code


@pytest.mark.parametrize(
    ("attempt", "way", "code"),
    [cell for cell in cells(Way.HANDSHAKE) if cell.values[0] is not Attempt.USED_UP],
)
def test_P3_an_attempt_is_refused_and_logged_in_the_handshake(
    door: Door, attempt: Attempt, way: Way, code: str
) -> None:
    attempted(door, attempt)
    assert not door.passed()
    assert code in door.refusals()
    shaken = [entry.event for entry in door.entries()].count(AuditEvent.HANDSHAKE)
    assert shaken == (1 if attempt is Attempt.REPLAYED else 0)  # the one that was there before


def test_P3_a_worker_without_a_reserved_run_sends_no_message_and_is_logged(desk: Desk) -> None:
    """The used-up cell of the handshake: whoever starts a worker past the supervisor gets no run from it."""
    code = TABLE[Attempt.USED_UP][Way.HANDSHAKE]
    with desk.open("quick"):
        request, _ = prepared(desk, Attempt.REPLAYED, resume=False, patch=pytest.MonkeyPatch())
        before = desk.entries()
        answer = desk.offices.ask("run_committed", digest=digest(request), run=1)
        came = desk.entries()[len(before) :]
    assert (answer["ok"], answer["error"]) == (False, code)
    assert refusals(came, AuditEvent.START_REFUSED) == [code]
