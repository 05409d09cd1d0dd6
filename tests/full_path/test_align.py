"""The command `align` between two served datasites: a size, then a pairing, each with its own approval."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from parties.control.asking import Refusal
from parties.roles import analyst
from parties.roles.aligning import Wish, align, rehearse_alignment
from parties.roles.auditing import verify_log
from protocols.approval import Decision
from protocols.audit import AuditEvent
from protocols.errors import NotApprovedError, StateError
from protocols.request import ComputationRequest
from tests.full_path import people
from tests.full_path.lab import BANK, BLOCK, PARTIES, RETAILER, Lab, until

pytestmark = [pytest.mark.syft, pytest.mark.slow]
COMMON = people.ALIGNED + people.TEST
WISH = Wish(
    blocks=(f"{BANK}/{BLOCK}", f"{RETAILER}/{BLOCK}"),
    full=False,
    purpose="feasibility",
    purpose_text="",
    minimum_group=10,
    minimum_overlap=20,
    bucket=0,
    max_common=None,
    days=1,
)
SHOWN = {"people": COMMON // 10 * 10, "settings": {"rounded_down_to_a_multiple_of": 10}}


def decided(lab: Lab, what: Decision) -> Callable[[float], None]:
    """In place of the first pause of a waiting analyst: the owners decide."""
    done: list[float] = []

    def sleep(seconds: float) -> None:
        if not done:
            request = newest(lab)
            for name in PARTIES:
                lab.decide(name, request, what)
        done.append(seconds)
        lab.census()

    return sleep


def newest(lab: Lab) -> ComputationRequest:
    path = max((lab.ana.folder / "requests").glob("*.json"), key=lambda found: found.stat().st_mtime)
    request = analyst.find(lab.ana, path.stem).request
    for name in PARTIES:
        until(partial(lab.knows, name, request), bool)
    return request


def run(lab: Lab, wish: Wish, what: Decision = Decision.APPROVE) -> tuple[dict[str, object], str, list[str]]:
    told: list[str] = []
    document, text = align(
        lab.ana,
        wish,
        key=lab.ana.signing_key(),
        rehearsed=True,
        wait=60.0,
        tell=told.append,
        sleep=decided(lab, what),
    )
    return document, text, told


def test_a_size_is_told_rounded_and_nobody_learns_who(lab: Lab) -> None:
    document, text, told = run(lab, replace(WISH, bucket=100))
    assert text.splitlines()[:2] == [f"{name}: common people {COMMON // 10 * 10}" for name in PARTIES]
    assert any("fedaccord review approve" in line for line in told)
    results = document["results"]
    assert isinstance(results, dict)
    assert [result["report"] for result in results.values()] == [{"common": SHOWN}] * 2
    json.dumps(document, allow_nan=False)
    request = newest(lab)
    opens = [lab.opens(name) for name in PARTIES]
    with pytest.raises(Refusal, match="used 1 of 1"):  # AC-17
        analyst.start(request, lab.sites)
    assert [lab.opens(name) for name in PARTIES] == opens
    for name in PARTIES:
        assert lab.model(name, request) == {}
        assert {"psi_started", "psi_finished", "temporary_deleted"} <= set(lab.events(name, request))
        (line,) = _details(lab, name, request, AuditEvent.PSI_FINISHED)
        assert line["alignment"] == "none: only a size was learnt"
        assert verify_log(lab.states[name], ())[0]["status"] == "ok"


def test_a_pairing_leaves_the_same_people_in_one_order_at_both(lab: Lab) -> None:
    document, _, _ = run(lab, replace(WISH, full=True))
    results = document["results"]
    assert isinstance(results, dict)
    assert [result["report"] for result in results.values()] == [{"common": SHOWN}] * 2
    request = newest(lab)
    keys = {
        name: [lab.customers.keys(name)[row] for row in np.asarray(lab.model(name, request)["rows.common"])]
        for name in PARTIES
    }
    assert keys[BANK] == keys[RETAILER]
    assert len(set(keys[BANK])) == COMMON
    (tag,) = {_details(lab, name, request, AuditEvent.PSI_FINISHED)[0]["alignment"] for name in PARTIES}
    assert len(str(tag)) == 64
    (opened, *_) = _details(lab, BANK, request, AuditEvent.PSI_STARTED)
    assert opened["peer"] == RETAILER
    (deleted,) = _details(lab, BANK, request, AuditEvent.TEMPORARY_DELETED)
    assert "blinded sets" in str(deleted["deleted"])


def test_too_few_common_people_end_a_pairing_at_both_without_a_number(lab: Lab) -> None:
    with pytest.raises(
        StateError, match="fewer people are common than the request asks for, or none"
    ) as caught:
        run(lab, replace(WISH, full=True, minimum_overlap=COMMON + 1))
    assert str(COMMON) not in str(caught.value).replace(str(COMMON + 1), "")
    request = newest(lab)
    reasons = {name: str(lab.view(name, request)["reason"]) for name in PARTIES}
    assert {reason.removeprefix("peer_stopped:") for reason in reasons.values()} == {"overlap"}
    first = [
        name for name in PARTIES if reasons[name] == "overlap"
    ]  # the other may see that only as a goodbye
    assert first
    for name in first:
        (failed,) = _details(lab, name, request, AuditEvent.RUN_FAILED)
        # the client of the intersection has counted for itself; the other side is told that it is too few
        counted = f"overlap {COMMON}:" if name == BANK else f"overlap <{COMMON + 1}"
        assert str(failed["detail"]).startswith(counted)
    for name in PARTIES:
        (ended,) = _details(lab, name, request, AuditEvent.PSI_FINISHED)
        assert str(ended["alignment"]).startswith("not told: the run ended first (")
        assert "PsiRequest 1, PsiSetup 1" in str(ended["messages"])
        assert "PsiSecret" not in str(ended["messages"])  # nobody was named
    assert not any(lab.run_folder(name, request).joinpath("artifacts.bin").exists() for name in PARTIES)


def test_a_denied_alignment_runs_nowhere_and_says_who_denied(lab: Lab) -> None:
    with pytest.raises(NotApprovedError, match=f"{BANK}: denied by owner: a test"):
        run(lab, WISH, Decision.DENY)


def test_a_dry_run_submits_nothing(lab: Lab) -> None:
    before = {name: len(lab.log(name)) for name in PARTIES}
    document, text = rehearse_alignment(lab.ana, replace(WISH, full=True), tell=lambda line: None)
    assert document["mock"] is True
    assert "WHAT EACH LEARNS" in text
    assert "none: only keys are read" in text
    new = [entry for name in PARTIES for entry in lab.log(name)[before[name] :]]
    assert {entry.event for entry in new} <= {
        AuditEvent.LOGIN
    }  # it reads what the datasites publish, and no more


def _details(lab: Lab, name: str, request: ComputationRequest, event: AuditEvent) -> list[dict[str, object]]:
    return [dict(entry.detail) for entry in lab.log_of(name, request) if entry.event is event]
