"""Each rule stops the attempt that it is there for: with that rule switched off the attempt passes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from parties.home.cards import AddressBook
from parties.home.journal import Journal
from protocols.audit import AuditEvent
from protocols.request import digest
from tests.attempts.desk import Desk, prepared, refusals, tried
from tests.attempts.door import Door, attempted
from tests.attempts.table import Attempt
from tests.parties.running.test_worker import Party, Trial
from tests.ports import free_range

Off = dict[str, Callable[..., object]]


def nothing(*given: object, **named: object) -> None:
    """Checks nothing."""


def nobody(*given: object, **named: object) -> tuple[str, ...]:
    """Nothing is missing, whatever was asked."""
    return ()


CHECKS = "parties.control.validate."
LEDGER = "parties.control.runs."
APPROVALS: Off = {f"{CHECKS}verify_all": nothing}
RULES: list[tuple[Attempt, bool, Off]] = [
    (Attempt.NONE, False, APPROVALS),
    (Attempt.ALTERED, False, APPROVALS),
    (Attempt.OTHER_PARTY, False, APPROVALS),
    (Attempt.OTHER_DIGEST, False, APPROVALS),
    (Attempt.FORGED, False, APPROVALS),
    (Attempt.STALE, False, {f"{CHECKS}missing": nobody}),
    (Attempt.STALE, True, {f"{CHECKS}check_blocks": nothing}),
    (Attempt.EXPIRED, False, {f"{CHECKS}check_expiry": nothing, "protocols.approval.check_expiry": nothing}),
    (Attempt.REVOKED, False, {f"{LEDGER}_check_startable": nothing, f"{CHECKS}missing": nobody}),
    (Attempt.USED_UP, False, {f"{LEDGER}_check_left": nothing}),
    (Attempt.REPLAYED, True, {f"{LEDGER}_check_left": nothing}),
    (Attempt.OTHER_CODE, False, {f"{CHECKS}check_code": nothing}),
]


@contextmanager
def switched_off(off: Off) -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        for name, instead in off.items():
            patch.setattr(name, instead)
        yield patch


@pytest.mark.parametrize(("attempt", "resume", "off"), RULES)
def test_an_attempt_passes_when_its_rule_is_switched_off(
    desk: Desk, attempt: Attempt, resume: bool, off: Off
) -> None:
    with switched_off(off) as patch, desk.open("resume" if resume else "quick"):
        answer, _, _ = tried(desk, attempt, resume=resume, patch=patch)
        assert answer["ok"] is True, answer


def test_an_unknown_roster_key_passes_when_the_roster_is_not_compared(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AddressBook, "check_roster", lambda book, request: request.parties[0])
    with desk.open("resume"):
        answer, _, _ = tried(desk, Attempt.UNKNOWN_KEY, resume=True, patch=monkeypatch)
        assert answer["ok"] is True, answer


def test_a_worker_without_a_run_gets_one_when_the_ledger_does_not_count(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk.open("quick"):
        request, _ = prepared(desk, Attempt.REPLAYED, resume=False, patch=monkeypatch)
        monkeypatch.setattr("parties.control.runs.Ledger.commit", nothing)
        assert desk.offices.ask("run_committed", digest=digest(request), run=1)["ok"] is True


def test_a_refusal_without_its_entry_is_noticed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Journal, "refused", nothing)
    with desk.open("quick"):
        answer, _, came = tried(desk, Attempt.NONE, resume=False, patch=monkeypatch)
    assert answer["ok"] is False
    assert refusals(came, AuditEvent.START_REFUSED) == []


@pytest.mark.parametrize("attempt", [Attempt.NONE, Attempt.FORGED])
def test_a_handshake_lets_in_when_the_peers_approvals_are_not_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempt: Attempt
) -> None:
    trial = Trial(Party("bank", tmp_path / "bank"), Party("retailer", tmp_path / "retailer"), free_range())
    try:
        door = Door.of(trial)
        monkeypatch.setattr("parties.links.handshake.verify_all", nothing)
        attempted(door, attempt)
        assert door.let_in()
    finally:
        trial.close()
