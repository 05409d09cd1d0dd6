"""The supervisor with real sockets and worker processes: checks before a start, run states, revocation, restarts."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from parties.control.socket import NAME, call
from parties.control.supervisor import Options, Supervisor, only_one, serve
from parties.control.watch import Watch
from parties.control.workers import NUMERICS, alive
from parties.home.cards import parse_address
from parties.home.people import add_person, create_person
from parties.home.policy import Policy, policy_text
from parties.home.private_files import write_private
from parties.home.state import init_analyst, init_party
from protocols import keys
from protocols.approval import Decision, parse_approvals
from protocols.audit import AuditEvent, AuditLog, Result, parse_head, verify
from protocols.errors import DatasiteError, StateError
from protocols.records import utc_text
from protocols.request import ComputationRequest, digest, parse_signed, sign_request, to_text
from tests.parties.control.offices import (
    CALLER,
    CODE,
    COMMITMENT,
    EMAIL,
    Offices,
    copied,
    introduce,
    make_offices,
    reviewer,
    running,
)
from tests.waiting import PATIENCE, until


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Offices:
    return make_offices(tmp_path_factory.mktemp("offices"))


@pytest.fixture
def offices(template: Offices, tmp_path: Path) -> Offices:
    return copied(template, tmp_path)


def events(offices: Offices) -> list[str]:
    return [f"{entry.event} {entry.result}" for entry in AuditLog(offices.bank.audit_path, "bank").entries()]


def count(offices: Offices, event: AuditEvent, result: str = "ok") -> int:
    return events(offices).count(f"{event} {result}")


def opened(offices: Offices) -> int:
    path = offices.bank.folder / "opened"
    return path.read_text().count("\n") if path.exists() else 0


def folder_of(offices: Offices, request: ComputationRequest, run: int = 1) -> Path:
    return offices.bank.runs / f"{digest(request)}-{run}"


# the good way


def test_from_submission_to_result(offices: Offices) -> None:
    with running(offices):
        request = offices.submitted()
        pending = offices.shim(request, "status", "-1")
        assert (pending["state"], pending["missing"]) == ("PENDING", ["1 more owner must approve"])
        offices.ask("decide", decision=offices.decision(offices.bank, request, Decision.APPROVE))
        ready = offices.shim(request, "status", "-1")
        assert ready["state"] == "APPROVED"
        (approval,) = parse_approvals(str(ready["approval"]))
        assert approval.party == "bank"
        started = offices.start(request)
        assert (started["ok"], started["state"], started["run"]) == (True, "RUNNING", 1)
        offices.wait(request, "DONE")
        assert offices.shim(request, "result")["result"] == {"auc": 0.75, "run": 1}
        assert offices.view(request)["used"] == 1
    verify(offices.bank.audit_path)
    assert [event.split()[0] for event in events(offices)] == [
        "server_started", "user_added", "submitted", "approved", "countersigned", "started",
        "result_released", "server_stopped",
    ]  # fmt: skip


def test_the_worker_gets_an_allow_list_and_no_file_of_the_supervisor(
    offices: Offices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVER_PRIVATE_KEY", "secret")
    with running(offices):
        request = offices.approved()
        offices.start(request)
        offices.wait(request, "DONE")
    folder = folder_of(offices, request)
    names = {line.split("=")[0] for line in (folder / "environment").read_text().splitlines()}
    allowed = {"PATH", "LANG", "LC_ALL", "HOME", "PYTHONPATH", "PYTHONUNBUFFERED", "LC_CTYPE"}
    assert names - allowed - set(NUMERICS) == {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}
    files = (folder / "open-files").read_text().split()
    assert len(files) == 5, files  # stdin, stdout, stderr, the lock, the listing itself
    wrong = [
        p.name
        for p in folder.iterdir()
        if p.name in ("run.json", "worker.log", "lock") and p.stat().st_mode & 0o77
    ]
    assert wrong == []
    assert not alive(folder)


def test_approve_deny_and_user_become_tasks_of_the_steward(offices: Offices) -> None:
    with running(offices, blocks=lambda: ("customers",)):
        published = offices.ask("next_task", timeout=1)["task"]
        assert isinstance(published, dict)
        assert (published["kind"], published["block"]) == ("publish", "customers")
        user = offices.ask("next_task", timeout=1)["task"]
        assert isinstance(user, dict)
        assert (user["kind"], user["email"]) == ("add_user", EMAIL)
        assert len(str(user["password"])) >= 16
        assert offices.ask("next_task", timeout=0)["task"] is None
        request = offices.approved()
        task = offices.ask("next_task", timeout=1)["task"]
        assert isinstance(task, dict)
        assert (task["kind"], task["digest"], task["caller"]) == ("approve", digest(request), CALLER)
        offices.ask("task_done", id=published["id"], ok=True, problems="")
        offices.ask("task_done", id=user["id"], ok=True, problems="")
    with running(offices):  # the one task that nobody ended is there again
        again = offices.ask("next_task", timeout=1)["task"]
        assert again == task
        failed = offices.ask("task_done", id=task["id"], ok=False, problems="text differs from the template")
        assert failed["ok"] is True
        assert offices.ask("next_task", timeout=0)["task"] is None
        problems = offices.ask("request", digest=digest(request))["problems"]
        assert problems == ["approve: text differs from the template"]
    assert count(offices, AuditEvent.COUNTERSIGNED, "failed") == 1


def test_the_signed_head_is_of_the_newest_entry(offices: Offices) -> None:
    with running(offices):
        text = offices.ask("sign_head", digest="a" * 64)["head"]
        head = parse_head(str(text), offices.bank.card().signing_key)
        offices.submitted()
    verify(offices.bank.audit_path, heads=[head])
    lines = offices.bank.audit_path.read_bytes().splitlines(keepends=True)
    offices.bank.audit_path.write_bytes(b"".join(lines[: head.head.index - 1]))
    with pytest.raises(Exception, match="entry"):
        verify(offices.bank.audit_path, heads=[head])


# what may not come in


def test_submissions_that_are_refused_and_logged(offices: Offices, tmp_path: Path) -> None:
    thief = init_analyst(tmp_path / "eve", name="eve", organisation="Example Lab")
    request = offices.request()
    stolen = replace(request, analyst=replace(request.analyst, key=thief.card().signing_key))
    shop = replace(request.parties[1], signing_key=keys.public_hex(keys.generate_key()))
    cases = {
        "request": "not a request",
        "roster": to_text(sign_request(stolen, thief.signing_key())),
        "expired": offices.signed(offices.request(expires="2020-01-01T00:00:00Z")),
        "block": offices.signed(offices.request(blocks=(replace(request.blocks[0], commitment="f" * 64),))),
    }
    with running(offices):
        for code, text in cases.items():
            answer = offices.ask("ingest", signed=text, caller=CALLER, email=EMAIL)
            assert (answer["ok"], answer["error"]) == (False, code)
        text = offices.signed(offices.request(parties=(request.parties[0], shop)))
        assert offices.ask("ingest", signed=text, caller=CALLER, email=EMAIL)["error"] == "roster"
        assert (
            offices.ask("ingest", signed=offices.signed(request), caller=CALLER, email="eve@lab")["error"]
            == "request"
        )
        assert offices.ask("requests")["requests"] == []
    assert count(offices, AuditEvent.SUBMITTED, "refused") == len(cases) + 2


def test_a_request_belongs_to_the_caller_who_submitted_it(offices: Offices) -> None:
    other = "f" * 64
    with running(offices):
        request = offices.approved()
        text = offices.signed(request)
        assert offices.ask("ingest", signed=text, caller=CALLER, email=EMAIL)["ok"] is True
        assert offices.ask("ingest", signed=text, caller=other, email=EMAIL)["error"] == "request"
        for what in ("start", "status", "cancel", "result"):
            answer = offices.shim(
                request, what, offices.shop_approval(request) if what == "start" else "", caller=other
            )
            assert (answer["ok"], answer["error"]) == (False, "request")
        assert offices.view(request)["state"] == "APPROVED"
    assert opened(offices) == 0
    assert count(offices, AuditEvent.SUBMITTED) == 1
    assert count(offices, AuditEvent.START_REFUSED, "refused") == 1


def test_foreign_code_is_shown_and_can_not_be_approved(offices: Offices) -> None:
    with running(offices):
        told = {"name": "evil", "caller": CALLER, "email": EMAIL, "reasons": ["text differs"]}
        offices.ask("ingest_foreign", **told, warnings=["line 1: file: open"], code="open('x')\n\x1b[2J")
        (foreign,) = offices.ask("requests")["foreign"]  # type: ignore[misc]
        assert (foreign["name"], foreign["warnings"]) == ("evil", ["line 1: file: open"])
        assert "code" not in foreign
        shown = offices.ask("foreign", number=foreign["number"], person="owner")
        assert shown["code"] == "open('x')\n\\x1b[2J", "a terminal must not obey it"
        assert offices.ask("foreign", number=9)["error"] == "request"
        assert offices.ask("ingest_foreign", **told, warnings=[1])["error"] == "request"
    assert count(offices, AuditEvent.SUBMITTED, "refused") == 1
    assert count(offices, AuditEvent.VIEWED) == 1


MALFORMED: list[dict[str, object]] = [
    {},
    {"action": 3},
    {"action": "../x"},
    {"action": "request", "digest": "../../etc/passwd"},
    {"action": "start", "digest": ["a"]},
    {"action": "call", "request": "a" * 64, "call": "start", "caller": None},
    {"action": "call", "request": "a" * 64, "call": "status", "argument": "1e9", "caller": CALLER},
    {"action": "task_done", "id": True, "ok": 1},
    {"action": "task_done", "id": 99, "ok": True},
    {"action": "next_task", "timeout": "x"},
    {"action": "decide", "decision": "{}"},
    {"action": "publish", "block": 7},
    {"action": "add_user", "name": "../ana", "email": EMAIL},
    {"action": "status", "digest": "a" * 64},
]


def test_malformed_requests_are_refused_with_a_code(offices: Offices) -> None:
    with running(offices):
        for malformed in MALFORMED:
            answer = call(offices.bank.folder, malformed)
            assert answer["ok"] is False
            assert answer["error"] not in ("internal", ""), malformed


def test_an_account_needs_a_known_analyst_and_is_opened_once(offices: Offices) -> None:
    with running(offices):
        assert offices.ask("add_user", name="eve", email="eve@lab.example.org")["error"] == "roster"
        assert offices.ask("add_user", name="ana", email=EMAIL)["error"] == "roster"


# who approves


def test_the_policy_of_this_party_decides_when_it_countersigns(offices: Offices) -> None:
    write_private(offices.bank.folder / "policy.toml", policy_text(Policy(reviewers=1)))
    create_person(
        offices.bank.folder, name="rev1", role="reviewer", organisation="Board", passphrase=b"correct horse"
    )
    with running(offices):
        request = offices.submitted()
        owner = offices.ask("decide", decision=offices.decision(offices.bank, request, Decision.APPROVE))
        assert (owner["state"], owner["missing"]) == ("PENDING", ["1 more reviewer must approve"])
        refused = offices.start(request)
        assert refused["error"] == "not_approved"
        done = offices.ask(
            "decide", decision=offices.decision(offices.bank, request, Decision.APPROVE, person="rev1")
        )
        assert done["state"] == "APPROVED"
        assert offices.start(request)["ok"] is True
        offices.wait(request, "DONE")


def test_decisions_by_strangers_the_analyst_or_for_others_are_refused(offices: Offices) -> None:
    with running(offices):
        request = offices.submitted()
        for_shop = offices.decision(offices.shop, request, Decision.APPROVE)
        assert offices.ask("decide", decision=for_shop)["error"] == "approval"
        mine = json.loads(offices.decision(offices.bank, request, Decision.APPROVE))
        for field, value in {
            "organisation": "Elsewhere",
            "time": "2020-01-01T00:00:00Z",
            "key": "ab" * 32,
        }.items():
            text = json.dumps(mine | {field: value}, sort_keys=True, separators=(",", ":"))
            assert offices.ask("decide", decision=text)["error"] == "approval"
        key = offices.ana.signing_key()
        add_person(
            offices.bank.folder,
            replace(reviewer("ana-too"), key=keys.public_hex(key), role="owner"),
        )
        keys.save_key(offices.bank.folder / "keys" / "people" / "ana-too.pem", key, b"correct horse")
        herself = offices.decision(offices.bank, request, Decision.APPROVE, person="ana-too")
        assert offices.ask("decide", decision=herself)["error"] == "approval"
        assert offices.view(request)["state"] == "PENDING"
    assert count(offices, AuditEvent.APPROVED) == 0
    assert count(offices, AuditEvent.APPROVED, "refused") == 2


def test_a_request_laxer_than_the_policy_is_not_approvable(offices: Offices) -> None:
    with running(offices):
        request = offices.submitted(minimum_group=5)
        answer = offices.ask("decide", decision=offices.decision(offices.bank, request, Decision.APPROVE))
        assert answer["error"] == "approval"
        assert "minimum_group is 5, our policy asks for at least 10" in str(answer["message"])


def test_a_denial_can_be_thought_over_before_approval(offices: Offices) -> None:
    with running(offices):
        request = offices.submitted()
        denied = offices.decision(offices.bank, request, Decision.DENY, reason="purpose unclear")
        answer = offices.ask("decide", decision=denied)
        assert (answer["state"], answer["reason"]) == ("PENDING", "denied by owner: purpose unclear")
        assert "owner decided to deny" in answer["missing"]  # type: ignore[operator]
        offices.clock.ahead += timedelta(seconds=1)
        answer = offices.ask("decide", decision=offices.decision(offices.bank, request, Decision.APPROVE))
        # the denial stands among the papers; the party's countersignature takes each person's last word
        assert answer["state"] == "APPROVED"
        tasks = [offices.ask("next_task", timeout=0)["task"] for _ in range(3)]
        assert [task["kind"] for task in tasks if isinstance(task, dict)] == ["add_user", "deny", "approve"]


# before a start


def refused_start(
    offices: Offices, request: ComputationRequest, code: str, approvals: str | None = None
) -> str:
    before = count(offices, AuditEvent.START_REFUSED, "refused")
    text = offices.shop_approval(request) if approvals is None else approvals
    answer = offices.shim(request, "start", text)
    assert (answer["ok"], answer["error"]) == (False, code), answer
    assert count(offices, AuditEvent.START_REFUSED, "refused") == before + 1
    last = list(AuditLog(offices.bank.audit_path, "bank").entries())[-1]
    assert (last.who, last.origin) == ("ana", "syft")
    assert opened(offices) == 0
    assert not list(offices.bank.runs.iterdir())
    return str(answer.get("message", ""))


def test_a_start_without_every_approval_is_refused(offices: Offices) -> None:
    with running(offices):
        request = offices.submitted()
        assert "not approved here" in refused_start(offices, request, "not_approved")
        offices.ask("decide", decision=offices.decision(offices.bank, request, Decision.APPROVE))
        assert "shop" in refused_start(offices, request, "not_approved", "")
        other = offices.shop_approval(offices.request(nonce="1" * 32))
        refused_start(offices, request, "approval", other)
        altered = offices.shop_approval(request).replace('"policy_version":"0', '"policy_version":"1')
        refused_start(offices, request, "approval", altered)
        refused_start(offices, request, "approval", "[{}]")


def test_a_start_after_expiry_is_refused(offices: Offices) -> None:
    with running(offices):
        request = offices.approved()
        approvals = offices.shop_approval(request)
        offices.clock.ahead = timedelta(days=8)
        refused_start(offices, request, "expired", approvals)


def test_a_start_with_other_code_is_refused(offices: Offices) -> None:
    with running(offices, code_digest=lambda: "0" * 64):
        refused_start(offices, offices.approved(), "code_digest")


def test_a_start_on_a_replaced_block_is_refused(offices: Offices) -> None:
    version = [1]
    with running(offices, current_block=lambda name: (version[0], COMMITMENT)):
        request = offices.approved()
        version[0] = 2
        assert "version 2" in refused_start(offices, request, "block")


def test_a_start_when_no_port_is_free_is_refused(offices: Offices) -> None:
    with running(offices):
        request = offices.approved()
        _, first, last = parse_address(offices.bank.address)
        taken = [socket.create_server(("127.0.0.1", port)) for port in range(first, last + 1)]
        try:
            refused_start(offices, request, "port_in_use")
        finally:
            for each in taken:
                each.close()
        assert offices.start(request)["ok"] is True


def test_a_start_after_a_peer_left_the_address_book_is_refused(offices: Offices) -> None:
    with running(offices):
        request = offices.approved()
        (offices.bank.folder / "peers" / "shop.json").unlink()
        refused_start(offices, request, "roster")
        introduce(offices.bank, offices.shop)
        assert offices.start(request)["ok"] is True


def test_a_start_under_a_policy_that_became_stricter_is_refused(offices: Offices) -> None:
    with running(offices):
        request = offices.approved()
        write_private(offices.bank.folder / "policy.toml", policy_text(Policy(joint_reviewers=1)))
        assert "over all parties" in refused_start(offices, request, "not_approved")
        write_private(offices.bank.folder / "policy.toml", policy_text(Policy(owners=2)))
        assert "1 more owner" in refused_start(offices, request, "not_approved")


def test_a_changed_request_file_is_noticed(offices: Offices) -> None:
    with running(offices):
        request = offices.approved()
        path = offices.bank.folder / "requests" / f"{digest(request)}.json"
        path.write_text(offices.signed(offices.request(runs=9)))
        refused_start(offices, request, "state")


# AC-17


def test_a_single_run_is_used_once_by_threads_sessions_and_restarts(offices: Offices) -> None:
    with running(offices):
        request = offices.approved()
        answers: list[dict[str, object]] = []
        threads = [threading.Thread(target=lambda: answers.append(offices.start(request))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(bool(answer["ok"]) for answer in answers) == [False, False, False, True]
        for answer in answers:
            if not answer["ok"]:
                assert (answer["error"], answer["used"], answer["allowed"]) == ("runs_used", 1, 1)
                assert answer["message"] == "used 1 of 1"
        offices.wait(request, "DONE")
        assert offices.start(request)["message"] == "used 1 of 1"
    with running(offices):
        assert offices.start(request)["message"] == "used 1 of 1"
        owner = offices.ask("start", digest=digest(request), approvals=offices.shop_approval(request))
        assert owner["message"] == "used 1 of 1"
        assert offices.view(request)["state"] == "DONE"
    assert opened(offices) == 1
    assert count(offices, AuditEvent.STARTED) == 1
    assert count(offices, AuditEvent.START_REFUSED, "refused") == 6
    reasons = [
        dict(entry.detail)["reason"]
        for entry in AuditLog(offices.bank.audit_path, "bank").entries()
        if entry.event is AuditEvent.START_REFUSED
    ]
    assert set(reasons) == {"used 1 of 1"}


def test_a_run_that_never_sent_a_message_is_given_back(offices: Offices) -> None:
    with running(offices, "unmet"):
        request = offices.approved()
        offices.start(request)
        view = offices.wait(request, "FAILED")
        assert (view["reason"], view["used"]) == ("peer_refused", 0)
        assert offices.shim(request, "result")["error"] == "state"
    with running(offices, "quick"):
        assert offices.start(request)["run"] == 1
        assert offices.wait(request, "DONE")["used"] == 1


def test_two_runs_are_two_runs(offices: Offices) -> None:
    with running(offices):
        request = offices.approved(runs=2)
        for run in (1, 2):
            assert offices.start(request)["run"] == run
            offices.wait(request, "DONE")
            assert offices.shim(request, "result")["result"] == {"auc": 0.75, "run": run}
        assert offices.start(request)["message"] == "used 2 of 2"


# while it runs


def test_status_waits_for_news_and_only_one_call_waits(
    offices: Offices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parties.control.workers.WORD_SECONDS", 0.3)
    monkeypatch.setattr("parties.control.workers.TERM_SECONDS", 0.3)
    with running(offices, "stubborn"):
        request = offices.approved()
        offices.start(request)
        seen = until(lambda: offices.view(request), lambda view: view["seq"] == 1)["seq"]
        allowed: list[bool] = []
        may_wait = Watch._may_wait

        def noted(watch: Watch, about: str) -> bool:
            allowed.append(may_wait(watch, about))
            return allowed[-1]

        monkeypatch.setattr(Watch, "_may_wait", noted)
        waiting = threading.Thread(
            target=lambda: offices.ask("status", digest=digest(request), seen=str(seen))
        )
        waiting.start()
        until(lambda: allowed, bool)
        for _ in range(5):
            offices.shim(request, "status", str(seen))
        assert allowed == [True, *[False] * 5]
        assert waiting.is_alive()
        offices.ask("cancel", digest=digest(request))
        waiting.join(PATIENCE)
        assert not waiting.is_alive()


def test_progress_is_seen(offices: Offices) -> None:
    with running(offices, "steps"):
        request = offices.approved()
        offices.start(request)
        first = until(lambda: offices.shim(request, "status", "-1"), lambda view: view["seq"] != 0)
        later = offices.shim(request, "status", str(first["seq"]))
        assert later["seq"] > first["seq"]  # type: ignore[operator]
        assert (later["state"], later["phase"], later["of"]) == ("RUNNING", "train", 2000)


def test_the_analyst_sees_no_traffic_and_a_rounded_loss_the_owner_sees_all(offices: Offices) -> None:
    with running(offices, "steps"):
        request = offices.approved()
        offices.start(request)
        owners = until(lambda: offices.view(request), lambda view: view["seq"] != 0)
        assert owners["bytes_sent"] == 40 * owners["step"]  # type: ignore[operator]
        assert owners["loss"] == 1.0 / 3
        for call in ("status", "cancel"):
            seen = offices.shim(request, call)
            assert seen["loss"] == (0.333 if call == "status" else None)
            assert not [name for name in seen if "bytes" in name]


def test_cancel_ends_the_run_at_once(offices: Offices) -> None:
    with running(offices, "steps"):
        request = offices.approved()
        assert offices.shim(request, "cancel")["error"] == "state"
        offices.start(request)
        until(lambda: offices.view(request), lambda view: view["seq"] != 0)
        assert offices.shim(request, "cancel")["state"] == "CANCELLED"
        assert not alive(folder_of(offices, request))
        last = json.loads((folder_of(offices, request) / "progress.json").read_text())
        assert last["state"] == "CANCELLED", "it stopped at the word, not by force after a while"
        assert not (folder_of(offices, request) / "checkpoints").exists()
        assert offices.shim(request, "cancel")["state"] == "CANCELLED"
        assert offices.start(request)["message"] == "used 1 of 1"


def test_a_worker_that_ignores_everything_is_killed_with_its_group(
    offices: Offices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parties.control.workers.WORD_SECONDS", 0.3)
    monkeypatch.setattr("parties.control.workers.TERM_SECONDS", 0.3)
    with running(offices, "stubborn"):
        request = offices.approved()
        offices.start(request)
        until(lambda: offices.view(request), lambda view: view["seq"] != 0)
        assert offices.shim(request, "cancel")["state"] == "CANCELLED"
        assert not alive(folder_of(offices, request))


def test_revocation_stops_the_run_deletes_and_marks(offices: Offices) -> None:
    with running(offices, "steps"):
        request = offices.approved()
        offices.start(request)
        until(lambda: offices.view(request), lambda view: view.get("step", 0) > 2)  # type: ignore[operator]
        revoked = offices.decision(offices.bank, request, Decision.REVOKE, reason="a subject objected")
        assert offices.ask("decide", decision=revoked)["state"] == "REVOKED"
        folder = folder_of(offices, request)
        until(lambda: alive(folder), lambda lives: not lives)
        view = offices.wait(request, "REVOKED")
        assert view["reason"] == "revoked by owner: a subject objected"
        until(lambda: count(offices, AuditEvent.TEMPORARY_DELETED), lambda deleted: deleted == 1)
        assert not (folder / "checkpoints").exists()
        assert not (folder / "private.seed").exists()
        assert json.loads((folder / "withdrawn.json").read_text())["mark"] == "consent withdrawn by bank"
        assert offices.start(request)["error"] == "revoked"
        again = offices.ask("decide", decision=offices.decision(offices.bank, request, Decision.APPROVE))
        assert again["error"] == "revoked"
        kinds = []
        while isinstance(task := offices.ask("next_task", timeout=0)["task"], dict):
            kinds.append(task["kind"])
        assert kinds == ["add_user", "approve", "deny"]


def test_a_finished_model_is_marked_and_its_result_withheld_after_revocation(offices: Offices) -> None:
    with running(offices):
        request = offices.approved()
        offices.start(request)
        offices.wait(request, "DONE")
        offices.ask("decide", decision=offices.decision(offices.bank, request, Decision.REVOKE))
        assert (folder_of(offices, request) / "withdrawn.json").exists()
        assert offices.shim(request, "result")["ok"] is False


def test_a_run_whose_end_can_not_be_read_is_interrupted(
    offices: Offices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parties.control.settling.run_end", lambda *arguments: {}["none"])
    with running(offices):
        request = offices.approved()
        offices.start(request)
        assert offices.wait(request, "INTERRUPTED")["used"] == 1
    assert count(offices, AuditEvent.RUN_INTERRUPTED, "failed") == 1


@pytest.mark.parametrize("content", ["", "{", "[]", '{"seq": 1, "state": "ASLEEP"}'])
def test_damaged_papers_of_one_request_do_not_stop_the_party(
    offices: Offices, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(offices):
        bad, pending = offices.approved(), offices.submitted(nonce="1" * 32)
        offices.start(bad)
        offices.wait(bad, "DONE")
    (folder_of(offices, bad) / "progress.json").write_text(content)
    for request in (bad, pending):
        (offices.bank.folder / "requests" / f"{digest(request)}.json").write_text(content)
    with running(offices):
        assert offices.view(bad)["state"] == "DONE"
        listed = offices.ask("requests")["requests"]
        assert [line["purpose"] for line in listed] == ["damaged"] * 2  # type: ignore[attr-defined]
        good = offices.approved(nonce="2" * 32)
        revoked = offices.ask(
            "decide", decision=offices.decision(offices.bank, good, Decision.REVOKE, reason="no")
        )
        assert revoked["state"] == "REVOKED"
    warned = capsys.readouterr().err
    for request in (bad, pending):
        assert f"requests/{digest(request)}.json is damaged" in warned


@contextmanager
def unwritable_log(offices: Offices) -> Iterator[None]:
    """Inside the block no entry can be written: a folder stands in the log's place."""
    aside = offices.bank.folder / "aside.jsonl"
    offices.bank.audit_path.rename(aside)
    offices.bank.audit_path.mkdir()
    try:
        yield
    finally:
        offices.bank.audit_path.rmdir()
        aside.rename(offices.bank.audit_path)


