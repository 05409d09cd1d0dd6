"""No attempt of the table passes through syft: an analyst with programs of his own calls the real shim (AC-17)."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import pytest

from parties.control.asking import accepted
from parties.home.policy import policy_text, read_policy
from parties.home.private_files import write_private
from parties.roles import analyst
from parties.syft_side.access import Standing
from protocols import keys
from protocols.approval import Decision, parse_approvals
from protocols.approval import to_text as approvals_text
from protocols.audit import AuditEvent
from protocols.request import ComputationRequest
from protocols.request import digest as request_digest
from protocols.request import to_text as signed_text
from tests.attempts.papers import Papers, tampered
from tests.attempts.table import Attempt, Way, cells
from tests.full_path.lab import BANK, PARTIES, Lab, until

pytestmark = pytest.mark.syft


@pytest.fixture(scope="module")
def ready(lab: Lab, expiring: ComputationRequest) -> ComputationRequest:
    """An approved request that every attempt but the last leaves as it was."""
    return lab.approved()


def papers(lab: Lab, request: ComputationRequest) -> Papers:
    return {approval.party: approval for approval in parse_approvals(lab.approvals(request))}


def denied(lab: Lab, request: ComputationRequest) -> None:
    """Returns when syft knows that the bank doesn't (any more) approve."""
    until(
        partial(lab.sites[BANK].decision, request_digest(request)),
        lambda decision: decision.standing is Standing.DENIED,
    )


@contextmanager
def stale(lab: Lab, request: ComputationRequest) -> Iterator[None]:
    """The bank asks for more owners than when it countersigned."""
    path = lab.states[BANK].folder / "policy.toml"
    before = path.read_text()
    write_private(path, policy_text(replace(read_policy(path.parent), owners=2)))
    try:
        yield
    finally:
        write_private(path, before)


@contextmanager
def expired(lab: Lab, request: ComputationRequest) -> Iterator[None]:
    left = datetime.fromisoformat(request.expires) - datetime.now(UTC)
    time.sleep(max(0.0, left.total_seconds() + 0.1))
    yield


@contextmanager
def revoked(lab: Lab, request: ComputationRequest) -> Iterator[None]:
    lab.decide(BANK, request, Decision.REVOKE, reason="a subject objected")
    denied(lab, request)
    yield


@contextmanager
def started(lab: Lab, request: ComputationRequest) -> Iterator[None]:
    """The first of two equal starts; it runs to its end after all that was refused."""
    text = lab.approvals(request)
    for name in PARTIES:
        accepted(lab.sites[name].call(request_digest(request), "start", text), name)
    yield
    lab.done(request)


@contextmanager
def nothing(lab: Lab, request: ComputationRequest) -> Iterator[None]:
    yield


HAPPENS: dict[Attempt, Callable[[Lab, ComputationRequest], object]] = {
    Attempt.STALE: stale,
    Attempt.EXPIRED: expired,
    Attempt.REVOKED: revoked,
    Attempt.REPLAYED: started,
}


def asked_for(lab: Lab, attempt: Attempt, pytestconfig: pytest.FixtureRequest) -> ComputationRequest:
    """The request that the attempt is about."""
    match attempt:
        case Attempt.EXPIRED:
            found = pytestconfig.getfixturevalue("expiring")
        case Attempt.USED_UP:
            found = pytestconfig.getfixturevalue("finished")
        case Attempt.REVOKED:
            found = lab.approved()
        case Attempt.OTHER_CODE:
            found = lab.approved(code_digest="0" * 64)
        case Attempt.UNKNOWN_KEY:
            found = of_a_stranger(lab)
        case _:
            found = pytestconfig.getfixturevalue("ready")
    assert isinstance(found, ComputationRequest)
    return found


def of_a_stranger(lab: Lab) -> ComputationRequest:
    """A request whose roster has another key of the retailer's, submitted and denied."""
    request = lab.draft()
    bank, retailer = request.parties
    other = replace(retailer, signing_key=keys.public_hex(keys.generate_key()))
    wrong = replace(request, parties=(bank, other))
    lab.sites[BANK].submit(signed_text(analyst.sign(wrong, lab.ana.signing_key())))
    denied(lab, wrong)
    return wrong


@pytest.mark.parametrize(("attempt", "way", "code"), cells(Way.SHIM))
def test_P3_an_attempt_through_syft_is_refused_and_logged(
    lab: Lab, attempt: Attempt, way: Way, code: str, request: pytest.FixtureRequest
) -> None:
    wanted = asked_for(lab, attempt, request)
    text = ""
    if attempt is not Attempt.UNKNOWN_KEY:
        other = papers(lab, request.getfixturevalue("finished"))
        text = approvals_text(tampered(attempt, papers(lab, wanted), other, own=BANK))
    with HAPPENS.get(attempt, nothing)(lab, wanted):  # type: ignore[attr-defined]
        before = lab.log_of(BANK, wanted)
        answer = lab.sites[BANK].call(request_digest(wanted), "start", text)
        came = [
            entry
            for entry in lab.log_of(BANK, wanted)[len(before) :]
            if entry.event in (AuditEvent.STARTED, AuditEvent.START_REFUSED)
        ]
    assert answer["ok"] is False, "the attempt passed"
    (entry,) = came
    assert (entry.event, entry.role, entry.origin) == (AuditEvent.START_REFUSED, "analyst", "syft")
    assert dict(entry.detail)["code"] == answer["error"]
    if attempt is Attempt.UNKNOWN_KEY:  # it wasn't even taken in
        assert (answer["error"], dict(before[0].detail)["code"]) == ("not_approved", code)
    else:
        assert answer["error"] == code
    starts = lab.events(BANK, wanted).count("started")
    assert starts == (1 if attempt in (Attempt.USED_UP, Attempt.REPLAYED) else 0)


def test_P3_a_start_of_what_nobody_has_approved_is_logged_though_syft_refuses_it(lab: Lab) -> None:
    wanted = lab.draft()
    lab.submit(wanted)
    for name in PARTIES:
        opens = lab.opens(name)
        answer = lab.sites[name].call(request_digest(wanted), "start", "")
        assert (answer["error"], answer["standing"]) == ("not_approved", "pending")
        lab.sites[name].call(request_digest(wanted), "status", "-1")  # asking how it stands is no attempt
        (entry,) = [each for each in lab.log_of(name, wanted) if each.event is AuditEvent.START_REFUSED]
        assert (entry.result.value, entry.who[:9], entry.origin) == ("refused", "syft key ", "syft")
        assert lab.opens(name) == opens
        assert lab.view(name, wanted)["used"] == 0
