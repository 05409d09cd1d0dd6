from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols import keys
from protocols.approval import (
    CLOCK_SKEW,
    Decision,
    PersonDecision,
    Role,
    check_expiry,
    countersign,
    decide,
    decision_text,
    latest,
    parse_approvals,
    parse_decision,
    to_text,
    verify_all,
    verify_decision,
    verify_party_approval,
)
from protocols.audit import Head, parse_head, sign_head
from protocols.errors import ApprovalError, AuditError, ExpiredError, NotApprovedError, RequestError
from protocols.records import signing_bytes
from protocols.request import SignedRequest, digest, sign_request, verify_request
from tests.protocols.samples import NOW, POLICY, People, approvals, decision, sample_request

PEOPLE = People()
REQUEST = sample_request(PEOPLE)
OTHER = sample_request(PEOPLE, nonce="d" * 32)
BANK, RETAILER = approvals(REQUEST, PEOPLE)


def countersigned(*decisions: PersonDecision) -> object:
    return countersign(REQUEST, "bank", decisions, POLICY, NOW, PEOPLE.bank)


def test_a_run_with_every_approval_passes_after_the_journey_as_text() -> None:
    carried = parse_approvals(to_text([BANK])) + parse_approvals(to_text([RETAILER]))
    assert carried == (BANK, RETAILER)
    verify_all(REQUEST, carried, NOW)


@pytest.mark.parametrize(
    ("given_", "missing"), [((BANK,), "retailer"), ((RETAILER,), "bank"), ((), "bank, retailer")]
)
def test_a_missing_approval_is_named(given_: tuple[object, ...], missing: str) -> None:
    with pytest.raises(NotApprovedError, match=rf"missing from {missing}\n"):
        verify_all(REQUEST, given_, NOW)  # type: ignore[arg-type]


def test_an_approval_of_another_digest_is_refused() -> None:
    with pytest.raises(
        ApprovalError,
        match=f"the approval of bank is for request {digest(OTHER)[:12]}, not for {digest(REQUEST)[:12]}",
    ):
        verify_all(REQUEST, [*approvals(OTHER, PEOPLE)], NOW)


def test_expiry_is_exact() -> None:
    check_expiry(REQUEST, NOW)
    end = NOW.replace(month=2, day=1, hour=0)
    verify_all(REQUEST, [BANK, RETAILER], end - timedelta(seconds=1))
    with pytest.raises(ExpiredError, match="expired at 2030-02-01T00:00:00Z"):
        verify_all(REQUEST, [BANK, RETAILER], end)
    with pytest.raises(ExpiredError):
        countersign(REQUEST, "bank", BANK.decisions, POLICY, end, PEOPLE.bank)


def test_two_approvals_of_one_party_are_refused() -> None:
    with pytest.raises(ApprovalError, match="two approvals of bank"):
        verify_all(REQUEST, [BANK, BANK], NOW)


def test_the_roster_decides_whose_key_countersigns() -> None:
    with pytest.raises(ApprovalError, match="another signing key for bank"):
        countersign(REQUEST, "bank", BANK.decisions, POLICY, NOW, PEOPLE.retailer)
    foreign = replace(BANK, signing_key=keys.public_hex(PEOPLE.analyst))
    with pytest.raises(ApprovalError, match="another key than the roster"):
        verify_party_approval(foreign, REQUEST)


def test_another_party_cannot_take_over_an_approval() -> None:
    with pytest.raises(ApprovalError, match="another key than the roster"):
        verify_party_approval(replace(BANK, party="retailer"), REQUEST)
    with pytest.raises(ApprovalError, match="'stranger' is not in the roster"):
        verify_party_approval(replace(BANK, party="stranger"), REQUEST)
    with pytest.raises(ApprovalError, match="was made for bank, not for retailer"):
        countersign(REQUEST, "retailer", BANK.decisions, POLICY, NOW, PEOPLE.retailer)


