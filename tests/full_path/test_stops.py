"""A training that is revoked, cancelled or killed while it runs: both sides stop, say why, and go on if they may."""

import json
import os
import signal
from collections.abc import Mapping

import pytest

from parties.control.asking import Refusal
from parties.roles import analyst
from parties.running.runspec import ARTIFACTS_FILE, CHECKPOINTS, RESULT_FILE, TEMPORARY
from parties.syft_side.launcher import ready_path
from protocols.approval import Decision
from protocols.audit import AuditEvent
from protocols.program import Outcome
from protocols.request import ComputationRequest
from protocols.request import digest as request_digest
from tests.full_path.lab import (
    BANK,
    ENDLESS,
    LONG,
    PARTIES,
    RETAILER,
    ROLES,
    SEARCHED,
    Lab,
    gone,
    until,
)

pytestmark = pytest.mark.syft


def messages(lab: Lab, name: str, request: ComputationRequest, way: str) -> int:
    """How many messages the party's log says that it has sent or received in the run that was stopped."""
    (entry,) = [
        entry
        for entry in lab.log_of(name, request)
        if entry.event is AuditEvent.RUN_CANCELLED and entry.who == "worker"
    ]
    (text,) = [str(value) for field, value in entry.detail if field.startswith(f"{way} ")]
    return int(text.split()[0])


def assert_stopped_together(lab: Lab, request: ComputationRequest) -> None:
    """Both stopped within a step: its one or two messages may have left and not come; steps differ by one at most."""
    for sender, receiver in (PARTIES, PARTIES[::-1]):
        sent, received = (
            messages(lab, sender, request, "sent"),
            messages(lab, receiver, request, "received"),
        )
        assert 0 <= sent - received <= 2
    steps = [int(str(lab.view(name, request)["step"])) for name in PARTIES]
    assert abs(steps[0] - steps[1]) <= 1
    for name in PARTIES:
        folder = lab.run_folder(name, request)
        left = [
            part for part in (CHECKPOINTS, TEMPORARY, ARTIFACTS_FILE, RESULT_FILE) if (folder / part).exists()
        ]
        assert not left
        assert "temporary_deleted" in lab.events(name, request)


def test_a_revocation_stops_both_sides_within_a_step_and_marks_the_model(lab: Lab) -> None:
    request = lab.approved(ENDLESS)
    text, digest = lab.approvals(request), request_digest(request)
    lab.start(request)
    lab.at_step(request, 60)
    workers = [lab.worker(name, request) for name in PARTIES]
    lab.decide(RETAILER, request, Decision.REVOKE, reason="a subject objected")
    for name in PARTIES:
        assert lab.ended(name, request)["state"] == "REVOKED"
    gone(workers)
    for name in PARTIES:
        until((lab.run_folder(name, request) / "withdrawn.json").exists, bool)
        mark = json.loads((lab.run_folder(name, request) / "withdrawn.json").read_text())
        assert mark["mark"] == "consent withdrawn by retailer"
        assert mark["step"] >= 60
    assert_stopped_together(lab, request)
    assert lab.events(RETAILER, request).count("revoked") == 1
    assert lab.sites[BANK].call(digest, "start", text)["error"] == "revoked"
    until(lambda: lab.sites[RETAILER].decision(digest).reason, lambda reason: "a subject objected" in reason)
    answer = lab.sites[RETAILER].call(digest, "start", text)
    assert (answer["error"], answer["standing"]) == ("not_approved", "denied")


def test_a_cancel_by_the_analyst_stops_both_sides_and_uses_up_the_run(lab: Lab) -> None:
    request = lab.approved(ENDLESS)
    lab.start(request)
    lab.at_step(request, 20)
    workers = [lab.worker(name, request) for name in PARTIES]
    said = analyst.cancel(request, lab.sites)
    assert said == {BANK: "CANCELLED", RETAILER: "CANCELLED"}
    gone(workers)
    assert_stopped_together(lab, request)
    asked = [
        name
        for name in PARTIES
        for entry in lab.log_of(name, request)
        if entry.event is AuditEvent.RUN_CANCELLED and entry.role == "analyst"
    ]
    assert BANK in asked  # asked first; the retailer's run may have ended before it was asked
    with pytest.raises(Refusal, match="used 1 of 1"):
        lab.start(request)