@pytest.mark.parametrize("what", [Decision.REVOKE, Decision.DENY])
def test_what_ends_a_run_does_not_wait_for_the_log(offices: Offices, what: Decision) -> None:
    with running(offices, "steps"):
        request = offices.approved()
        offices.start(request)
        until(lambda: offices.view(request), lambda view: view.get("step", 0) > 2)  # type: ignore[operator]
        folder = folder_of(offices, request)
        with unwritable_log(offices):
            answer = offices.ask(
                "decide", decision=offices.decision(offices.bank, request, what, reason="no")
            )
            assert (answer["ok"], answer["error"]) == (False, "audit")
            until(lambda: alive(folder), lambda lives: not lives)
            assert offices.wait(request, "REVOKED")["state"] == "REVOKED"
            assert offices.start(request)["ok"] is False
        assert (folder / "withdrawn.json").exists()
        assert offices.start(request)["error"] == "revoked"
        tasks = [offices.ask("next_task", timeout=0)["task"] for _ in range(3)]
        assert [task["kind"] for task in tasks if isinstance(task, dict)] == ["add_user", "approve", "deny"]
    verify(offices.bank.audit_path)


def test_a_cancellation_does_not_wait_for_the_log(offices: Offices) -> None:
    with running(offices, "steps"):
        request = offices.approved()
        offices.start(request)
        until(lambda: offices.view(request), lambda view: view["seq"] != 0)
        with unwritable_log(offices):
            assert offices.shim(request, "cancel")["error"] == "audit"
            until(lambda: alive(folder_of(offices, request)), lambda lives: not lives)
        assert offices.wait(request, "CANCELLED")["state"] == "CANCELLED"


