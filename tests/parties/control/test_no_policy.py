"""A policy that can't be read: nothing is approved or started by it, and all else goes on."""

from collections.abc import Callable
from pathlib import Path

import pytest

from parties.control.overview import NOT_IN_FORCE
from parties.home.private_files import read_toml, write_private
from parties.home.state import POLICY_SEEN
from parties.roles.reviewing import page
from protocols.approval import Decision
from protocols.audit import AuditEvent, AuditLog
from protocols.request import digest
from tests.parties.control.offices import Offices, make_offices, running


@pytest.fixture
def offices(tmp_path: Path) -> Offices:
    return make_offices(tmp_path)


BROKEN: dict[str, Callable[[str], str]] = {
    "cut short": lambda text: text[: text.index("purposes = [") + len("purposes = [")],
    "empty": lambda text: "",
    "of an earlier release": lambda text: text.replace("purposes = []", ""),
    "out of bounds": lambda text: text.replace("owners = 1", "owners = 0"),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_without_a_policy_requests_are_read_and_revoked_and_nothing_else(
    offices: Offices, broken: str
) -> None:
    path = offices.bank.folder / "policy.toml"
    whole = path.read_text()
    with running(offices):
        approved, waiting = offices.approved(), offices.submitted(public_seed=2)
        write_private(path, BROKEN[broken](whole))
        listed = offices.ask("requests")["requests"]
        assert {row["purpose"] for row in listed} == {"a test"}
        assert [row["missing"] for row in listed if row["digest"] == digest(waiting)] == [[NOT_IN_FORCE]]
        assert "NO POLICY IS IN FORCE, nothing can be approved" in page(offices.bank, digest(waiting)).text()
        wish = offices.decision(offices.bank, waiting, Decision.APPROVE)
        assert offices.ask("decide", decision=wish)["error"] == "config"
        assert offices.start(approved)["error"] == "config"
        wish = offices.decision(offices.bank, approved, Decision.REVOKE)
        assert offices.ask("decide", decision=wish)["state"] == "REVOKED"
        wish = offices.decision(offices.bank, waiting, Decision.DENY)
        assert offices.ask("decide", decision=wish)["missing"] == [NOT_IN_FORCE]
        write_private(path, whole)
        wish = offices.decision(offices.bank, waiting, Decision.APPROVE)
        assert offices.ask("decide", decision=wish)["state"] == "APPROVED"


def test_the_last_policy_of_an_earlier_release_stops_nobody(offices: Offices) -> None:
    """It can't be compared: the log then says that all rules changed."""
    seen = offices.bank.folder / POLICY_SEEN
    write_private(seen, seen.read_text().replace("purposes = []", ""))
    with running(offices):
        assert offices.submitted()
    changes = [
        e for e in AuditLog(offices.bank.audit_path, "bank").entries() if e.event is AuditEvent.CONFIG_CHANGED
    ]
    assert dict(changes[-1].detail)["rules"] == "all"
    assert read_toml(seen) == read_toml(offices.bank.folder / "policy.toml")
