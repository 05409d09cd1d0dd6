"""A party whose clock is set back or forward between approval, start and end of a run."""

from datetime import timedelta
from pathlib import Path

import pytest

from parties.roles.auditing import verify_log
from protocols.approval import Decision
from protocols.audit import AuditEvent, AuditLog, SetBack, check
from protocols.request import digest
from tests.parties.control.offices import Offices, copied, make_offices, running
from tests.waiting import until

HOUR, WEEK = timedelta(hours=1), timedelta(days=8)  # a request lasts seven days


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Offices:
    return make_offices(tmp_path_factory.mktemp("offices"))


@pytest.fixture
def offices(template: Offices, tmp_path: Path) -> Offices:
    return copied(template, tmp_path)


def back(offices: Offices) -> tuple[SetBack, ...]:
    return check(offices.bank.audit_path).set_back


def test_a_clock_set_back_after_approval_is_told_by_the_log_and_breaks_nothing(offices: Offices) -> None:
    with running(offices):
        request = offices.approved()
        before = AuditLog(offices.bank.audit_path, "bank").head().index
        offices.clock.ahead = -HOUR
        assert offices.start(request)["ok"]
        assert offices.wait(request, "DONE")["used"] == 1
        assert offices.start(request)["error"] == "runs_used"
    (jump,) = back(offices)
    assert jump.index == before + 1
    assert 0 < jump.seconds <= 3_600  # less what passed in between
    document, text = verify_log(offices.bank, ())
    assert f"WARNING: the clock was set back by {jump.seconds} s before entry {jump.index}" in text
    assert document["clock_set_back"] == [{"index": jump.index, "seconds": jump.seconds}]


def test_a_clock_that_is_corrected_a_little_is_not_told(offices: Offices) -> None:
    with running(offices):
        offices.clock.ahead = -timedelta(seconds=50)
        offices.submitted()
    assert back(offices) == ()


def test_a_revocation_ends_a_run_whatever_the_clock_shows_since(offices: Offices) -> None:
    with running(offices, "steps"):
        request = offices.approved()
        offices.start(request)
        offices.clock.ahead = -HOUR
        revoked = offices.decision(offices.bank, request, Decision.REVOKE)
        assert offices.ask("decide", decision=revoked)["state"] == "REVOKED"
        assert offices.start(request)["error"] == "revoked"


def test_a_request_that_expired_here_runs_again_when_the_clock_is_set_back_and_the_log_tells(
    offices: Offices,
) -> None:
    """One party's clock is that party's; the other ones hold the date against theirs (`test_door`, expired)."""
    with running(offices):
        request = offices.approved()
        approvals = offices.shop_approval(request)
        offices.clock.ahead = WEEK
        assert offices.shim(request, "start", approvals)["error"] == "expired"
        offices.clock.ahead = timedelta()
        assert offices.shim(request, "start", approvals)["ok"]
        offices.wait(request, "DONE")
    (jump,) = back(offices)
    entries = list(AuditLog(offices.bank.audit_path, "bank").entries())
    assert entries[jump.index - 1].event is AuditEvent.STARTED


def test_a_run_that_ended_with_the_requests_date_leaves_nothing_and_is_not_taken_up(offices: Offices) -> None:
    with running(offices, "expired"):
        request = offices.approved()
        offices.start(request)
        view = offices.wait(request, "FAILED")
        assert (view["reason"], view["used"]) == ("expired", 1)
        folder = offices.bank.runs / f"{digest(request)}-1"
        until(
            lambda: {path.name for path in folder.iterdir()},
            lambda there: not {"checkpoints", "private.seed"} & there,
        )
        assert offices.start(request)["error"] == "runs_used"
