"""How a request stands, in words: one line for each party, what a run's end means, and what to do next."""

from collections.abc import Mapping

from parties.control.asking import EXPLANATIONS
from parties.control.run_state import RunState
from parties.control.runs import RESUMABLE
from parties.roles.progress_lines import progress_text
from parties.roles.standing import (
    APPROVED,
    DENIED,
    DONE,
    REVOKED,
    RUNNING,
    UNREACHABLE,
    PartyStatus,
)
from protocols.request import ComputationRequest
from protocols.request import digest as request_digest

FAILED, INTERRUPTED = RunState.FAILED.value, RunState.INTERRUPTED.value
BROKEN = {FAILED, INTERRUPTED}
"""Ends that somebody has to do something about."""
HIDDEN = ("ok", "approval", "state", "reason", "error", "standing")
"""Of an answer, what a status document doesn't repeat or doesn't need."""


def standing_text(
    request: ComputationRequest, standing: tuple[PartyStatus, ...]
) -> tuple[dict[str, object], str]:
    """How a request stands, as a document and as one line per party, with what an end means and what to do next."""
    digest = request_digest(request)
    document: dict[str, object] = {
        "digest": digest,
        "parties": {s.party: {"state": s.state, "reason": s.reason, **_facts(s.answer)} for s in standing},
    }
    lines = [status_line(status) for status in standing]
    step = _next_step(digest[:12], standing)
    return document, "\n".join([*lines, *_meanings(standing), *([f"next: {step}"] if step else [])])


def status_line(status: PartyStatus) -> str:
    """One party's standing on one line, with what is missing and how far it is."""
    facts = _facts(status.answer)
    missing = facts.get("missing")
    parts = [f"{status.party:<12} {status.state}"]
    # "denied by owner": its first word stands there already
    reason = status.reason.removeprefix(f"{status.state.lower()} ")
    parts += [text for text in (reason, str(facts.get("note", ""))) if text and status.state != RUNNING]
    if isinstance(missing, list) and missing:
        parts.append("missing: " + "; ".join(map(str, missing)))
    if status.state == RUNNING:
        parts.append(progress_text(facts))
    if "allowed" in facts:
        parts.append(f"used {facts.get('used')} of {facts['allowed']} runs")
    return "  ".join(parts)


def _meanings(standing: tuple[PartyStatus, ...]) -> list[str]:
    """What the reasons of a run's ends mean, each once: a peer that was stopped ends for the reason of the other."""
    reasons = dict.fromkeys(
        status.reason.removeprefix("peer_stopped:") for status in standing if status.state in BROKEN
    )
    return [f"{reason}: {EXPLANATIONS[reason]}" for reason in reasons if reason in EXPLANATIONS]


def _startable(status: PartyStatus) -> bool:
    """Whether the party would let the request's run start, or be taken up again."""
    if status.state in (APPROVED, INTERRUPTED):
        return True
    used, allowed = (status.answer.get(name) for name in ("used", "allowed"))
    left = isinstance(used, int) and isinstance(allowed, int) and used < allowed
    return status.state == FAILED and (status.reason in RESUMABLE or left)


def _next_step(digest: str, standing: tuple[PartyStatus, ...]) -> str:
    """What the analyst can do now; "" when that is not clear from the states and reasons alone."""
    states = {status.state for status in standing}
    if states & {DENIED, REVOKED}:
        return "ask with a new request: fedaccord request submit PLAN"
    if states == {DONE}:
        return f"fedaccord request result {digest}"
    if states == {APPROVED}:
        return f"fedaccord request start {digest}"
    if states == {RUNNING}:
        return f"fedaccord request status {digest} --watch"
    if states & BROKEN and UNREACHABLE in states:
        return f"when all can be reached again: fedaccord request status {digest}"
    if states & BROKEN and all(map(_startable, standing)):
        return f"fedaccord request start {digest} goes on from the last checkpoint, or begins again if there is none"
    if FAILED in states and states <= BROKEN:
        return "when the cause is removed, ask with a new request"
    return ""


def _facts(answer: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in answer.items() if name not in HIDDEN}
