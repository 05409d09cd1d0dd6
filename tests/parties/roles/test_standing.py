"""What an analyst sees of a request at each party, and which approvals count."""

import pytest

from parties.control.asking import Refusal
from parties.roles.analyst import results
from parties.roles.standing import PartyStatus, approvals, in_words, statuses
from parties.roles.standing_words import status_line
from protocols.errors import ApprovalError, DatasiteError, NotApprovedError, StateError
from tests.parties.roles.samples import ScriptedSite, approval, sample_request, sites, state

REQUEST = sample_request()
PENDING = {"ok": False, "error": "not_approved", "standing": "pending"}


@pytest.mark.parametrize(
    ("answer", "seen", "reason"),
    [
        (state("DONE"), "DONE", ""),
        (state("FAILED", reason="peer_lost"), "FAILED", "peer_lost"),
        (PENDING, "PENDING", ""),
        (PENDING | {"standing": "absent"}, "ABSENT", "it was never submitted there"),
        (PENDING | {"standing": "denied", "reason": "denied by owner: no"}, "DENIED", "denied by owner: no"),
        (PENDING | {"standing": "denied", "reason": "revoked by owner"}, "REVOKED", "revoked by owner"),
        (PENDING | {"standing": "denied", "reason": "roster"}, "DENIED", "roster: the roster differs"),
        ({"ok": False, "error": "internal"}, "REFUSED", "an internal error"),
        ({"ok": False, "error": "what"}, "REFUSED", "refused (what)"),
    ],
)
def test_what_an_answer_means(answer: dict[str, object], seen: str, reason: str) -> None:
    found = statuses(REQUEST, sites(bank={"status": answer}, shop={"status": state("APPROVED")}))
    assert [each.party for each in found] == ["bank", "shop"]
    assert found[0].state == seen
    assert found[0].reason.startswith(reason)


@pytest.mark.parametrize(
    ("reason", "line", "words"),
    [
        ("denied by owner: no", "bank         DENIED  by owner: no", "denied by owner: no"),
        (
            "refused by policy: no such purpose; ask otherwise",
            "bank         DENIED  refused by policy: no such purpose; ask otherwise",
            "refused by policy: no such purpose; ask otherwise",
        ),
        ("the code changed", "bank         DENIED  the code changed", "denied: the code changed"),
        ("", "bank         DENIED", "denied"),
    ],
)
def test_a_denial_is_told_once(reason: str, line: str, words: str) -> None:
    status = PartyStatus(party="bank", state="DENIED", reason=reason, answer={})
    assert (status_line(status), in_words(status)) == (line, words)


def test_what_a_lying_datasite_says_is_made_harmless() -> None:
    lies = state(
        "DONE\x1b[2J", reason="a\x1b]0;b\x07\u202ec\n" + "x" * 9000, missing=["\x1b[1mme"], loss=10**400
    )
    found = statuses(REQUEST, sites(bank={"status": lies}, shop={"status": {"ok": True}}))
    assert [each.state for each in found] == ["UNKNOWN", "UNREACHABLE"]
    assert found[0].reason.startswith("a ]0;b c xxx")
    assert len(found[0].reason) < 600
    assert all(status_line(each).isprintable() for each in found)
    assert "[1mme" in status_line(found[0])
    with pytest.raises(DatasiteError, match="shop: its datasite answered without the field 'state'"):
        approvals(REQUEST, found[1:])


def test_a_result_without_its_field_names_the_party() -> None:
    both = sites(bank={"result": {"ok": True, "result": {"auc": 0.5}}}, shop={"result": {"ok": True}})
    with pytest.raises(DatasiteError, match="shop: its datasite answered without the field 'result'"):
        results(REQUEST, both)


def test_pending_says_what_is_missing() -> None:
    found = statuses(REQUEST, sites(bank={"status": PENDING}, shop={"status": PENDING}))
    assert found[1].answer["missing"] == ["the approval of shop's own people"]


def test_a_party_that_is_down_hides_no_other() -> None:
    both = sites(bank={}, shop={"status": state("APPROVED")})
    both["bank"].down = True
    found = statuses(REQUEST, both)
    assert [each.state for each in found] == ["UNREACHABLE", "APPROVED"]
    with pytest.raises(DatasiteError, match="bank can't be reached"):
        approvals(REQUEST, found)


def _standing(bank: dict[str, object], shop: dict[str, object]) -> tuple[object, ...]:
    return statuses(
        REQUEST,
        {"bank": ScriptedSite("bank", {"status": bank}), "shop": ScriptedSite("shop", {"status": shop})},
    )


def _approved(party: str, signer: str = "") -> dict[str, object]:
    return state("APPROVED", approval=approval(REQUEST, party, signer))


def test_all_approvals_are_given_back_in_the_order_of_the_roster() -> None:
    found = approvals(REQUEST, _standing(_approved("bank"), _approved("shop")))
    assert [each.party for each in found] == ["bank", "shop"]


def test_all_that_lack_an_approval_are_named() -> None:
    denied = PENDING | {"standing": "denied", "reason": "denied by owner: no"}
    with pytest.raises(NotApprovedError, match=r"bank \(pending\), shop \(denied by owner: no\)") as caught:
        approvals(REQUEST, _standing(PENDING, denied))
    assert "fedaccord request status" in caught.value.remedy


@pytest.mark.parametrize("signer", ["ana", "shop"])
def test_an_approval_under_another_key_is_refused(signer: str) -> None:
    with pytest.raises(ApprovalError):
        approvals(REQUEST, _standing(_approved("bank", signer), _approved("shop")))


def test_an_approval_of_another_request_is_refused() -> None:
    other = state("APPROVED", approval=approval(sample_request(runs=2), "bank"))
    with pytest.raises(ApprovalError):
        approvals(REQUEST, _standing(other, _approved("shop")))


def test_a_run_under_way_is_no_missing_approval() -> None:
    with pytest.raises(StateError, match="a run is under way at shop"):
        approvals(REQUEST, _standing(_approved("bank"), state("RUNNING")))


def test_a_refusal_is_told_as_such() -> None:
    with pytest.raises(Refusal, match="bank: an internal error"):
        approvals(REQUEST, _standing({"ok": False, "error": "internal"}, _approved("shop")))