def test_nothing_is_given_without_its_entry(offices: Offices) -> None:
    with running(offices):
        request, other = offices.submitted(), offices.request(nonce="1" * 32)
        users = (offices.bank.folder / "users.json").read_bytes()
        ben = init_analyst(offices.bank.folder.parent / "ben", name="ben", organisation="Example Lab")
        introduce(offices.bank, ben)
        with unwritable_log(offices):
            for answer in (
                offices.ask("add_user", name="ben", email="ben@lab.example.org"),
                offices.ask("ingest", signed=offices.signed(other), caller=CALLER, email=EMAIL),
                offices.ask("decide", decision=offices.decision(offices.bank, request, Decision.APPROVE)),
            ):
                assert (answer["ok"], answer["error"]) == (False, "audit")
        assert (offices.bank.folder / "users.json").read_bytes() == users
        (line,) = offices.ask("requests")["requests"]  # type: ignore[misc]
        assert (line["state"], line["missing"]) == ("PENDING", ["1 more owner must approve"])


def test_an_act_that_fails_after_its_entry_leaves_a_second_one(
    offices: Offices, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, value: object) -> None:
        raise OSError(28, "No space left on device")

    with running(offices):
        ben = init_analyst(offices.bank.folder.parent / "ben", name="ben", organisation="Example Lab")
        introduce(offices.bank, ben)
        monkeypatch.setattr("parties.home.accounts.write_json", full)
        assert offices.ask("add_user", name="ben", email="ben@lab.example.org")["error"] == "internal"
        last = list(AuditLog(offices.bank.audit_path, "bank").entries())[-2:]
        assert [(entry.event, entry.result) for entry in last] == [
            (AuditEvent.USER_ADDED, Result.OK),
            (AuditEvent.USER_ADDED, Result.FAILED),
        ]


