"""Two supervisors with real workers over TLS, from both approvals to the end at both parties."""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from parties.control.socket import call
from parties.control.supervisor import Options, Supervisor, only_one
from parties.control.workers import alive
from parties.home.state import State
from protocols.approval import Decision, parse_approvals, to_text
from protocols.audit import AuditEvent, AuditLog, Entry, verify
from protocols.request import ComputationRequest, digest
from protocols.wire import unpack_arrays
from tests.parties.control.offices import (
    CALLER,
    CODE,
    COMMITMENT,
    EMAIL,
    Offices,
    copied,
    make_offices,
)
from tests.parties.running import toy
from tests.waiting import PATIENCE, until

TOY = "import sys; sys.argv += [{!r}, 'patient']; from tests.parties.running.toy_worker import main; sys.exit(main())"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Offices:
    return make_offices(tmp_path_factory.mktemp("offices"))


@pytest.fixture
def offices(template: Offices, tmp_path: Path) -> Offices:
    return copied(template, tmp_path)


@contextmanager
def running(state: State, tampered: str = "") -> Iterator[Supervisor]:
    options = Options(
        current_block=lambda name: (1, COMMITMENT),
        code_digest=lambda: CODE,
        worker_command=(sys.executable, "-P", "-c", TOY.format(tampered)),
        injected_seed=1,
    )
    with only_one(state):
        supervisor = Supervisor(state, options)
        supervisor.start()
        try:
            yield supervisor
        finally:
            supervisor.stop()


def toy_request(offices: Offices, steps: int, pause: float) -> ComputationRequest:
    return offices.request(
        computation="toy.sums", parameters=(("pause", pause), ("steps", steps)), manifest=toy.manifest(steps)
    )


def ask(state: State, action: str, **more: object) -> dict[str, object]:
    answer = call(state.folder, {"action": action, **more}, PATIENCE)
    assert answer["ok"], answer
    return answer


def approve_and_start(offices: Offices, request: ComputationRequest) -> None:
    for state in (offices.bank, offices.shop):
        ask(state, "add_user", name="ana", email=EMAIL)
        ask(state, "ingest", signed=offices.signed(request), caller=CALLER, email=EMAIL)
        ask(state, "decide", decision=offices.decision(state, request, Decision.APPROVE))
    start(offices, request)


def shim(state: State, request: ComputationRequest, what: str, argument: str = "") -> dict[str, object]:
    return ask(state, "call", request=digest(request), call=what, argument=argument, caller=CALLER)


def start(offices: Offices, request: ComputationRequest) -> None:
    """What the analyst does: collect both parties' approvals and hand all of them to both."""
    both = [str(shim(state, request, "status", "-1")["approval"]) for state in (offices.bank, offices.shop)]
    text = to_text(approval for each in both for approval in parse_approvals(each))
    for state in (offices.bank, offices.shop):
        assert shim(state, request, "start", text)["state"] == "RUNNING"


def ended(state: State, request: ComputationRequest, expected: str) -> dict[str, object]:
    ends = ("DONE", "FAILED", "INTERRUPTED", "CANCELLED", "REVOKED")
    view = until(lambda: ask(state, "status", digest=digest(request)), lambda found: found["state"] in ends)
    assert view["state"] == expected, view
    return view


def step_reached(state: State, request: ComputationRequest, step: int) -> None:
    until(
        lambda: ask(state, "status", digest=digest(request)),
        lambda view: int(str(view.get("step", 0))) >= step and view["phase"] in ("sum", "rows"),
    )


def total(state: State, request: ComputationRequest) -> bytes:
    path = state.runs / f"{digest(request)}-1" / "artifacts.bin"
    return np.asarray(unpack_arrays(path.read_bytes())["total"]).tobytes()


def log(state: State) -> list[Entry]:
    return list(AuditLog(state.audit_path, state.name).entries())


def events(state: State) -> list[str]:
    return [entry.event.value for entry in log(state)]


