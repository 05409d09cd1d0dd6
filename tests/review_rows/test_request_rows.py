"""Rows R1 to R4, R7, R12 to R15 of the review list: what a policy makes of a request, over a real supervisor."""

from dataclasses import replace
from datetime import timedelta

import pytest

from parties.home.checklist import Question, parse_answer, with_answers
from parties.home.people import add_person, create_person
from parties.home.policy import Policy, policy_text
from parties.home.private_files import write_private
from parties.home.use_rules import Columns, Requirement, UseRules, forbidden
from parties.roles.reviewing import listing, page
from protocols.approval import Decision
from protocols.audit import AuditEvent, AuditLog, Entry
from protocols.errors import ApprovalError, RequestError
from protocols.request import ComputationRequest, Release, digest
from tests.parties.control.offices import CALLER, EMAIL, Offices, running
from tests.waiting import until


def rule(offices: Offices, policy: Policy) -> None:
    """The bank's owner edits policy.toml."""
    write_private(offices.bank.folder / "policy.toml", policy_text(policy))


def submit(offices: Offices, request: ComputationRequest) -> dict[str, object]:
    return offices.ask("ingest", signed=offices.signed(request), caller=CALLER, email=EMAIL)


def logged(offices: Offices, event: AuditEvent) -> list[Entry]:
    return [entry for entry in AuditLog(offices.bank.audit_path, "bank").entries() if entry.event is event]


def details(entry: Entry) -> dict[str, object]:
    return dict(entry.detail)


def test_R1_a_request_without_an_agreed_purpose_is_refused(offices: Offices) -> None:
    rule(offices, Policy(uses=UseRules(purposes=("churn", "credit risk"))))
    with running(offices):
        answer = submit(offices, offices.request(purpose="curiosity", purpose_text="a good reason"))
        assert (answer["ok"], answer["error"]) == (False, "policy")
        assert "'curiosity' is not one that we agreed to (churn, credit risk)" in str(answer["message"])
        listed = offices.ask("requests")
        assert listed["requests"] == []
        (entry,) = listed["refused"]  # type: ignore[misc]
        assert entry["digest"] == digest(offices.request(purpose="curiosity", purpose_text="a good reason"))
        text = listing(listed)
        assert "REFUSED     ana (ana@lab.example.org)" in text
        assert (
            "refused by policy: purpose 'curiosity' is not one that we agreed to (churn, credit risk); "
            "ask with a request that keeps to that" in text
        )
        assert submit(offices, offices.request(purpose="churn", purpose_text="a good reason"))["ok"]
    (refused, taken) = logged(offices, AuditEvent.SUBMITTED)
    assert (refused.result, taken.result) == ("refused", "ok")


def test_R1_a_request_has_a_purpose(offices: Offices) -> None:
    with pytest.raises(RequestError, match="purpose"):
        offices.request(purpose="")


def test_R3_a_column_that_is_never_used_blocks_whoever_approves(offices: Offices) -> None:
    never = UseRules(never_used=(Columns(block="customers", columns=("income",)),))
    with running(offices):
        before = offices.approved()
        rule(offices, Policy(uses=never))
        answer = submit(offices, offices.request(nonce="1" * 32))
        assert (answer["error"], "income of customers is never used" in str(answer["message"])) == (
            "policy",
            True,
        )
        started = offices.start(
            before
        )  # approved under the old policy, and yet not startable under the new one
        assert started["error"] == "not_approved"
        assert submit(offices, offices.request(blocks=(replace(before.blocks[0], columns=("age",)),)))["ok"]


@pytest.mark.parametrize("field", ["label", "key"])
def test_R3_a_label_or_key_column_is_used_too(offices: Offices, field: str) -> None:
    request = offices.request()
    name = {"label": request.blocks[0].label, "key": request.blocks[0].subject_key}[field]
    rules = UseRules(never_used=(Columns(block="customers", columns=(name,)),))
    assert forbidden(rules, request, "active") == (f"column {name} of customers is never used",)
    assert forbidden(rules, request, "passive") == ()