def assert_taken_up(lab: Lab, request: ComputationRequest, twin: Mapping[str, Outcome]) -> None:
    """The run is started again, goes on from a checkpoint and ends with the bits of an unbroken one."""
    lab.start(request)
    lab.done(request)
    for name in PARTIES:
        starts = [
            dict(entry.detail) for entry in lab.log_of(name, request) if entry.event is AuditEvent.STARTED
        ]
        assert [start["resumed"] for start in starts] == [False, True]
        assert [start["run"] for start in starts] == [1, 1]
        assert lab.view(name, request)["used"] == 1
        psi = [event for event in lab.events(name, request) if event.startswith("psi_")]
        assert psi == ["psi_started", "psi_finished"] * 2
        lab.check_model(name, request, twin)


def test_a_killed_worker_costs_no_run_and_no_bit(lab: Lab, long_twin: Mapping[str, Outcome]) -> None:
    request = lab.approved(LONG)
    lab.start(request)
    lab.at_step(request, 60)
    os.kill(lab.worker(RETAILER, request), signal.SIGKILL)
    found = lab.ended(RETAILER, request)
    assert (found["state"], found["reason"]) == ("INTERRUPTED", "worker_ended")
    told = lab.ended(BANK, request)
    assert (told["state"], told["reason"]) == ("FAILED", "peer_lost")
    assert RETAILER in str(told["note"])
    assert_taken_up(lab, request, long_twin)


def test_a_search_killed_at_each_of_its_places_costs_no_bit(
    lab: Lab, searched_twin: Mapping[str, Outcome]
) -> None:
    """In a training of the search, then while the bank trains its experts, then in the final training."""
    request = lab.approved(SEARCHED)
    lab.start(request)
    for name, phases, step in (
        (RETAILER, ("search given, fold 2",), 60),
        (BANK, ("active_alone", "fedcvt"), 1),  # a quick machine may be beyond the experts
        (RETAILER, ("fedcvt",), 60),
    ):
        lab.at_step(request, step, name, phases=phases)
        os.kill(lab.worker(name, request), signal.SIGKILL)
        assert {lab.ended(each, request)["state"] for each in PARTIES} == {"INTERRUPTED", "FAILED"}
        lab.start(request)
    lab.done(request)
    for name in PARTIES:
        starts = [
            dict(entry.detail) for entry in lab.log_of(name, request) if entry.event is AuditEvent.STARTED
        ]
        assert [start["resumed"] for start in starts] == [False, True, True, True]
        assert lab.view(name, request)["used"] == 1
        lab.check_model(name, request, searched_twin)


def test_AC17_a_killed_supervisor_leaves_an_interrupted_run_and_a_used_up_one_stays_so(
    lab: Lab, finished: ComputationRequest, long_twin: Mapping[str, Outcome]
) -> None:
    request = lab.approved(LONG)
    before = lab.log(BANK)
    lab.start(request)
    lab.at_step(request, 60)
    opens = lab.opens(BANK)
    lab.kill(BANK)
    told = lab.ended(RETAILER, request)
    assert (told["state"], told["reason"]) == ("FAILED", "peer_stopped:interrupted")
    lab.serve(BANK)
    assert lab.log(BANK)[: len(before)] == before
    assert lab.view(BANK, request)["state"] == "INTERRUPTED"
    lab.sites = lab.log_in()
    with pytest.raises(Refusal, match="used 1 of 1"):
        lab.start(finished)
    assert lab.opens(BANK) == opens
    assert_taken_up(lab, request, long_twin)


def test_a_killed_syft_server_comes_back_and_the_run_goes_on(
    lab: Lab, long_twin: Mapping[str, Outcome]
) -> None:
    request = lab.approved(LONG)
    lab.start(request)
    lab.at_step(request, 40)
    old = lab.syft_pid(RETAILER)
    os.kill(old, signal.SIGKILL)
    gone([old])
    lab.done(request)
    until(lambda: ready_path(lab.states[RETAILER]).exists() and lab.syft_pid(RETAILER) != old, bool)
    lab.census()
    assert set(analyst.results(request, lab.log_in())) == set(PARTIES)
    for name in PARTIES:
        lab.check_model(name, request, long_twin)
        assert lab.events(name, request).count("started") == 1, ROLES[name]
    failed = [entry for entry in lab.log(RETAILER) if entry.event is AuditEvent.SERVER_STOPPED]
    assert "failed" in {entry.result.value for entry in failed}