def test_both_parties_reach_done_and_log_each_end_once(offices: Offices) -> None:
    with running(offices.bank), running(offices.shop):
        request = toy_request(offices, 12, 0.0)
        approve_and_start(offices, request)
        for state in (offices.bank, offices.shop):
            assert ended(state, request, "DONE")["used"] == 1
            verify(state.audit_path)
            assert events(state).count("run_finished") == 1
            assert events(state).count("messages_reserved") >= 1
            assert "clocks_differ" not in events(state)
            assert not (state.runs / f"{digest(request)}-1" / "checkpoints").exists()
        released = shim(offices.bank, request, "result")["result"]
        assert isinstance(released, dict)
        assert released["digest"] == digest(request)
        assert "12345" not in json.dumps(released["report"])  # rounded for the analyst


def test_P11_clocks_that_differ_are_told_in_log_status_and_review(offices: Offices) -> None:
    """The shop's worker is an hour ahead; both owners see it, each from their side, and the run goes on."""
    with running(offices.bank), running(offices.shop, "an hour ahead"):
        request = toy_request(offices, 12, 0.0)
        approve_and_start(offices, request)
        for state, words in ((offices.bank, "ahead of ours"), (offices.shop, "behind ours")):
            other = {"bank": "shop", "shop": "bank"}[state.name]
            view = ended(state, request, "DONE")
            (seconds,) = re.findall(rf"the clock of {other} is (\d+) s {words}", str(view["note"]))
            assert abs(int(seconds) - 3600) < PATIENCE  # a hello may be long on its way
            (entry,) = (e for e in log(state) if e.event is AuditEvent.CLOCKS_DIFFER)
            assert dict(entry.detail)["peer"] == other
            assert abs(abs(int(dict(entry.detail)["ahead_seconds"])) - 3600) < PATIENCE
            (line,) = ask(state, "request", digest=digest(request))["clocks"]  # type: ignore[misc]
            assert f"the clock of {other} is" in str(line)
            assert words in str(line)


def test_a_revocation_at_one_party_ends_both_and_marks_the_model(offices: Offices) -> None:
    with running(offices.bank), running(offices.shop):
        request = toy_request(offices, 2000, 0.02)
        approve_and_start(offices, request)
        step_reached(offices.shop, request, 3)
        revoked = offices.decision(offices.shop, request, Decision.REVOKE, reason="a subject objected")
        ask(offices.shop, "decide", decision=revoked)
        for state in (offices.bank, offices.shop):
            ended(state, request, "REVOKED")
            folder = state.runs / f"{digest(request)}-1"
            until(lambda folder=folder: alive(folder), lambda lives: not lives)  # type: ignore[misc]
            until((folder / "withdrawn.json").exists, bool)
            assert json.loads((folder / "withdrawn.json").read_text())["mark"] == "consent withdrawn by shop"
            assert not (folder / "checkpoints").exists()
        answer = call(
            offices.bank.folder,
            {"action": "call", "request": digest(request), "call": "start", "argument": "", "caller": CALLER},
        )
        assert answer["error"] == "revoked"
    assert "revoked" in events(offices.shop)
    assert AuditEvent.RUN_CANCELLED.value in events(offices.bank)


@pytest.mark.slow
def test_a_stopped_datasite_resumes_with_its_peer_to_the_same_model(offices: Offices, tmp_path: Path) -> None:
    unbroken = toy_request(offices, 400, 0.0)
    request = toy_request(offices, 400, 0.05)
    with running(offices.shop):
        with running(offices.bank):
            approve_and_start(offices, request)
            step_reached(offices.bank, request, 12)
        failed = ended(offices.shop, request, "FAILED")
        assert failed["reason"] == "peer_stopped:interrupted"
        with running(offices.bank, "hurried"):
            assert ended(offices.bank, request, "INTERRUPTED")["used"] == 1
            start(offices, request)
            ended(offices.bank, request, "DONE")
            assert ended(offices.shop, request, "DONE")["used"] == 1
            for state in (offices.bank, offices.shop):
                ask(state, "ingest", signed=offices.signed(unbroken), caller=CALLER, email=EMAIL)
                ask(state, "decide", decision=offices.decision(state, unbroken, Decision.APPROVE))
            start(offices, unbroken)
            ended(offices.bank, unbroken, "DONE")
    assert total(offices.bank, request) == total(offices.bank, unbroken)
    for state in (offices.bank, offices.shop):
        verify(state.audit_path)