def test_accounts_that_are_opened_at_the_same_time_are_all_kept(offices: Offices) -> None:
    names = [f"a{number}" for number in range(4)]
    for name in names:
        analyst = init_analyst(offices.bank.folder.parent / name, name=name, organisation="Example Lab")
        introduce(offices.bank, analyst)
    with running(offices):
        threads = [
            threading.Thread(target=offices.ask, args=("add_user",), kwargs={"name": n, "email": f"{n}@lab"})
            for n in names
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert set(json.loads((offices.bank.folder / "users.json").read_text())) == {"ana", *names}


def test_a_worker_that_vanishes_leaves_an_interrupted_run(offices: Offices) -> None:
    with running(offices, "vanish"):
        request = offices.approved()
        offices.start(request)
        view = offices.wait(request, "INTERRUPTED")
        assert (view["reason"], view["used"]) == ("worker_ended", 1)


def test_the_supervisor_logs_an_end_that_its_worker_could_not(offices: Offices) -> None:
    with running(offices, "full"):
        request = offices.approved()
        offices.start(request)
        assert offices.wait(request, "FAILED")["reason"] == "audit"
        until(lambda: count(offices, AuditEvent.RUN_FAILED, "failed"), (1).__eq__)
    assert not (folder_of(offices, request) / "artifacts.bin").exists()
    assert count(offices, AuditEvent.TEMPORARY_DELETED) == 1


# restarts


def test_a_stop_lets_the_worker_checkpoint_and_a_restart_takes_the_run_up(offices: Offices) -> None:
    with running(offices, "resume"):
        request = offices.approved()
        offices.start(request)
        until(lambda: offices.view(request), lambda view: view.get("step", 0) > 2)  # type: ignore[operator]
        folder = folder_of(offices, request)
    assert not alive(folder)
    assert list((folder / "checkpoints").iterdir())
    with running(offices, "resume"):
        view = offices.view(request)
        assert (view["state"], view["used"]) == ("INTERRUPTED", 1)
        again = offices.start(request)
        assert (again["run"], again["resumed"]) == (1, True)
        assert offices.wait(request, "DONE")["used"] == 1
    assert count(offices, AuditEvent.STARTED) == 2
    verify(offices.bank.audit_path)


def test_everything_is_as_before_after_a_restart(offices: Offices) -> None:
    with running(offices):
        approved = offices.approved()
        denied = offices.submitted(nonce="1" * 32)
        offices.ask("decide", decision=offices.decision(offices.bank, denied, Decision.DENY, reason="no"))
        offices.submitted(nonce="2" * 32)
        before = offices.ask("requests")
        head = list(AuditLog(offices.bank.audit_path, "bank").entries())[-1].hash
    with running(offices):
        assert offices.ask("requests") == before
        assert offices.view(approved)["state"] == "APPROVED"
        assert head in offices.bank.audit_path.read_text()
    verify(offices.bank.audit_path)


class Crash(BaseException):
    """The process dies here: no handler of ours takes it for an error."""


@pytest.mark.parametrize(
    "place", ["parties.control.runs.Ledger.approve", "parties.control.tasks.TaskQueue.put"]
)
def test_a_crash_while_countersigning_is_made_good_at_the_next_start(offices: Offices, place: str) -> None:
    with running(offices) as supervisor:
        request = offices.submitted()
        decision = offices.decision(offices.bank, request, Decision.APPROVE)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(place, lambda *arguments: (_ for _ in ()).throw(Crash()))
            with pytest.raises(Crash):
                supervisor._decisions.take(decision)
        view = offices.ask("request", digest=digest(request))
        assert (view["state"], view["missing"]) == ("PENDING", [])
    with running(offices):
        assert offices.view(request)["state"] == "APPROVED"
        tasks = [offices.ask("next_task", timeout=0)["task"] for _ in range(3)]
        kinds = [task["kind"] for task in tasks if isinstance(task, dict)]
        assert set(kinds) == {"add_user", "approve"}
        assert offices.start(request)["ok"] is True
        offices.wait(request, "DONE")
    verify(offices.bank.audit_path)


def test_what_the_policy_no_longer_allows_stays_pending_at_the_next_start(offices: Offices) -> None:
    with running(offices) as supervisor:
        request = offices.submitted()
        decision = offices.decision(offices.bank, request, Decision.APPROVE)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                "parties.control.runs.Ledger.approve", lambda *arguments: (_ for _ in ()).throw(Crash())
            )
            with pytest.raises(Crash):
                supervisor._decisions.take(decision)
    write_private(offices.bank.folder / "policy.toml", policy_text(Policy(minimum_group=20)))
    with running(offices):
        assert offices.view(request)["state"] == "PENDING"


