"""Two consoles of one party at once, and a supervisor that goes and comes while somebody is logged in."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from parties.console.app import console
from parties.console.entrance import Entrance
from protocols.audit import AuditEvent, verify
from protocols.request import digest
from tests.parties.console.browsing import PORT, House, Visitor, house
from tests.parties.control.offices import make_offices


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[House]:
    with house(make_offices(tmp_path)) as found, pytest.MonkeyPatch.context() as patch:
        patch.setattr("parties.console.views.WAIT", 0.1)  # no syft is there to follow a decision
        yield found


def elsewhere(bank: House) -> Visitor:
    """The same person's browser at another console of the party, at the next port."""
    port = PORT + 1
    entrance = Entrance.of(bank.offices.bank, port, clock=bank.clock, now=bank.offices.clock)
    at = f"http://127.0.0.1:{port}"
    visitor = Visitor(TestClient(console(entrance, port), base_url=at, follow_redirects=False))
    assert visitor.log_in("owner").status_code == 303
    return visitor


def test_of_two_consoles_each_has_sessions_of_its_own_and_a_decision_counts_once(bank: House) -> None:
    here, there = bank.logged_in(), elsewhere(bank)
    request = bank.offices.submitted()
    path = f"/requests/{digest(request)}"
    token = there.csrf()
    page = there.get(path).text
    assert f"{path}/approve" in page
    assert here.form(path, f"{path}/approve", reason="checked").status_code == 303
    stale = there.client.post(f"{path}/approve", data={"csrf": token, "reason": "checked too"})
    assert stale.status_code == 303
    assert "owner has approved already" in there.get(path).text
    assert [entry.result.value for entry in bank.log(AuditEvent.APPROVED)] == ["ok"]
    foreign = there.client.post(f"{path}/revoke", data={"csrf": here.csrf(), "reason": "x"})
    assert foreign.status_code == 403, "a token of the other console's session"
    here.client.post("/logout", data={"csrf": here.csrf()})
    assert there.get(path).status_code == 200
    verify(bank.offices.bank.audit_path)


def test_a_session_outlasts_its_supervisor_and_nothing_is_decided_meanwhile(bank: House) -> None:
    visitor, request = bank.logged_in(), bank.offices.submitted()
    path, token = f"/requests/{digest(request)}", visitor.csrf()
    bank.supervisor.stop()
    bank.supervisor.stop = lambda: None  # the house's own end has nothing left to do
    answer = visitor.client.post(f"{path}/approve", data={"csrf": token, "reason": "checked"})
    assert (answer.status_code, "no supervisor runs" in answer.text) == (409, True)
    assert "fedaccord serve" in answer.text
    for there in ("/requests", path, "/runs"):
        assert visitor.get(there).status_code == 409, there
    for there in ("/blocks", "/models", "/log", "/policy"):
        assert visitor.get(there).status_code == 200, there
    assert bank.log(AuditEvent.APPROVED) == []
    again = bank.offices.supervisor()
    again.start()
    try:
        assert visitor.form(path, f"{path}/approve", reason="checked").status_code == 303
        assert bank.offices.view(request)["state"] == "APPROVED"
    finally:
        again.stop()