def test_R3_a_column_outside_the_purposes_list_blocks(offices: Offices) -> None:
    rules = UseRules(
        allowed=(
            Columns(block="customers", columns=("income", "churned"), purpose="a test"),
            Columns(block="customers", columns=("nothing",), purpose="something else"),
        )
    )
    request = offices.request()
    assert forbidden(rules, request, "active") == ()
    wider = replace(request, blocks=(replace(request.blocks[0], columns=("income", "birth_date")),))
    assert forbidden(rules, wider, "active") == (
        "column birth_date of customers is not one for the purpose a test",
    )
    rule(offices, Policy(uses=rules))
    with running(offices):
        assert submit(offices, wider)["error"] == "policy"
        assert submit(offices, request)["ok"]


def test_R4_a_changed_character_of_the_code_is_a_new_request(offices: Offices) -> None:
    with running(offices):
        approved = offices.approved()
        other = replace(approved, code_digest="e" + approved.code_digest[1:])
        assert digest(other) != digest(approved)
        assert submit(offices, other)["state"] == "PENDING"
        assert offices.start(approved)["ok"]
        assert offices.start(other)["error"] == "not_approved"


def test_R7_the_stricter_party_wins(offices: Offices) -> None:
    """The bank wants 10 people, the shop 5: a request for 5 passes at the shop and nowhere else."""
    rule(offices, Policy(minimum_group=10))
    write_private(offices.shop.folder / "policy.toml", policy_text(Policy(minimum_group=5)))
    with running(offices):
        lax = offices.submitted(minimum_group=5)
        offices.shop_approval(lax)
        refused = offices.ask("decide", decision=offices.decision(offices.bank, lax, Decision.APPROVE))
        assert "minimum_group is 5, our policy asks for at least 10" in str(refused["message"])
        assert offices.start(lax)["error"] == "not_approved"
        assert offices.approved(minimum_group=10, nonce="1" * 32).minimum_group == 10


@pytest.mark.parametrize(
    ("required", "value", "passes"),
    [
        (Requirement(computation="vertical.test", setting="views", exact=0), 0, True),
        (Requirement(computation="vertical.test", setting="views", exact=0), 4, False),
        (Requirement(computation="vertical.test", setting="views", exact=0), False, False),
        (Requirement(computation="vertical.test", setting="views", least=0.5), 0.5, True),
        (Requirement(computation="vertical.test", setting="views", least=0.5), 0.4, False),
        (Requirement(computation="vertical.test", setting="views", least=0.5), "0.9", False),
        (Requirement(computation="vertical.test", setting="views", most=3), 4, False),
        (
            Requirement(computation="vertical.test", setting="other", exact=0),
            0,
            False,
        ),  # the setting isn't there
        (Requirement(computation="vertical.other", setting="views", exact=0), 4, True),
    ],
)
def test_R7_required_settings(offices: Offices, required: Requirement, value: object, passes: bool) -> None:
    request = offices.request(parameters=(("views", value),))
    assert (forbidden(UseRules(require=(required,)), request, "active") == ()) is passes


def test_R7_required_settings_hold_at_submission(offices: Offices) -> None:
    required = Requirement(computation="vertical.test", setting="noise", least=0.1)
    rule(offices, Policy(uses=UseRules(require=(required,))))
    with running(offices):
        answer = submit(offices, offices.request(parameters=(("noise", 0.0),)))
        assert "noise must be at least 0.1" in str(answer["message"])
        assert submit(offices, offices.request(parameters=(("noise", 0.2),)))["ok"]