def test_a_crash_before_a_revoked_model_was_marked_is_made_good(offices: Offices) -> None:
    with running(offices):
        request = offices.approved()
        offices.start(request)
        offices.wait(request, "DONE")
        offices.ask("decide", decision=offices.decision(offices.bank, request, Decision.REVOKE))
    mark = folder_of(offices, request) / "withdrawn.json"
    first = mark.read_bytes()
    with running(offices):
        assert mark.read_bytes() == first
    mark.unlink()
    with running(offices):
        assert json.loads(mark.read_text())["reason"] == "revoked by owner: a test"


def test_a_resumed_run_whose_worker_cannot_be_spawned_stays_resumable(
    offices: Offices, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(offices, "vanish"):
        request = offices.approved()
        offices.start(request)
        offices.wait(request, "INTERRUPTED")
        checkpoint = folder_of(offices, request) / "checkpoints" / "step"
        checkpoint.parent.mkdir(exist_ok=True)
        checkpoint.touch()
        with monkeypatch.context() as patch:
            patch.setattr(
                "parties.control.workers.Workers.spawn",
                lambda *arguments: (_ for _ in ()).throw(OSError(11, "Resource temporarily unavailable")),
            )
            assert offices.start(request)["error"] == "state"
            assert offices.view(request)["state"] == "INTERRUPTED"
        assert checkpoint.exists()
        assert offices.start(request)["resumed"] is True
    assert count(offices, AuditEvent.RUN_INTERRUPTED, "failed") == 1


SERVE = """
import sys
from pathlib import Path
from parties.home.state import open_state
from parties.control.supervisor import Options, serve
folder, dummy, behaviour = sys.argv[1:]
serve(
    open_state(Path(folder), test_mode=True),
    Options(
        current_block=lambda name: (1, "c" * 64),
        code_digest=lambda: "d" * 64,
        worker_command=(sys.executable, dummy, behaviour),
    ),
    ready=lambda: print("ready", flush=True),
)
"""


@contextmanager
def served(offices: Offices, behaviour: str) -> Iterator[subprocess.Popen[str]]:
    """A supervisor in a process of its own."""
    dummy = Path(__file__).with_name("dummy_worker.py")
    root = Path(__file__).resolve().parents[3]
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(offices.bank.folder), str(dummy), behaviour],
        stdout=subprocess.PIPE, text=True, cwd=root, env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        if not (offices.bank.folder / "users.json").exists():
            offices.ask("add_user", name="ana", email=EMAIL)
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.mark.slow
def test_a_killed_supervisor_leaves_no_worker_and_an_interrupted_run(offices: Offices) -> None:
    with served(offices, "resume") as process:
        request = offices.approved()
        offices.start(request)
        until(lambda: offices.view(request), lambda view: view.get("step", 0) > 2)  # type: ignore[operator]
        folder = folder_of(offices, request)
        assert alive(folder)
        process.send_signal(signal.SIGKILL)
        process.wait()
        until(lambda: alive(folder), lambda lives: not lives)
    with running(offices, "resume"):
        assert offices.wait(request, "INTERRUPTED")["used"] == 1
        assert offices.start(request)["resumed"] is True
        offices.wait(request, "DONE")
    verify(offices.bank.audit_path)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_everything_in_order(offices: Offices, number: signal.Signals) -> None:
    with served(offices, "steps") as process:
        request = offices.approved()
        offices.start(request)
        until(lambda: offices.view(request), lambda view: view["seq"] != 0)
        process.send_signal(number)
        assert process.wait(PATIENCE) == 0
        assert not alive(folder_of(offices, request))
        assert not (offices.bank.folder / NAME).exists()
    assert events(offices)[-1] == "server_stopped ok"