@pytest.mark.parametrize(
    "changes",
    [
        {"policy_version": "policy-2"},
        {"time": "2030-01-01T12:00:01Z"},
        {"decisions": ()},
        {"signature": "0" * 128},
        {"signature": "not hex"},
        {"signature": RETAILER.signature},
    ],
)
def test_an_altered_approval_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ApprovalError, match="the approval of bank was altered"):
        verify_party_approval(replace(BANK, **changes), REQUEST)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"person": "other"},
        {"role": Role.REVIEWER},
        {"organisation": "other"},
        {"reason": "fine"},
        {"time": "2029-01-01T12:00:00Z"},
        {"decision": Decision.REVOKE, "reason": "fine"},
        {"key": keys.public_hex(PEOPLE.bank)},
        {"digest": digest(OTHER)},
        {"party": "retailer"},
    ],
)
def test_an_altered_decision_is_refused(changes: dict[str, object]) -> None:
    altered = replace(BANK.decisions[0], **changes)  # type: ignore[arg-type]
    with pytest.raises(ApprovalError, match="was altered, or isn't signed"):
        verify_decision(altered)
    with pytest.raises(ApprovalError, match="was altered, or isn't signed"):
        parse_decision(decision_text(altered))


def test_a_party_cannot_make_up_a_decision_of_its_people() -> None:
    forged = replace(BANK.decisions[0], person="somebody")
    with pytest.raises(ApprovalError, match="decision of somebody at bank was altered"):
        countersigned(forged)


def test_a_decision_on_another_digest_is_not_countersigned() -> None:
    with pytest.raises(ApprovalError, match="not for"):
        countersigned(decision(OTHER, "bank", PEOPLE.bank_owner))


def test_the_analyst_cannot_decide_on_the_own_request() -> None:
    with pytest.raises(ApprovalError, match="by the analyst"):
        countersigned(BANK.decisions[0], decision(REQUEST, "bank", PEOPLE.analyst, person="ana"))


def test_nobody_is_no_approval() -> None:
    with pytest.raises(NotApprovedError, match="nobody at bank"):
        countersigned()


@pytest.mark.parametrize("verdict", [Decision.DENY, Decision.REVOKE])
@pytest.mark.parametrize("minutes", [0, 1])
def test_a_later_or_simultaneous_denial_or_revocation_wins(verdict: Decision, minutes: int) -> None:
    no = decision(
        REQUEST,
        "bank",
        PEOPLE.bank_owner,
        decision=verdict,
        reason="no longer",
        now=NOW + timedelta(minutes=minutes),
    )
    for order in ((BANK.decisions[0], no), (no, BANK.decisions[0])):
        with pytest.raises(NotApprovedError, match=r"bank-owner (denied|revoked) the request at bank"):
            countersigned(*order)


def test_an_approval_after_a_denial_counts() -> None:
    no = decision(
        REQUEST,
        "bank",
        PEOPLE.bank_owner,
        decision=Decision.DENY,
        reason="unclear",
        now=NOW - timedelta(days=1),
    )
    assert countersigned(BANK.decisions[0], no)


def test_one_persons_denial_stops_the_party_whoever_else_approves() -> None:
    no = decision(
        REQUEST,
        "bank",
        keys.generate_key(),
        person="rev1",
        role=Role.REVIEWER,
        decision=Decision.DENY,
        reason="no",
        now=NOW - timedelta(days=1),
    )
    with pytest.raises(NotApprovedError, match="rev1 denied"):
        countersigned(BANK.decisions[0], no)


@pytest.mark.parametrize("verdict", [Decision.DENY, Decision.REVOKE])
def test_a_denial_little_before_an_approval_wins_since_clocks_differ(verdict: Decision) -> None:
    yes = BANK.decisions[0]
    for before, counts in ((CLOCK_SKEW, False), (CLOCK_SKEW + timedelta(seconds=1), True)):
        no = decision(REQUEST, "bank", PEOPLE.bank_owner, decision=verdict, reason="no", now=NOW - before)
        for order in ((yes, no), (no, yes)):
            (found,) = latest(order)
            assert (found == yes) is counts


@given(st.permutations(range(4)))
def test_the_order_in_which_decisions_come_does_not_matter(order: list[int]) -> None:
    kinds = [Decision.APPROVE, Decision.DENY, Decision.APPROVE, Decision.REVOKE]
    made = [
        decision(REQUEST, "bank", PEOPLE.bank_owner, decision=kind, reason="r", now=NOW + timedelta(hours=i))
        for i, kind in enumerate(kinds)
    ]
    (counting,) = latest([made[i] for i in order])
    assert counting.decision is Decision.REVOKE