def test_R7_who_may_ask_and_who_may_receive(offices: Offices) -> None:
    line = Release(
        kind="Views", sender="active", receiver="passive", shapes=(), repetitions=1, max_bytes=9, learns="x"
    )
    request = offices.request(manifest=(line,))
    assert forbidden(UseRules(analysts=("ana",), may_receive=("shop",)), request, "active") == ()
    assert forbidden(UseRules(analysts=("eve",)), request, "active") == (
        "analyst ana is not one who may ask us",
    )
    (text,) = forbidden(UseRules(may_receive=("clinic",)), request, "active")
    assert text.startswith("shop would get messages of ours")
    assert forbidden(UseRules(may_receive=("clinic",)), request, "passive") == ()  # it sends nothing


def test_a_changed_policy_is_logged_before_it_is_used(offices: Offices) -> None:
    with running(offices):
        assert logged(offices, AuditEvent.CONFIG_CHANGED) == []
        rule(offices, Policy(max_days=30, uses=UseRules(purposes=("a test",))))
        offices.submitted()
        offices.submitted(nonce="1" * 32)
        (entry,) = logged(offices, AuditEvent.CONFIG_CHANGED)
        assert (entry.who, entry.object) == ("owner", "policy")
        assert details(entry)["rules"] == "max_days, purposes"
        assert details(entry)["before"] == Policy().version != details(entry)["after"]
    with running(offices):  # a restart knows which one was the last
        assert len(logged(offices, AuditEvent.CONFIG_CHANGED)) == 1


def test_R12_owner_and_two_people_of_two_organisations(offices: Offices) -> None:
    """AC-21 at the bank: its owner and one reviewer are not enough for a policy of two over all parties."""
    folder = offices.bank.folder
    create_person(
        folder, name="rev1", role="reviewer", organisation="Example Bank", passphrase=b"correct horse"
    )
    rule(offices, Policy(reviewers=1, joint_reviewers=2, joint_organisations=2))
    with running(offices):
        request = offices.submitted()
        offices.ask("decide", decision=offices.decision(offices.bank, request, Decision.APPROVE))
        assert offices.view(request)["missing"] == ["1 more reviewer must approve"]
        assert offices.start(request)["error"] == "not_approved"
        second = offices.decision(offices.bank, request, Decision.APPROVE, person="rev1")
        assert offices.ask("decide", decision=second)["state"] == "APPROVED"
        refused = offices.start(request)  # the shop's approval has no reviewer in it
        assert refused["error"] == "not_approved"
    assert logged(offices, AuditEvent.START_REFUSED)[-1].result == "refused"


def test_R12_an_analyst_who_is_a_reviewer_too_can_not_decide_on_her_own_request(offices: Offices) -> None:
    from parties.home.people import Person

    key = offices.ana.card().signing_key
    add_person(offices.bank.folder, Person(name="ana", role="reviewer", organisation="Example Bank", key=key))
    rule(offices, Policy(reviewers=1))
    ana = offices.ana.signing_key()
    with running(offices):
        request = offices.submitted()
        from protocols.approval import Role, decide, decision_text

        decided = decide(
            digest=digest(request),
            party="bank",
            person="ana",
            role=Role.REVIEWER,
            organisation="Example Bank",
            decision=Decision.APPROVE,
            reason="",
            key=ana,
            now=offices.clock(),
        )
        answer = offices.ask("decide", decision=decision_text(decided))
        assert (answer["error"], "analyst of the request" in str(answer["message"])) == ("approval", True)


def test_R13_a_denial_needs_a_reason_which_the_analyst_is_shown(offices: Offices) -> None:
    with running(offices):
        request = offices.submitted()
        for empty in ("", "  "):
            with pytest.raises(ApprovalError, match="reason"):
                offices.decision(offices.bank, request, Decision.DENY, reason=empty)
        text = offices.decision(offices.bank, request, Decision.DENY, reason="too many columns")
        forged = text.replace('"reason":"too many columns"', '"reason":""')
        assert forged != text
        assert offices.ask("decide", decision=forged)["error"] == "approval"
        offices.ask("decide", decision=text)
        assert "too many columns" in str(offices.shim(request, "status", "-1")["reason"])