@pytest.mark.slow
def test_two_processes_start_one_run(offices: Offices) -> None:
    with served(offices, "steps"):
        request = offices.approved()
        program = (
            "import sys; from pathlib import Path; from parties.control.socket import call;"
            "print(call(Path(sys.argv[1]), {'action': 'call', 'request': sys.argv[2], 'call': 'start',"
            "'argument': sys.argv[3], 'caller': sys.argv[4]}))"
        )
        arguments = [str(offices.bank.folder), digest(request), offices.shop_approval(request), CALLER]
        clients = [
            subprocess.Popen(
                [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True,
                cwd=Path(__file__).resolve().parents[3],
            )
            for _ in range(2)
        ]  # fmt: skip
        answers = sorted(client.communicate(timeout=PATIENCE)[0] for client in clients)
    assert "used 1 of 1" in answers[0]
    assert "'ok': True" in answers[1]


def test_a_second_supervisor_is_refused(offices: Offices) -> None:
    with running(offices):
        with pytest.raises(StateError, match="already runs"):
            serve(offices.bank, Options(current_block=lambda name: (1, ""), code_digest=lambda: ""))
        assert offices.ask("requests")["ok"] is True


def test_an_analyst_is_not_served(offices: Offices) -> None:
    with pytest.raises(StateError, match="analyst"):
        Supervisor(offices.ana, Options(current_block=lambda name: (1, ""), code_digest=lambda: ""))


@pytest.mark.slow
def test_shutdown_by_request(offices: Offices) -> None:
    with served(offices, "quick") as process:
        assert offices.ask("shutdown")["ok"] is True
        assert process.wait(PATIENCE) == 0


# injected seeds and the syft server's process


def test_an_injected_seed_is_logged_and_told(offices: Offices, capsys: pytest.CaptureFixture[str]) -> None:
    with running(offices, injected_seed=3):
        request = offices.approved()
        offices.start(request)
        offices.wait(request, "DONE")
    assert "WARNING" in capsys.readouterr().err
    assert count(offices, AuditEvent.PRIVATE_SEED_INJECTED) == 2
    seed = json.loads((folder_of(offices, request) / "run.json").read_text())["seed"]
    assert re.fullmatch("[0-9a-f]{64}", seed)


def test_the_syft_process_is_stopped_and_started_again(offices: Offices) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def launcher(state: object) -> subprocess.Popen[bytes]:
        started.append(
            subprocess.Popen([shutil.which("cat") or "cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        )
        return started[-1]

    with running(offices, launcher=launcher):
        started[0].kill()
        until(lambda: len(started), lambda number: number == 2)
        assert offices.ask("requests")["ok"] is True
    assert started[1].wait(PATIENCE) == 0
    assert count(offices, AuditEvent.SERVER_STOPPED, "failed") == 1


def test_a_syft_server_that_cannot_be_launched_ends_the_start_cleanly(offices: Offices) -> None:
    def launcher(state: object) -> subprocess.Popen[bytes]:
        raise DatasiteError("port 8081 is in use")

    options = Options(current_block=lambda name: (1, ""), code_digest=lambda: CODE, launcher=launcher)
    with pytest.raises(DatasiteError, match="in use"):
        serve(offices.bank, options)
    assert not (offices.bank.folder / NAME).exists()
    with only_one(offices.bank):
        pass


def test_expired_checkpoints_go_at_the_next_start(offices: Offices) -> None:
    with running(offices, "resume"):
        request = offices.approved(
            expires=utc_text((datetime.now(UTC) + timedelta(days=1)).replace(microsecond=0))
        )
        offices.start(request)
        until(lambda: offices.view(request), lambda view: view.get("step", 0) > 2)  # type: ignore[operator]
    assert (folder_of(offices, request) / "checkpoints").exists()
    offices.clock.ahead = timedelta(days=2)
    with running(offices):
        assert not (folder_of(offices, request) / "checkpoints").exists()
    assert count(offices, AuditEvent.TEMPORARY_DELETED) == 1


def test_the_request_page_has_the_signed_text(offices: Offices) -> None:
    with running(offices):
        request = offices.submitted()
        page = offices.ask("request", digest=digest(request))
        assert parse_signed(str(page["signed"])).request == request
        assert page["missing"] == ["1 more owner must approve"]
    assert count(offices, AuditEvent.VIEWED) == 1


def test_a_party_of_another_name_is_not_ours(offices: Offices, tmp_path: Path) -> None:
    third = init_party(tmp_path / "third", name="third", organisation="Third")
    introduce(offices.bank, third)
    request = offices.request()
    entry = replace(
        request.parties[0], name="third", signing_key=third.card().signing_key,
        link_certificate=third.card().link_certificate, address="",
    )  # fmt: skip
    with running(offices):
        text = offices.signed(offices.request(parties=(entry, request.parties[1])))
        assert offices.ask("ingest", signed=text, caller=CALLER, email=EMAIL)["error"] == "roster"
