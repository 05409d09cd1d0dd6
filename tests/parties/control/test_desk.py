"""The party's own desk: the order in which decisions come, their dates, damaged papers, strange submissions."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from parties.control.decisions import Decisions
from parties.control.reception import Reception
from parties.control.runs import Ledger, RequestRow, RunState
from parties.control.tasks import TaskQueue
from parties.home.accounts import Accounts
from parties.home.documents import Documents
from parties.home.journal import Journal
from parties.home.policy_watch import WatchedPolicy
from parties.home.private_files import write_json, write_private
from protocols.approval import Decision, parse_decision
from protocols.audit import AuditEvent
from protocols.errors import ApprovalError, FedaccordError, StateError
from protocols.request import ComputationRequest, digest
from tests.parties.control.offices import CALLER, COMMITMENT, EMAIL, Offices, copied, make_offices


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Offices:
    return make_offices(tmp_path_factory.mktemp("offices"))


class Desk:
    """The bank's reception and its people's decisions, without a socket."""

    def __init__(self, offices: Offices) -> None:
        self.offices, state = offices, offices.bank
        self.ledger, tasks = Ledger(state.ledger_path), TaskQueue(state.ledger_path)
        self.journal = Journal(state, offices.clock)
        write_json(state.folder / "users.json", {"ana": EMAIL})
        self.stopped: list[str] = []
        self.reception = Reception(
            state,
            ledger=self.ledger,
            tasks=tasks,
            journal=self.journal,
            policy=WatchedPolicy(state, self.journal),
            current_block=lambda name: (1, COMMITMENT),
            accounts=Accounts(state, tasks=tasks, journal=self.journal),
            now=offices.clock,
        )
        self.decisions = Decisions(
            state,
            ledger=self.ledger,
            tasks=tasks,
            journal=self.journal,
            policy=WatchedPolicy(state, self.journal),
            key=state.signing_key(),
            overview=self.reception.overview,
            stop=lambda request, reason: self.stopped.append(request),
            now=offices.clock,
        )

    def submitted(self, **changes: object) -> ComputationRequest:
        request = self.offices.request(**changes)
        self.reception.ingest(self.offices.signed(request), CALLER, EMAIL)
        return request

    def decision(self, request: ComputationRequest, what: Decision, ahead: timedelta = timedelta()) -> str:
        """The owner's decision, dated `ahead` of the bank's clock."""
        self.offices.clock.ahead += ahead
        try:
            return self.offices.decision(self.offices.bank, request, what, reason="because")
        finally:
            self.offices.clock.ahead -= ahead

    def decide(
        self, request: ComputationRequest, what: Decision, ahead: timedelta = timedelta()
    ) -> RequestRow:
        self.decisions.take(self.decision(request, what, ahead))
        return self.ledger.find(digest(request))

    def decided(self, event: AuditEvent) -> list[str]:
        return [entry.result.value for entry in self.journal.log.entries() if entry.event is event]

    def paper(self, request: ComputationRequest) -> Path:
        return self.offices.bank.folder / "requests" / f"{digest(request)}.json"


@pytest.fixture
def desk(template: Offices, tmp_path: Path) -> Desk:
    return Desk(copied(template, tmp_path))


@pytest.mark.parametrize("ahead", [timedelta(seconds=20), timedelta(minutes=4), timedelta(days=365 * 70)])
@pytest.mark.parametrize("what", [Decision.APPROVE, Decision.DENY])
def test_a_decision_dated_ahead_is_refused_and_leaves_nothing(
    desk: Desk, what: Decision, ahead: timedelta
) -> None:
    request = desk.submitted()
    with pytest.raises(ApprovalError, match="ahead of this party's clock"):
        desk.decide(request, what, ahead)
    event = AuditEvent.APPROVED if what is Decision.APPROVE else AuditEvent.DENIED
    assert desk.decided(event) == ["refused"]
    assert desk.decide(request, Decision.APPROVE).state is RunState.APPROVED, "the request isn't blocked"


def test_a_revocation_counts_whatever_its_date(desk: Desk) -> None:
    request = desk.submitted()
    desk.decide(request, Decision.APPROVE)
    assert desk.decide(request, Decision.REVOKE, timedelta(days=9)).state is RunState.REVOKED
    assert desk.stopped == [digest(request)]


def test_a_denial_that_came_later_wins_over_an_approval_with_a_later_date(desk: Desk) -> None:
    request = desk.submitted()
    early = desk.decision(request, Decision.APPROVE)
    documents = Documents(desk.offices.bank.folder)
    ahead = parse_decision(desk.decision(request, Decision.APPROVE, timedelta(minutes=4)))
    documents.add_decision(ahead)  # as a supervisor of before would have kept it
    assert desk.decide(request, Decision.DENY).state is RunState.PENDING
    assert "owner decided to deny" in desk.reception.overview.missing(digest(request))
    with pytest.raises(ApprovalError, match="dated before your last decision"):
        desk.decisions.take(early)
    desk.decisions.reconcile()
    assert desk.ledger.find(digest(request)).state is RunState.PENDING


def test_an_old_approval_can_not_come_again_after_a_denial(desk: Desk) -> None:
    request = desk.submitted()
    old = desk.decision(request, Decision.APPROVE)
    desk.decide(request, Decision.DENY)
    with pytest.raises(ApprovalError, match="dated before your last decision"):
        desk.decisions.take(old)
    assert desk.decided(AuditEvent.APPROVED) == ["refused"]
    assert desk.decide(request, Decision.APPROVE).state is RunState.APPROVED


def test_an_approval_that_can_not_be_countersigned_is_not_kept(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = desk.submitted()

    def refuse(*arguments: object) -> None:
        raise ApprovalError("no")

    with monkeypatch.context() as patch:
        patch.setattr("parties.control.decisions.countersign", refuse)
        with pytest.raises(ApprovalError):
            desk.decide(request, Decision.APPROVE)
    assert Documents(desk.offices.bank.folder).decisions(digest(request)) == ()
    assert desk.decided(AuditEvent.APPROVED) == ["refused"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", None])
def test_one_damaged_request_leaves_the_others_alone(
    desk: Desk, content: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, good = desk.submitted(), desk.submitted(nonce="1" * 32)
    if content is None:
        desk.paper(bad).unlink()
    else:
        write_private(desk.paper(bad), content)
    lines = {line["digest"]: line for line in desk.reception.overview.listing()["requests"]}  # type: ignore[attr-defined]
    assert lines[digest(bad)]["purpose"] == "damaged"
    assert digest(bad)[:12] in lines[digest(bad)]["damaged"]
    assert lines[digest(good)]["missing"] == ["1 more owner must approve"]
    assert desk.decide(good, Decision.REVOKE).state is RunState.REVOKED
    desk.decisions.reconcile()
    warned = capsys.readouterr().err
    assert f"WARNING: request {digest(bad)} stays as it is" in warned
    if content is not None:
        assert desk.paper(bad).name in lines[digest(bad)]["damaged"]
        assert desk.paper(bad).name in warned


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff"])
def test_a_damaged_decision_or_approval_names_its_file(desk: Desk, content: bytes) -> None:
    request = desk.submitted()
    desk.decide(request, Decision.APPROVE)
    folder = desk.offices.bank.folder / "approvals" / digest(request)
    for name in ("0001.json", "approval.json"):
        write_private(folder / name, content)
    documents = Documents(desk.offices.bank.folder)
    with pytest.raises(StateError, match=r"0001\.json is damaged"):
        documents.decisions(digest(request))
    with pytest.raises(StateError, match=r"approval\.json is damaged"):
        documents.approval(digest(request))
    assert desk.decide(request, Decision.REVOKE).state is RunState.REVOKED, "a revocation doesn't need them"


def test_a_removed_decision_is_not_written_over(desk: Desk) -> None:
    request = desk.submitted()
    for what in (Decision.DENY, Decision.DENY):
        desk.decide(request, what)
    folder = desk.offices.bank.folder / "approvals" / digest(request)
    (folder / "0001.json").unlink()
    desk.decide(request, Decision.DENY)
    assert sorted(path.name for path in folder.iterdir()) == ["0002.json", "0003.json"]


@pytest.mark.parametrize("strange", ["a\nb\x00c", " x ", "\u202eevil", "\ud800", "y" * 5000, "\n", ""])
def test_foreign_code_with_strange_names_is_logged(desk: Desk, strange: str) -> None:
    desk.reception.foreign.add(strange, CALLER, strange, [strange], [strange], strange)
    assert desk.decided(AuditEvent.SUBMITTED) == ["refused"]
    shown = json.dumps(desk.reception.overview.listing()["foreign"], ensure_ascii=False)
    assert shown.encode().decode().isprintable()
    assert "\\" not in shown, "nothing had to be escaped"


def test_a_submission_with_a_strange_address_is_logged(desk: Desk) -> None:
    with pytest.raises(FedaccordError):
        desk.reception.ingest("{}", CALLER, "a\n" + "b" * 500)
    assert desk.decided(AuditEvent.SUBMITTED) == ["refused"]
