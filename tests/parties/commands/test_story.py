"""The whole work of three people by commands, against real supervisors."""

import json
import threading
import time
from pathlib import Path
from unittest.mock import patch

import pytest

from parties.blocks.store import Store
from parties.control.asking import task_end
from parties.home.policy import Policy, policy_text
from parties.home.private_files import write_private
from parties.home.state import open_state
from parties.home.use_rules import UseRules
from parties.roles import requesting
from parties.roles.owner import add_user
from parties.roles.reviewing import record
from protocols.approval import Decision
from tests.parties.commands.town import PLAN, Town, bad, fingerprint, good, words_of
from tests.waiting import PATIENCE, until


def test_from_submission_to_result(town: Town) -> None:
    digest = town.submit()
    assert town.states(digest) == {"bank": "PENDING", "shop": "PENDING"}
    good("review", "approve", digest[:12], "--reason", "fine", "-s", town.bank)
    said = good("request", "status", digest[:12], "-s", town.ana).out
    assert "bank APPROVED used 0 of 1 runs" in words_of(said)
    assert "shop PENDING missing: the approval of shop's own people" in words_of(said)
    good("review", "approve", digest[:12], "--reason", "fine", "-s", town.shop)
    assert (
        f"next: fedaccord request start {digest[:12]}"
        in good("request", "status", digest, "-s", town.ana).out
    )

    started = good("request", "start", digest, "--watch", "-s", town.ana).out

    assert f"run of {digest[:12]} started at bank, shop" in started
    assert started.endswith(f"next: fedaccord request result {digest[:12]}\n")
    assert town.states(digest) == {"bank": "DONE", "shop": "DONE"}
    results = good("request", "result", digest, "--json", "-s", town.ana).document["results"]
    assert results == {"bank": {"auc": 0.75, "run": 1}, "shop": {"auc": 0.75, "run": 1}}
    table = {"report": {"methods": {"fedcvt": {"both": {"auc": 0.75, "accuracy": 0.5, "people": 40}}}}}
    with patch("parties.roles.analyst.results", lambda *_: {"bank": table, "shop": {"report": {"shown": 4}}}):
        said = words_of(good("request", "result", digest, "-s", town.ana).out)
    assert "bank: method views AUC accuracy people fedcvt both 0.750 0.500 40 fedcvt the whole model" in said
    assert 'shop: { "shown": 4 } everything: fedaccord request result' in said


def test_the_rehearsal_is_marked_and_submits_nothing(town: Town) -> None:
    before = len(town.sites["bank"].submitted())
    said = good("request", "rehearse", town.plan, "--json", "-s", town.ana)
    assert said.document["mock"] is True
    assert "rehearsal" in said.err, "progress goes to standard error"
    assert len(town.sites["bank"].submitted()) == before


def test_a_submission_shows_the_request_and_its_digest(town: Town) -> None:
    said = good("request", "submit", town.plan, "-s", town.ana).out
    digest = said.strip().splitlines()[-1]
    assert len(digest) == 64
    assert f"REQUEST {digest}" in said
    page = good("review", "show", digest, "-s", town.bank).out
    assert "WHAT LEAVES" in page
    assert "STATE\nPENDING" in page
    assert "missing: 1 more owner must approve" in page
    assert good("review", "show", digest, "--json", "-s", town.bank).document["digest"] == digest


@pytest.fixture(scope="module")
def finished(town: Town) -> str:
    """A request whose only run is done."""
    digest = town.approved()
    good("request", "start", digest, "--watch", "-s", town.ana)
    return digest


