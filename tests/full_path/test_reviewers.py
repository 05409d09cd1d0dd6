"""Who may approve: each owner for its own data and two reviewers of two organisations (AC-21)."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from parties.control.asking import Refusal, ask
from parties.home.people import Person
from parties.home.people import add_person as note_person
from parties.home.policy import policy_text, read_policy
from parties.home.private_files import write_private
from parties.roles.owner import add_person
from parties.roles.reviewing import page, record
from protocols.approval import Decision, Role, decide, decision_text
from protocols.audit import AuditEvent
from protocols.errors import NotApprovedError
from protocols.request import ComputationRequest
from protocols.request import digest as request_digest
from tests.full_path.lab import BANK, ENDLESS, PARTIES, RETAILER, Lab, until

pytestmark = pytest.mark.syft
REVIEWERS = {BANK: ("rev1", "Example Bank"), RETAILER: ("rev2", "Example Retailer")}


@pytest.fixture
def two_reviewers(lab: Lab) -> Iterator[None]:
    """Both parties ask for one reviewer of their own and for two of two organisations over all."""
    paths = {name: lab.states[name].folder / "policy.toml" for name in PARTIES}
    before = {name: path.read_text() for name, path in paths.items()}
    for name, path in paths.items():
        person, organisation = REVIEWERS[name]
        add_person(lab.states[name], name=person, role="reviewer", organisation=organisation, passphrase=None)
        wanted = replace(read_policy(path.parent), reviewers=1, joint_reviewers=2, joint_organisations=2)
        write_private(path, policy_text(wanted))
    try:
        yield
    finally:
        for name, path in paths.items():
            write_private(path, before[name])


def review(lab: Lab, name: str, request: ComputationRequest, decision: Decision) -> None:
    record(
        lab.states[name],
        request_digest(request),
        person=REVIEWERS[name][0],
        decision=decision,
        reason="a test",
        passphrase=None,
    )


def by_the_analyst(lab: Lab, request: ComputationRequest) -> str:
    """An approval by the analyst, who has become one of the bank's reviewers too."""
    key, now = lab.ana.signing_key(), datetime.now(UTC)
    person = Person(name="ana", role="reviewer", organisation="Example Bank", key=request.analyst.key)
    note_person(lab.states[BANK].folder, person)
    decided = decide(
        digest=request_digest(request),
        party=BANK,
        person=person.name,
        role=Role.REVIEWER,
        organisation=person.organisation,
        decision=Decision.APPROVE,
        reason="mine",
        key=key,
        now=now,
    )
    return decision_text(decided)


def test_AC21_two_reviewers_of_two_organisations_and_each_owner(lab: Lab, two_reviewers: None) -> None:
    request = lab.draft(ENDLESS)
    digest = request_digest(request)
    lab.submit(request)
    for name in PARTIES:
        lab.decide(name, request, Decision.APPROVE)
    with pytest.raises(Refusal, match="is the analyst of the request"):
        ask(lab.states[BANK].folder, "decide", decision=by_the_analyst(lab, request))
    review(lab, BANK, request, Decision.APPROVE)
    assert [lab.view(name, request)["state"] for name in PARTIES] == ["APPROVED", "PENDING"]
    assert "missing: 1 more reviewer must approve" in page(lab.states[RETAILER], digest).text()
    lab.known_in_syft(request, BANK)
    own = str(lab.sites[BANK].call(digest, "status", "-1")["approval"])
    assert lab.sites[BANK].call(digest, "start", own)["error"] == "not_approved"
    assert lab.sites[RETAILER].call(digest, "start", own)["error"] == "not_approved"
    for name in PARTIES:
        with pytest.raises((Refusal, NotApprovedError)):
            ask(lab.states[name].folder, "start", digest=digest, approvals=own)
        assert set(lab.refusals(name, request)) == {"not_approved"}
    review(lab, RETAILER, request, Decision.APPROVE)
    lab.known_in_syft(request, RETAILER)
    other = lab.draft(
        ENDLESS, code_digest=request.code_digest[:-1] + ("0" if request.code_digest[-1] != "0" else "1")
    )
    lab.submit(other)
    assert [lab.view(name, other)["state"] for name in PARTIES] == ["PENDING", "PENDING"]
    lab.start(request)
    lab.at_step(request, 20)
    review(lab, RETAILER, request, Decision.DENY)
    for name in PARTIES:
        assert lab.ended(name, request)["state"] == "REVOKED"
        mark = lab.run_folder(name, request) / "withdrawn.json"
        until(mark.exists, bool)
        assert json.loads(mark.read_text())["mark"] == "consent withdrawn by retailer"
        assert json.loads(mark.read_text())["step"] >= 20
    assert AuditEvent.DENIED.value in lab.events(RETAILER, request)