@pytest.mark.parametrize("what", [Decision.DENY, Decision.REVOKE])
def test_R13_a_signed_decision_that_ends_something_without_a_reason_is_no_decision(
    offices: Offices, what: Decision
) -> None:
    with running(offices):
        request = offices.approved()
        text = offices.decision(offices.bank, request, what, reason="consent withdrawn")
        forged = text.replace('"reason":"consent withdrawn"', '"reason":""')
        assert forged != text
        answer = offices.ask("decide", decision=forged)
        assert (answer["error"], offices.view(request)["state"]) == ("approval", "APPROVED")
        assert "reason" in str(answer["message"])
        with pytest.raises(ApprovalError, match="reason"):
            offices.decision(offices.bank, request, what, reason="")


def test_R13_each_item_of_the_checklist_has_an_answer_and_a_reason(offices: Offices) -> None:
    rule(offices, Policy(checklist=(Question(item="columns", text="Is every column needed?"),)))
    with running(offices):
        request = offices.submitted()
        shown = page(offices.bank, digest(request)[:12]).text()
        assert "Is every column needed?" in shown
        for reason, told in (
            ("read in full", "'columns' has no answer: Is every column needed?"),
            ("read in full\n[columns] no: not income", "'columns' is answered no"),
        ):
            decision = offices.decision(offices.bank, request, Decision.APPROVE, reason=reason)
            answer = offices.ask("decide", decision=decision)
            assert told in str(answer["message"])
            assert offices.view(request)["state"] == "PENDING"
        full = with_answers("read in full", [parse_answer("columns=yes:the agreement lists both")])
        decision = offices.decision(offices.bank, request, Decision.APPROVE, reason=full)
        assert offices.ask("decide", decision=decision)["state"] == "APPROVED"
        assert "[columns] yes: the agreement lists both" in page(offices.bank, digest(request)[:12]).text()
    refused, again, taken = logged(offices, AuditEvent.APPROVED)
    assert [entry.result.value for entry in (refused, again, taken)] == ["refused", "refused", "ok"]
    assert details(taken)["reason"] == "read in full [columns] yes: the agreement lists both"


def test_R13_an_approval_needs_a_reason_too(offices: Offices) -> None:
    with running(offices):
        request = offices.submitted()
        bare = offices.decision(offices.bank, request, Decision.APPROVE, reason="")
        answer = offices.ask("decide", decision=bare)
        assert (answer["error"], offices.view(request)["state"]) == ("approval", "PENDING")
        assert "needs a reason" in str(answer["message"])
        offices.approved(nonce="1" * 32)
    assert [entry.result for entry in logged(offices, AuditEvent.APPROVED)] == ["refused", "ok"]


def test_R14_an_approval_ends_with_its_runs_and_its_date_and_what_is_left_is_shown(offices: Offices) -> None:
    with running(offices):
        request = offices.approved(runs=2)
        view = offices.view(request)
        assert (view["used"], view["allowed"]) == (0, 2)
        for used in (1, 2):
            assert offices.start(request)["ok"]
            offices.wait(request, "DONE", "APPROVED")
            until(lambda: offices.view(request)["used"], lambda n, wanted=used: n == wanted)  # type: ignore[misc]
        assert offices.start(request)["error"] == "runs_used"
        later = offices.approved(nonce="1" * 32)
        shop = offices.shop_approval(later)
        offices.clock.ahead = timedelta(days=8)
        assert offices.shim(later, "start", shop)["error"] == "expired"


def test_R15_one_action_revokes_and_the_running_run_stops(offices: Offices) -> None:
    with running(offices, "steps"):
        request = offices.approved()
        offices.start(request)
        offices.wait(request, "RUNNING")
        text = offices.decision(offices.bank, request, Decision.REVOKE, reason="consent withdrawn")
        assert offices.ask("decide", decision=text)["state"] == "REVOKED"
        assert offices.start(request)["error"] == "revoked"
        folder = offices.bank.runs / f"{digest(request)}-1"
        until(lambda: (folder / "withdrawn.json").exists(), bool)
    assert logged(offices, AuditEvent.REVOKED)
