"""A supervisor that is killed in the middle of an act: after the next start log, state and papers say the same."""

import os
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from parties.control.runs import RunState
from parties.home.documents import Documents
from parties.home.journal import Actor
from parties.home.people import create_person
from parties.home.policy import Policy, policy_text
from parties.home.private_files import write_private
from protocols.approval import Decision
from protocols.audit import AuditEvent, read, verify
from protocols.errors import AuditError, DiskFullError, FedaccordError
from protocols.request import ComputationRequest, digest
from tests.parties.control.offices import CALLER, EMAIL, Offices, copied, make_offices, running
from tests.parties.control.test_desk import Desk
from tests.waiting import PATIENCE, until

LEDGER = "parties.control.runs.Ledger."
PAPERS = "parties.home.documents.Documents."
BEFORE_THE_ENTRY = ("protocols.audit.write_entry", f"{PAPERS}begin")
AFTER_THE_ENTRY = (f"{PAPERS}add_decision", f"{PAPERS}settle")
WITHDRAWING = ("parties.control.tasks.TaskQueue.put", f"{LEDGER}revoke")
EVENTS = {
    Decision.APPROVE: AuditEvent.APPROVED,
    Decision.DENY: AuditEvent.DENIED,
    Decision.REVOKE: AuditEvent.REVOKED,
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Offices:
    return make_offices(tmp_path_factory.mktemp("offices"))


@pytest.fixture
def desk(template: Offices, tmp_path: Path) -> Desk:
    return Desk(copied(template, tmp_path))


def killed_in(place: str, work: Callable[[], object]) -> None:
    """Does the work in a process of its own that ends, without another word of it, where it comes to this function."""
    child = os.fork()
    if child == 0:
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(place, lambda *given, **named: os._exit(9))
                work()
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9, f"it never came to {place}"


def restarted(desk: Desk) -> Desk:
    again = Desk(desk.offices)
    again.decisions.reconcile()
    return again


def told(desk: Desk, request: ComputationRequest, what: Decision) -> tuple[RunState, int, int]:
    """State, entries and papers of such a decision."""
    papers = Documents(desk.offices.bank.folder).decisions(digest(request))
    entries = desk.decided(EVENTS[what])
    assert set(entries) <= {"ok"}
    assert not list((desk.offices.bank.folder / "approvals").rglob("deciding-*"))
    verify(desk.offices.bank.audit_path)
    return (
        desk.ledger.find(digest(request)).state,
        len(entries),
        sum(paper.decision is what for paper in papers),
    )


@pytest.mark.parametrize("place", BEFORE_THE_ENTRY)
def test_an_approval_without_its_entry_never_was(desk: Desk, place: str) -> None:
    request = desk.submitted()
    killed_in(place, lambda: desk.decide(request, Decision.APPROVE))
    again = restarted(desk)
    assert told(again, request, Decision.APPROVE) == (RunState.PENDING, 0, 0)
    assert again.decide(request, Decision.APPROVE).state is RunState.APPROVED


@pytest.mark.parametrize("place", [*AFTER_THE_ENTRY, f"{PAPERS}save_approval", f"{LEDGER}approve"])
def test_an_approval_with_its_entry_counts(desk: Desk, place: str) -> None:
    request = desk.submitted()
    killed_in(place, lambda: desk.decide(request, Decision.APPROVE))
    assert told(restarted(desk), request, Decision.APPROVE) == (RunState.APPROVED, 1, 1)


@pytest.mark.parametrize("what", [Decision.REVOKE, Decision.DENY])
@pytest.mark.parametrize("place", [*WITHDRAWING, BEFORE_THE_ENTRY[0], *AFTER_THE_ENTRY])
def test_what_ends_an_approved_request_is_carried_out_and_told_once(
    desk: Desk, place: str, what: Decision
) -> None:
    request = desk.submitted()
    desk.decide(request, Decision.APPROVE)
    killed_in(place, lambda: desk.decide(request, what))
    again = restarted(desk)
    assert told(again, request, what) == (RunState.REVOKED, 1, 1)
    assert again.stopped == [digest(request)]
    assert told(restarted(again), request, what) == (RunState.REVOKED, 1, 1)


@pytest.mark.parametrize("what", [Decision.REVOKE, Decision.DENY])
@pytest.mark.parametrize("place", WITHDRAWING)
def test_a_withdrawal_for_which_the_ledger_had_no_room_is_carried_out_at_the_next_start(
    desk: Desk, place: str, what: Decision, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object, **named: object) -> None:
        raise DiskFullError("the disk has no room for the ledger")

    request = desk.submitted()
    desk.decide(request, Decision.APPROVE)
    with monkeypatch.context() as patch:
        patch.setattr(place, full)
        with pytest.raises(DiskFullError):
            desk.decide(request, what)
    assert told(restarted(desk), request, what) == (RunState.REVOKED, 1, 1)


@pytest.mark.parametrize("place", [f"{LEDGER}note", WITHDRAWING[0], BEFORE_THE_ENTRY[0], *AFTER_THE_ENTRY])
def test_a_denial_of_a_pending_request_stands_against_the_approvals_of_others(desk: Desk, place: str) -> None:
    offices = desk.offices
    write_private(offices.bank.folder / "policy.toml", policy_text(Policy(reviewers=1)))
    create_person(
        offices.bank.folder, name="rev", role="reviewer", organisation="Board", passphrase=b"correct horse"
    )
    request = desk.submitted()
    killed_in(place, lambda: desk.decide(request, Decision.DENY))
    again = restarted(desk)
    assert told(again, request, Decision.DENY) == (RunState.PENDING, 1, 1)
    again.decisions.take(offices.decision(offices.bank, request, Decision.APPROVE, person="rev"))
    assert "owner decided to deny" in again.reception.overview.missing(digest(request))


@pytest.mark.parametrize("what", [Decision.REVOKE, Decision.DENY])
def test_what_could_not_be_logged_gets_its_entry_with_the_next_decision_or_start(
    desk: Desk, what: Decision, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = desk.submitted()
    with monkeypatch.context() as patch:
        patch.setattr("protocols.audit.write_entry", no_room)
        with pytest.raises(AuditError):
            desk.decide(request, what)
        with pytest.raises(AuditError):  # an approval can't pass over a denial that isn't in the log yet
            desk.decide(request, Decision.APPROVE, timedelta(seconds=1))
    end = RunState.REVOKED if what is Decision.REVOKE else RunState.PENDING
    if what is Decision.DENY:  # thought over meanwhile, by the same person
        desk.offices.clock.ahead += timedelta(seconds=2)
        end = desk.decide(request, Decision.APPROVE).state
        assert end is RunState.APPROVED
    assert told(restarted(desk), request, what) == (end, 1, 1)


def no_room(*given: object) -> None:
    raise AuditError("no room on the disk")


@pytest.mark.parametrize("place", ["protocols.audit.write_entry", f"{LEDGER}bind"])
def test_a_submission_cut_short_is_taken_in_when_it_is_brought_again(desk: Desk, place: str) -> None:
    request = desk.offices.request()
    killed_in(place, lambda: desk.reception.ingest(desk.offices.signed(request), CALLER, EMAIL))
    again = restarted(desk)
    again.reception.ingest(
        desk.offices.signed(request), CALLER, EMAIL
    )  # as the steward does after its own restart
    assert again.decide(request, Decision.APPROVE).state is RunState.APPROVED


@pytest.mark.parametrize(
    "place",
    [
        "protocols.audit.write_entry",
        "parties.control.runner.prepare_folder",
        "parties.control.runner.Workers.spawn",
    ],
)
def test_a_start_cut_short_costs_no_run(desk: Desk, place: str) -> None:
    offices = desk.offices
    request = desk.submitted()
    desk.decide(request, Decision.APPROVE)
    shop = offices.shop_approval(request)
    owner = Actor(who="owner", role="owner", organisation="Example Bank", origin="socket")
    killed_in(place, lambda: offices.supervisor()._runner.start(digest(request), shop, owner))
    with running(offices):
        assert offices.view(request)["state"] == "INTERRUPTED"
        assert offices.start(request)["ok"]
        view = offices.wait(request, "DONE")
    assert (view["run"], view["used"]) == (1, 1)
    verify(offices.bank.audit_path)


def test_what_cannot_be_deleted_does_not_keep_a_runs_end_out_of_the_log(
    template: Offices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*given: object) -> None:
        raise PermissionError("not ours any more")

    offices = copied(template, tmp_path)
    with running(offices, "vanish"):
        request = offices.approved()
        monkeypatch.setattr("parties.control.settling.delete_passing", refused)
        assert offices.start(request)["ok"]
        ended = AuditEvent.RUN_INTERRUPTED
        until(lambda: [each for each in read(offices.bank.audit_path) if each.event is ended], bool)
    assert "PermissionError" in capsys.readouterr().err


def test_of_decisions_at_the_same_moment_each_is_taken_and_one_countersigns(desk: Desk) -> None:
    offices = desk.offices
    write_private(offices.bank.folder / "policy.toml", policy_text(Policy(reviewers=3)))
    names = [f"rev{number}" for number in range(3)]
    for name in names:
        create_person(
            offices.bank.folder, name=name, role="reviewer", organisation="Board", passphrase=b"correct horse"
        )
    request = desk.submitted()
    signed = [
        offices.decision(offices.bank, request, Decision.APPROVE, person=name) for name in ("owner", *names)
    ]
    at_once([lambda text=text: desk.decisions.take(text) for text in signed])
    assert told(desk, request, Decision.APPROVE) == (RunState.APPROVED, 4, 4)
    assert desk.decided(AuditEvent.COUNTERSIGNED) == ["ok"]


def test_an_approval_and_a_revocation_at_the_same_moment_leave_it_revoked(desk: Desk) -> None:
    offices = desk.offices
    create_person(
        offices.bank.folder, name="rev", role="reviewer", organisation="Board", passphrase=b"correct horse"
    )
    request = desk.submitted()
    yes = offices.decision(offices.bank, request, Decision.APPROVE)
    no = offices.decision(offices.bank, request, Decision.REVOKE, person="rev")
    refused = at_once([lambda: desk.decisions.take(yes), lambda: desk.decisions.take(no)])
    assert {type(error).__name__ for error in refused} <= {"RevokedRun"}  # the approval, when it came second
    state, entries, papers = told(desk, request, Decision.REVOKE)
    assert (state, entries, papers) == (RunState.REVOKED, 1, 1)


def at_once(work: list[Callable[[], object]]) -> list[FedaccordError]:
    """Does all of it at the same moment; the errors of those that were refused."""
    start, refused = threading.Barrier(len(work)), []

    def one(each: Callable[[], object]) -> None:
        start.wait(PATIENCE)
        try:
            each()
        except FedaccordError as error:
            refused.append(error)

    threads = [threading.Thread(target=one, args=(each,)) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return refused