def test_an_approval_dated_ahead_is_refused_since_it_would_outrank_a_revocation() -> None:
    early = decision(REQUEST, "bank", PEOPLE.bank_owner, now=NOW + CLOCK_SKEW)
    assert countersigned(early)
    ahead = decision(REQUEST, "bank", PEOPLE.bank_owner, now=NOW + CLOCK_SKEW + timedelta(seconds=1))
    with pytest.raises(ApprovalError, match="ahead of this party's clock"):
        countersigned(ahead)


def test_one_person_counts_once() -> None:
    second = keys.generate_key()
    twice = decision(REQUEST, "bank", second)
    with pytest.raises(ApprovalError, match="one key and one role"):
        countersigned(BANK.decisions[0], twice)
    alias = decision(REQUEST, "bank", PEOPLE.bank_owner, person="alias")
    with pytest.raises(ApprovalError, match="one key and one role"):
        countersigned(BANK.decisions[0], alias)


@pytest.mark.parametrize("verdict", [Decision.DENY, Decision.REVOKE])
@pytest.mark.parametrize("reason", ["", " "])
def test_a_denial_or_revocation_needs_a_reason(reason: str, verdict: Decision) -> None:
    with pytest.raises(ApprovalError, match=r"^reason"):
        decision(REQUEST, "bank", PEOPLE.bank_owner, decision=verdict, reason=reason)


def test_a_decision_needs_a_time_zone() -> None:
    with pytest.raises(ValueError, match="zone"):
        decision(REQUEST, "bank", PEOPLE.bank_owner, now=NOW.replace(tzinfo=None))


def test_no_signature_serves_for_a_record_of_another_kind() -> None:
    """One key signs a request, a decision, an approval and a head; each signature holds for its own record only."""
    key = PEOPLE.bank
    request = sample_request(People(analyst=key, bank=keys.generate_key(), retailer=PEOPLE.retailer))
    made = decide(
        digest=digest(REQUEST),
        party="bank",
        person="p",
        role=Role.OWNER,
        organisation="bank",
        decision=Decision.APPROVE,
        reason="",
        key=key,
        now=NOW,
    )
    signatures = {
        "request": sign_request(request, key).signature,
        "decision": made.signature,
        "approval": BANK.signature,
        "head": sign_head(Head(party="bank", index=1, hash="a" * 64), NOW, key).signature,
    }
    assert len(set(signatures.values())) == 4
    for kind, signature in signatures.items():
        if kind != "request":
            with pytest.raises(RequestError):
                verify_request(SignedRequest(request=request, signature=signature))
        if kind != "decision":
            with pytest.raises(ApprovalError):
                verify_decision(replace(made, signature=signature))
        if kind != "approval":
            with pytest.raises(ApprovalError):
                verify_party_approval(replace(BANK, signature=signature), REQUEST)


def test_the_prefix_alone_separates_the_kinds() -> None:
    """The same bytes under two purposes have two signatures: fields that happen to agree are no way around."""
    purposes = ["request", "decision", "approval", "entry", "head"]
    assert len({signing_bytes(purpose, b"{}") for purpose in purposes}) == len(purposes)
    with pytest.raises(AuditError):
        parse_head(to_text([BANK]))


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('"policy_version":', '"policy":', "policy"),
        ('"decision":"approve"', '"decision":"maybe"', "decision"),
        ('"role":"owner"', '"role":1', "role"),
        ('"decisions":[', '"decisions": [', "canonical"),
        ('"time":"2030-01-01T12:00:00Z"', '"time":"now"', "time"),
    ],
)
def test_text_that_is_no_approval_names_what_is_wrong(old: str, new: str, named: str) -> None:
    text = to_text([BANK])
    assert old in text
    with pytest.raises(ApprovalError, match=named):
        parse_approvals(text.replace(old, new))


@pytest.mark.parametrize("text", ["", "{}", "[1]", "\ud800", "[" * 100_000])
def test_hostile_text_is_refused(text: str) -> None:
    with pytest.raises(ApprovalError):
        parse_approvals(text)
