"""A request for one run runs once, however it is asked for again (AC-17); owner and analyst in the log (AC-18)."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from parties.control.asking import Refusal, accepted, ask
from parties.roles import analyst
from parties.roles.auditing import verify_log, write_peer_heads
from parties.syft_side.access import Datasite
from protocols import keys
from protocols.audit import parse_head, verify
from protocols.errors import AuditError
from protocols.request import ComputationRequest
from protocols.request import digest as request_digest
from tests.full_path.lab import BANK, PARTIES, Lab

pytestmark = pytest.mark.syft
Start = Callable[[Lab, ComputationRequest], None]


def same_session(lab: Lab, request: ComputationRequest) -> None:
    analyst.start(request, lab.sites)


def other_session(lab: Lab, request: ComputationRequest) -> None:
    analyst.start(request, lab.log_in())


def owner(lab: Lab, request: ComputationRequest) -> None:
    text = lab.approvals(request)
    ask(lab.states[BANK].folder, "start", digest=request_digest(request), approvals=text)


@pytest.mark.parametrize("start", [same_session, other_session, owner])
def test_AC17_a_second_start_is_refused_before_anything_is_opened(
    lab: Lab, finished: ComputationRequest, start: Start
) -> None:
    opens, refused = lab.opens(BANK), lab.refusals(BANK, finished)
    with pytest.raises(Refusal, match="used 1 of 1") as caught:
        start(lab, finished)
    assert caught.value.reason == "runs_used"
    assert lab.opens(BANK) == opens
    assert lab.view(BANK, finished)["state"] == "DONE"
    assert lab.refusals(BANK, finished) == [*refused, "runs_used"]


def test_AC17_of_two_starts_at_the_same_moment_one_runs(lab: Lab) -> None:
    request = lab.approved()
    text, digest = lab.approvals(request), request_digest(request)
    opens = {name: lab.opens(name) for name in PARTIES}
    barrier, answers = threading.Barrier(2), []

    def start(site: Datasite) -> None:
        barrier.wait()
        answers.append(site.call(digest, "start", text))

    threads = [threading.Thread(target=start, args=(sites[BANK],)) for sites in (lab.log_in(), lab.log_in())]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refused, allowed = sorted(answers, key=lambda answer: answer["ok"] is True)
    assert allowed["state"] == "RUNNING"
    assert (refused["error"], refused["used"], refused["allowed"]) == ("runs_used", 1, 1)
    accepted(lab.sites["retailer"].call(digest, "start", text), "retailer")
    lab.done(request)
    for name in PARTIES:
        assert lab.opens(name) == opens[name] + 1
        assert lab.view(name, request)["used"] == 1
    assert lab.refusals(BANK, request) == ["runs_used"]


def test_AC18_P6_the_log_tells_who_started_what_whatever_the_analyst_deletes_in_syft(lab: Lab) -> None:
    request = lab.approved(runs=2)
    text = lab.approvals(request)
    for name in PARTIES:
        ask(lab.states[name].folder, "start", digest=request_digest(request), approvals=text)
    lab.done(request)
    lab.start(request)
    lab.done(request)
    analyst.results(request, lab.sites)
    before = {name: lab.log_of(name, request) for name in PARTIES}
    for name in PARTIES:
        assert delete_syft_logs(lab.sites[name]) > 0
    for name in PARTIES:
        assert lab.log_of(name, request) == before[name]
        events = [
            (entry.event.value, entry.role, entry.origin) for entry in before[name] if entry.who != "worker"
        ]
        told = [event for event in events if event[0] in TOLD]
        assert told == [
            ("submitted", "analyst", "syft"),
            ("approved", "owner", "socket"),
            ("started", "owner", "socket"),
            ("started", "analyst", "syft"),
            ("result_released", "analyst", "syft"),
        ]
    heads = lab.folder / "later-heads"
    for name in PARTIES:
        write_peer_heads(lab.states[name], heads)
    for name in PARTIES:
        verify_log(lab.states[name], (heads / f"{name}-head.json",))
    assert_no_change_passes(lab, heads / "bank-head.json", lab.folder / "altered.jsonl")


def assert_no_change_passes(lab: Lab, held: Path, path: Path) -> None:
    """A changed byte, swapped, dropped and cut-off entries of the bank's log are found, by name of the entry."""
    lines = lab.states[BANK].audit_path.read_bytes().splitlines(keepends=True)
    head = parse_head(held.read_text().strip(), keys.public_hex(lab.states[BANK].signing_key()))
    cut = lines[: head.head.index - 1]
    altered = [*lines[:2], lines[2].replace(b'"time":"2', b'"time":"3'), *lines[3:]]
    swapped = [*lines[:2], lines[3], lines[2], *lines[4:]]
    for changed, entry in ((altered, 3), (swapped, 3), ([*lines[:2], *lines[3:]], 3), (cut, head.head.index)):
        assert changed != lines
        path.write_bytes(b"".join(changed))
        with pytest.raises(AuditError, match=rf"entry {entry}\b"):
            verify(path, heads=[head])
    path.write_bytes(b"".join(lines))
    verify(path, heads=[head])


TOLD = ("submitted", "approved", "started", "result_released")


def delete_syft_logs(site: Datasite) -> int:
    """Deletes every syft log that the analyst's account can reach, and makes and deletes one of its own; how many."""
    services = site._client.api.services  # type: ignore[attr-defined]
    uid = site._client.id  # type: ignore[attr-defined]
    services.log.add(uid=uid, job_id=uid, stdout="made to be deleted")
    found = services.log.get_all()
    for log in found:
        services.log.delete(uid=log.id)
    assert not services.log.get_all()
    return len(found)