@pytest.mark.parametrize(
    "words",
    [
        ("request", "status", "{digest}", "-s", "{ana}"),
        ("request", "result", "{digest}", "-s", "{ana}"),
        ("audit", "verify", "-s", "{bank}"),
        ("audit", "show", "-s", "{bank}"),
        ("review", "list", "-s", "{bank}"),
        ("peer", "list", "-s", "{bank}"),
        ("person", "list", "-s", "{bank}"),
        ("block", "show", "-s", "{bank}"),
        ("block", "show", "customers", "-s", "{bank}"),
        ("datasite", "show", "-s", "{ana}"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_json_is_one_document_on_standard_output_and_nothing_else(
    town: Town, finished: str, words: tuple[str, ...]
) -> None:
    places = {"digest": finished, "ana": town.ana, "bank": town.bank}
    said = good(*(word.format(**places) for word in words), "--json")
    assert json.loads(said.out), said
    assert said.out.startswith("{")


def test_a_second_start_is_refused_with_the_count(town: Town) -> None:
    digest = town.approved()
    good("request", "start", digest, "--watch", "-s", town.ana)
    assert "used 1 of 1 runs" in bad("request", "start", digest, "-s", town.ana)


def test_a_start_without_approvals_names_who_is_missing(town: Town) -> None:
    digest = town.submit()
    good("review", "approve", digest, "--reason", "fine", "-s", town.bank)
    good("review", "deny", digest, "--reason", "too many columns", "-s", town.shop)
    said = bad("request", "start", digest, "-s", town.ana)
    assert "not approved by shop (denied by owner: too many columns)" in said
    status = good("request", "status", digest, "-s", town.ana).out
    assert "DENIED" in status
    assert "next: ask with a new request" in status


def test_a_request_that_a_policy_refuses_is_told_with_the_rule_at_both_ends(town: Town) -> None:
    policy = town.bank / "policy.toml"
    before = policy.read_text()
    write_private(policy, policy_text(Policy(uses=UseRules(purposes=("credit risk",)))))
    try:
        digest = town.submit()
        until(lambda: town.states(digest)["bank"], lambda state: state == "DENIED")
    finally:
        write_private(policy, before)
    rule = (
        "refused by policy: purpose 'churn' is not one that we agreed to (credit risk); "
        "ask with a request that keeps to that"
    )
    assert f"bank DENIED {rule}" in words_of(good("request", "status", digest, "-s", town.ana).out)
    assert f"not approved by bank ({rule})" in words_of(bad("request", "start", digest, "-s", town.ana))
    listed = words_of(good("review", "list", "-s", town.bank).out)
    assert f"{digest[:12]} REFUSED ana (ana@lab.example.org)" in listed
    assert rule in listed


def test_a_revoked_request_is_shown_as_such(town: Town) -> None:
    digest = town.approved()
    said = good("review", "revoke", digest, "--reason", "consent withdrawn", "-s", town.bank).out
    assert "is REVOKED, also in syft" in said
    assert town.states(digest)["bank"] == "REVOKED"
    assert "revoked by owner: consent withdrawn" in bad("request", "start", digest, "-s", town.ana)
    assert "was revoked" in bad("review", "approve", digest, "--reason", "fine", "-s", town.bank)


def test_a_second_approval_by_one_person_says_so_and_is_not_kept(town: Town) -> None:
    digest = town.approved()
    before = (town.bank / "audit.jsonl").read_bytes()
    said = good("review", "approve", digest, "--reason", "fine", "-s", town.bank).out
    assert "owner has approved already at 20" in said
    assert "is APPROVED" in said
    assert len(list((town.bank / "approvals" / digest).glob("[0-9]*.json"))) == 1
    after = (town.bank / "audit.jsonl").read_bytes()[len(before) :]
    assert b"approved" not in after
    good("review", "revoke", digest, "--reason", "consent withdrawn", "-s", town.bank)
    assert town.states(digest)["bank"] == "REVOKED"


def test_who_denied_may_approve_after_a_second_look(town: Town) -> None:
    digest = town.submit()
    good("review", "deny", digest, "--reason", "first look", "-s", town.bank)
    assert "approve by owner" in good("review", "approve", digest, "--reason", "fine", "-s", town.bank).out


@pytest.mark.parametrize("verb", ["approve", "deny", "revoke"])
def test_an_unknown_person_cannot_decide(town: Town, verb: str) -> None:
    digest = town.submit()
    said = bad("review", verb, digest, "--as", "nobody", "--reason", "x", "-s", town.bank)
    assert "'nobody' is not one of our people" in said
    assert "there are owner" in said
    assert town.states(digest)["bank"] == "PENDING"


def test_an_approval_waits_for_a_request_that_is_on_its_way(town: Town) -> None:
    clerk = town.clerks["bank"]
    clerk.look_away()
    digest = town.submit()
    threading.Timer(1.0, clerk.at_work.set).start()
    assert "is APPROVED" in good("review", "approve", digest, "--reason", "fine", "-s", town.bank).out


def test_a_start_waits_for_an_approval_that_is_on_its_way(town: Town) -> None:
    digest = town.submit()
    good("review", "show", digest, "-s", town.shop)
    good("review", "approve", digest, "--reason", "fine", "-s", town.bank)
    town.clerks["shop"].look_away()
    record(
        open_state(town.shop, test_mode=True),
        digest,
        person="owner",
        decision=Decision.APPROVE,
        reason="fine",
        passphrase=None,
    )
    really_wait = requesting.wait_for_approvals

    def wait(*given: object) -> None:
        def pause(seconds: float) -> None:
            town.clerks["shop"].at_work.set()  # not before the start has looked
            time.sleep(seconds)

        really_wait(*given, sleep=pause)

    with patch.object(requesting, "wait_for_approvals", wait):
        said = good("request", "start", digest, "--watch", "-s", town.ana).out
    assert "waiting for the approval of shop" in said
    assert "DONE" in said


def test_what_syft_could_not_do_is_told_to_the_owner(town: Town) -> None:
    digest = town.submit()
    town.clerks["bank"].fails["approve"] = "code differs from the shim's"
    try:
        said = bad("review", "approve", digest, "--reason", "fine", "-s", town.bank)
    finally:
        town.clerks["bank"].fails.clear()
    assert "the decision stands, but syft could not follow (approve): code differs from the shim's" in said
    assert "PROBLEM in syft: approve: code differs" in good("review", "show", digest, "-s", town.bank).out


def test_a_digest_that_fits_nothing_or_too_much_is_named(town: Town) -> None:
    town.submit()
    assert "no request of bank begins with 'xyz'" in bad("review", "show", "xyz", "-s", town.bank)
    assert "no request of ana begins with 'xyz'" in bad("request", "status", "xyz", "-s", town.ana)
    for _ in range(17):  # two of 17 requests begin with the same digit
        town.submit()
    known = [path.stem for path in (town.ana / "requests").glob("*.json")]
    double = next(d[0] for d in known if sum(other[0] == d[0] for other in known) > 1)
    assert "requests of ana begin" in bad("request", "status", double, "-s", town.ana)


def test_a_party_that_is_down_is_named_and_the_others_are_shown(town: Town) -> None:
    digest = town.approved()
    town.down.add("shop")
    try:
        assert town.states(digest) == {"bank": "APPROVED", "shop": "UNREACHABLE"}
        for words in (("start", digest), ("result", digest), ("submit", town.plan)):
            said = bad("request", *words, "-s", town.ana)
            assert "shop at http://127.0.0.1:18432: the datasite can't be reached" in said
            assert "ask its owner" in said
        assert "nothing was cancelled" in bad("request", "cancel", digest, "-s", town.ana)
    finally:
        town.down.clear()


def test_a_replaced_block_is_published_at_once(town: Town) -> None:
    file = town.folder / "bank.csv"
    words = (
        "block",
        "add",
        file,
        "--name",
        "spare",
        "--key",
        "person",
        "--label",
        "churned",
        "--split",
        "split",
    )
    assert "published   now" in good(*words, "-s", town.bank).out
    assert "block 'spare' exists already (version 1)" in bad(*words, "-s", town.bank)
    assert "version 2" in good(*words, "--replace", "-s", town.bank).out
    assert Store(open_state(town.bank, test_mode=True).blocks).describe("spare").version == 2
    assert "bank: block spare version" in good("datasite", "show", "-s", town.ana).out


def _account(town: Town, name: str, folder: Path) -> tuple[object, ...]:
    """Words that open an account for another analyst."""
    good("init", folder / name, "--analyst", "--name", name, "--organisation", "Another Lab")
    told = ("--fingerprint", fingerprint(folder / name), "--email", f"{name}@lab.example.org")
    return (
        "user",
        "add",
        folder / name / "card.json",
        *told,
        "--out",
        folder / "login.json",
        "-s",
        town.bank,
    )


def test_an_account_that_syft_refuses_is_told(town: Town, tmp_path: Path) -> None:
    town.clerks["bank"].fails["add_user"] = "the address belongs to another account"
    try:
        said = bad(*_account(town, "bob", tmp_path))
    finally:
        town.clerks["bank"].fails.clear()
    assert "syft refused the account bob@lab.example.org: the address belongs to another account" in said


def test_the_login_is_private_and_one_account_is_enough(town: Town, tmp_path: Path) -> None:
    words = _account(town, "eve", tmp_path)
    assert "account eve@lab.example.org is open" in good(*words).out
    login = json.loads((tmp_path / "login.json").read_text())
    assert (login["party"], login["url"]) == ("bank", "http://127.0.0.1:18431")
    assert (tmp_path / "login.json").stat().st_mode & 0o777 == 0o600
    assert "exists already" in bad(*words)
    assert json.loads((tmp_path / "login.json").read_text()) == login, "the only copy of the password stays"
    (tmp_path / "login.json").unlink()
    assert "has an account already" in bad(*words)
    assert not (tmp_path / "login.json").exists()


def test_an_account_may_wait_for_the_syft_server(town: Town, tmp_path: Path) -> None:
    card, told = tmp_path / "zoe" / "card.json", _account(town, "zoe", tmp_path)[4]
    town.clerks["bank"].look_away()
    time.sleep(0.2)
    state = open_state(town.bank, test_mode=True)
    said = add_user(state, card, str(told), "zoe@lab.example.org", tmp_path / "login.json")
    town.clerks["bank"].at_work.set()
    assert "opens as soon as the syft server is up" in said
    assert task_end(state.folder, "add_user", "zoe@lab.example.org", PATIENCE) == ("done", "")


def test_a_request_of_an_analyst_without_an_account_is_denied_with_the_reason(town: Town) -> None:
    (town.bank / "users.json").rename(town.bank / "users.away")
    try:
        digest = town.submit()
        until(lambda: town.states(digest)["bank"], lambda state: state == "DENIED")
    finally:
        (town.bank / "users.away").rename(town.bank / "users.json")
    said = good("request", "status", digest, "-s", town.ana).out
    assert "request: the request isn't known there, or isn't yours" in said


def test_the_last_approved_request_is_what_a_new_one_is_compared_with(town: Town) -> None:
    before = town.approved()
    plan = town.folder / "changed.toml"
    plan.write_text(PLAN.replace("steps = 4", "steps = 6"))
    said = good("request", "submit", plan, "--skip-rehearsal", "--json", "-s", town.ana)
    page = good("review", "show", str(said.document["digest"]), "-s", town.bank).out
    assert f"compared with {before[:12]}" in page
    assert "parameters[steps]: 4 -> 6" in page
