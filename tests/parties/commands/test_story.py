"""The whole work of three people by commands, against real supervisors."""

import json
import sqlite3
import threading
from pathlib import Path

import pytest

from parties.blocks.store import Store
from parties.home.state import open_state
from parties.roles.reviewing import record
from protocols.approval import Decision
from tests.parties.commands.town import Town, bad, good, words_of


def test_from_submission_to_result(town: Town) -> None:
    digest = town.submit()
    assert town.states(digest) == {"bank": "PENDING", "shop": "PENDING"}
    good("review", "approve", digest[:12], "--reason", "fine", "-s", town.bank)
    said = good("request", "status", digest[:12], "-s", town.ana).out
    assert "bank APPROVED used 0 of 1 runs" in words_of(said)
    assert "shop PENDING missing: the approval of shop's own people" in words_of(said)
    good("review", "approve", digest[:12], "-s", town.shop)
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


def test_the_rehearsal_is_marked_and_submits_nothing(town: Town) -> None:
    before = len(town.sites["bank"].submitted())
    said = good("request", "rehearse", town.plan, "-s", town.ana).out
    assert "MOCK: every number below is about nobody" in said
    assert "of the bound used" in said
    document = good("request", "rehearse", town.plan, "--json", "-s", town.ana)
    assert document.document["mock"] is True
    assert "rehearsal" in document.err, "progress goes to standard error"
    assert len(town.sites["bank"].submitted()) == before


def test_a_submission_shows_the_request_and_its_digest(town: Town) -> None:
    said = good("request", "submit", town.plan, "-s", town.ana).out
    digest = said.strip().splitlines()[-1]
    assert len(digest) == 64
    assert f"REQUEST {digest}" in said
    page = good("review", "show", digest, "-s", town.bank).out
    assert "WHAT LEAVES" in page
    assert "STATE PENDING" in page
    assert "missing: 1 more owner must approve" in page
    assert good("review", "show", digest, "--json", "-s", town.bank).document["digest"] == digest


@pytest.mark.parametrize(
    "words",
    [
        ("request", "status", "{digest}", "-s", "{ana}"),
        ("request", "start", "{digest}", "--watch", "-s", "{ana}"),
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
def test_json_is_one_document_on_standard_output_and_nothing_else(town: Town, words: tuple[str, ...]) -> None:
    digest = town.approved()
    if words[1] == "result":
        good("request", "start", digest, "--watch", "-s", town.ana)
    places = {"digest": digest, "ana": town.ana, "bank": town.bank}
    said = good(*(word.format(**places) for word in words), "--json")
    assert json.loads(said.out), said
    assert said.out.startswith("{")


def test_a_second_start_is_refused_with_the_count(town: Town) -> None:
    digest = town.approved()
    good("request", "start", digest, "--watch", "-s", town.ana)
    assert "used 1 of 1 runs" in bad("request", "start", digest, "-s", town.ana)


def test_a_start_without_approvals_names_who_is_missing(town: Town) -> None:
    digest = town.submit()
    good("review", "approve", digest, "-s", town.bank)
    good("review", "deny", digest, "--reason", "too many columns", "-s", town.shop)
    said = bad("request", "start", digest, "-s", town.ana)
    assert "not approved by shop (denied: denied by owner: too many columns)" in said
    status = good("request", "status", digest, "-s", town.ana).out
    assert "DENIED" in status
    assert "next: ask with a new request" in status


def test_a_revoked_request_is_shown_as_such(town: Town) -> None:
    digest = town.approved()
    said = good("review", "revoke", digest, "--reason", "consent withdrawn", "-s", town.bank).out
    assert "is REVOKED, also in syft" in said
    assert town.states(digest)["bank"] == "REVOKED"
    assert "revoked by owner: consent withdrawn" in bad("request", "start", digest, "-s", town.ana)
    assert "was revoked" in bad("review", "approve", digest, "-s", town.bank)


@pytest.mark.parametrize("verb", ["approve", "deny", "revoke"])
def test_an_unknown_person_cannot_decide(town: Town, verb: str) -> None:
    digest = town.submit()
    said = bad("review", verb, digest, "--as", "nobody", "--reason", "x", "-s", town.bank)
    assert "'nobody' is not one of our people" in said
    assert "fedaccord person add" in said
    assert town.states(digest)["bank"] == "PENDING"


def test_an_approval_waits_for_a_request_that_is_on_its_way(town: Town) -> None:
    clerk = town.clerks["bank"]
    clerk.at_work.clear()
    digest = town.submit()
    threading.Timer(1.0, clerk.at_work.set).start()
    assert "is APPROVED" in good("review", "approve", digest, "-s", town.bank).out


def test_a_start_waits_for_an_approval_that_is_on_its_way(town: Town) -> None:
    digest = town.submit()
    good("review", "show", digest, "-s", town.shop)
    good("review", "approve", digest, "-s", town.bank)
    town.clerks["shop"].at_work.clear()
    later = threading.Timer(1.5, town.clerks["shop"].at_work.set)
    record(
        open_state(town.shop, test_mode=True),
        digest,
        person="owner",
        decision=Decision.APPROVE,
        reason="",
        passphrase=None,
    )
    later.start()
    said = good("request", "start", digest, "--watch", "-s", town.ana).out
    assert "waiting for the approval of shop" in said
    assert "DONE" in said


def test_what_syft_could_not_do_is_told_to_the_owner(town: Town) -> None:
    digest = town.submit()
    town.clerks["bank"].fails["approve"] = "code differs from the shim's"
    try:
        said = bad("review", "approve", digest, "-s", town.bank)
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


def test_running_cancelled_and_their_next_steps(slow_town: Town) -> None:
    town = slow_town
    digest = town.approved()
    assert "the request is APPROVED there" in bad("request", "cancel", digest, "-s", town.ana)
    said = good("request", "start", digest, "-s", town.ana).out
    assert "RUNNING" in said
    assert "--watch" in said
    assert "a run is under way at bank" in bad("request", "start", digest, "-s", town.ana)
    assert "the request is RUNNING there" in bad("request", "result", digest, "-s", town.ana)
    facts = good("request", "status", digest, "--json", "-s", town.ana).document["parties"]
    assert "bytes" not in json.dumps(facts)
    assert good("request", "cancel", digest, "-s", town.ana).out == "bank: CANCELLED\nshop: CANCELLED\n"
    assert town.states(digest) == {"bank": "CANCELLED", "shop": "CANCELLED"}


def test_an_interrupted_run_says_how_it_goes_on(slow_town: Town) -> None:
    town = slow_town
    digest = town.approved()
    good("request", "start", digest, "-s", town.ana)
    for state in (town.bank, town.shop):  # as a supervisor's restart leaves it
        _interrupt(open_state(state, test_mode=True).ledger_path, digest)
    said = good("request", "status", digest, "-s", town.ana).out
    assert "INTERRUPTED" in said
    assert f"next: fedaccord request start {digest[:12]} goes on from the last checkpoint" in said


def _interrupt(ledger: Path, digest: str) -> None:
    with sqlite3.connect(ledger) as database:
        database.execute("UPDATE requests SET state = 'INTERRUPTED' WHERE digest = ?", (digest,))


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
