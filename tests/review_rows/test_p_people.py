"""Accounts, people and peers come and go, each with an entry in the log; who has gone decides and asks no more."""

import json
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from parties.control.logins import FAILURES, Logins
from parties.home.journal import Journal
from parties.home.policy import Policy, policy_text
from parties.home.private_files import write_private
from parties.home.state import init_party
from protocols.approval import Decision
from protocols.audit import AuditEvent, AuditLog, Entry
from protocols.errors import ConfigError
from protocols.request import digest
from tests.parties.commands.town import bad, good
from tests.parties.control.offices import EMAIL, Clock, Offices, introduce, make_offices


@pytest.fixture
def offices(tmp_path: Path) -> Iterator[Offices]:
    before = os.umask(0o077)  # as `serve` does
    try:
        yield make_offices(tmp_path)
    finally:
        os.umask(before)


def log(offices: Offices) -> list[Entry]:
    return list(AuditLog(offices.bank.audit_path, "bank").entries())


def test_P2_a_removed_person_counts_no_more(offices: Offices) -> None:
    """Two owners are asked for; one approves and goes; the other's approval alone isn't enough."""
    bank = offices.bank
    write_private(bank.folder / "policy.toml", policy_text(Policy(owners=2)))
    password = bank.folder.parent / "passphrase"
    password.write_text("correct horse")
    for name in ("second", "third"):
        words = ("--role", "owner", "--passphrase-file", password, "-s", bank.folder)
        good("person", "add", name, *words)
    supervisor = offices.supervisor()
    supervisor.start()
    try:
        offices.ask("add_user", name="ana", email=EMAIL)
        request = offices.submitted(minimum_overlap=50)
        approve = Decision.APPROVE
        assert offices.ask("decide", decision=offices.decision(bank, request, approve))["state"] == "PENDING"
        signed = offices.decision(bank, request, approve, person="second")
        assert "no longer counts" in good("person", "remove", "owner", "-s", bank.folder).out
        answer = offices.ask("decide", decision=signed)
        assert (answer["state"], answer["missing"]) == ("PENDING", ["1 more owner must approve"])
        by_third = offices.decision(bank, request, approve, person="third")
        assert offices.ask("decide", decision=by_third)["state"] == "APPROVED"
        said = good("person", "remove", "third", "-s", bank.folder).out
        assert "policy.toml asks for 2 owners, there are 1" in said
        refused = offices.start(request)
        assert (refused["error"], refused["state"]) == ("not_approved", "APPROVED")
    finally:
        supervisor.stop()
    assert not (bank.folder / "keys" / "people" / "owner.pem").exists()
    removed = [entry.object for entry in log(offices) if entry.event is AuditEvent.PERSON_REMOVED]
    assert removed == ["person owner", "person third"]
    assert "is the last owner" in bad("person", "remove", "second", "-s", bank.folder)
    assert "not one of our people" in bad("person", "remove", "nobody", "-s", bank.folder)


def test_P2_a_removed_account_asks_for_nothing(offices: Offices, tmp_path: Path) -> None:
    supervisor = offices.supervisor("steps")
    supervisor.start()
    bank = offices.bank.folder
    try:
        offices.ask("add_user", name="ana", email=EMAIL)
        request = offices.approved()
        assert "ana@lab.example.org" in good("user", "list", "-s", bank).out
        assert "has an account here" in bad("peer", "remove", "ana", "-s", bank)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("parties.commands.owner.USER_SECONDS", 0.0)
            out = tmp_path / "login.json"
            assert "has a new password" in good("user", "reset", "ana", "--out", out, "-s", bank).out
            login = json.loads(out.read_text())
            assert (login["party"], login["email"]) == ("bank", EMAIL)
            assert len(login["password"]) >= 20
            assert "exists already" in bad("user", "reset", "ana", "--out", out, "-s", bank)
            assert offices.start(request)["ok"], "the account still asks"
            said = good("user", "remove", "ana", "-s", bank).out
            assert f"UNDER WAY: {digest(request)[:12]}" in said
            for call in ("status", "cancel", "result", "start"):
                refused = offices.shim(request, call)
                assert (refused["ok"], refused["error"]) == (False, "request"), call
            again = offices.ask("ingest", signed=offices.signed(request), caller="e" * 64, email=EMAIL)
            assert again["ok"] is False
            assert "has no account" in bad("user", "remove", "ana", "-s", bank)
        assert good("user", "list", "-s", bank).out == "no accounts yet\n"
        kinds = [task["kind"] for task in tasks(offices)]
        assert kinds[:1] == ["add_user"]
        assert kinds[-2:] == ["reset_user", "remove_user"]
    finally:
        supervisor.stop()
    events = [entry.event for entry in log(offices) if entry.object == "analyst ana"]
    assert events[-3:] == [AuditEvent.USER_ADDED, AuditEvent.USER_CHANGED, AuditEvent.USER_REMOVED]
    assert login["password"] not in offices.bank.audit_path.read_text()


def tasks(offices: Offices) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    while True:
        task = offices.ask("next_task", timeout=0.01)["task"]
        if not isinstance(task, dict):
            return found
        found.append(task)


def test_P2_a_removed_peer_is_refused(offices: Offices) -> None:
    supervisor = offices.supervisor()
    supervisor.start()
    try:
        offices.ask("add_user", name="ana", email=EMAIL)
        request = offices.approved()
        assert "party shop is out" in good("peer", "remove", "shop", "-s", offices.bank.folder).out
        assert offices.start(request)["error"] == "roster"
        other = offices.request(nonce="1" * 32)
        answer = offices.ask("ingest", signed=offices.signed(other), caller="e" * 64, email=EMAIL)
        assert answer["error"] == "roster"
        introduce(offices.bank, offices.shop)
        assert offices.start(request)["ok"]
    finally:
        supervisor.stop()
    removed = [entry for entry in log(offices) if entry.event is AuditEvent.PEER_REMOVED]
    assert [entry.object for entry in removed] == ["party shop"]
    assert "there are ana" in bad("peer", "remove", "nobody", "-s", offices.bank.folder)


def test_P2_logins_are_logged_and_guesses_do_not_fill_the_log(tmp_path: Path) -> None:
    state = init_party(tmp_path / "bank", name="bank", organisation="Bank", port=1)
    clock = Clock()
    logins = Logins(state, Journal(state, clock), lambda: {"ana": EMAIL}, clock)
    logins.note(EMAIL, True)
    logins.note(state.root_email, True)
    for _ in range(FAILURES + 7):
        logins.note("my secret password", False)
    clock.ahead += timedelta(minutes=2)
    logins.note(EMAIL, False)
    entries = list(AuditLog(state.audit_path, "bank").entries())
    assert [(e.who, e.result.value) for e in entries[:3]] == [
        ("ana", "ok"),
        ("steward", "ok"),
        ("unknown account", "refused"),
    ]
    assert len(entries) == 2 + FAILURES + 1
    assert "7 more were left out" in str(dict(entries[-1].detail)["reason"])
    assert entries[-1].who == "ana"
    assert "secret" not in state.audit_path.read_text()


def test_P2_an_unknown_person_can_not_be_removed_twice(tmp_path: Path) -> None:
    from parties.home.people import remove_person

    state = init_party(tmp_path / "bank", name="bank", organisation="Bank", port=1)
    with pytest.raises(ConfigError, match="last owner"):
        remove_person(state.folder, "owner")
