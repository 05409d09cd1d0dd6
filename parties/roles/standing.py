"""How a request stands at its parties, as far as an analyst can see it, and which approvals there are."""

from collections.abc import Mapping
from dataclasses import dataclass

from parties.control.asking import EXPLANATIONS, accepted, explained
from parties.control.run_state import RunState
from parties.control.socket import Answer
from parties.roles.showing import printable, printable_answer
from parties.syft_side.access import Datasite, Standing
from protocols.approval import PartyApproval, parse_approvals, verify_party_approval
from protocols.errors import DatasiteError, NotApprovedError, StateError
from protocols.request import ComputationRequest
from protocols.request import digest as request_digest

PENDING, DENIED, RUNNING, REVOKED = "PENDING", "DENIED", "RUNNING", "REVOKED"
APPROVED, DONE = "APPROVED", "DONE"
ABSENT, REFUSED, UNREACHABLE, UNKNOWN = "ABSENT", "REFUSED", "UNREACHABLE", "UNKNOWN"
"""What an analyst may see beside the states of `parties.control.run_state`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartyStatus:
    """How a request stands at one party, with its newest progress; fields as the supervisor gives them, printable.

    `state` is UNKNOWN for a word that is no state, UNREACHABLE also for an answer without one.
    """

    party: str
    state: str
    reason: str
    answer: Mapping[str, object]


def statuses(request: ComputationRequest, sites: Mapping[str, Datasite]) -> tuple[PartyStatus, ...]:
    """How the request stands at every party, in the order of the roster; one that can't be reached says so."""
    return tuple(_status(request, entry.name, sites[entry.name]) for entry in request.parties)


def _status(request: ComputationRequest, name: str, site: Datasite) -> PartyStatus:
    try:
        answer = printable_answer(site.call(request_digest(request), "status", ""))
        if answer.get("ok") is True:
            said = str(field_of(answer, "state", name))
    except DatasiteError as error:
        return PartyStatus(party=name, state=UNREACHABLE, reason=printable(str(error)), answer={})
    if answer.get("ok") is True:
        state = said if said in set(RunState) else UNKNOWN
        reason = str(answer.get("reason", ""))
        return PartyStatus(party=name, state=state, reason=reason, answer=answer)
    if answer.get("error") == "not_approved":
        return _undecided(name, answer)
    reason = explained(str(answer.get("error")), answer)
    return PartyStatus(party=name, state=REFUSED, reason=reason, answer=answer)


def field_of(answer: Answer, field: str, party: str) -> object:
    """The field of a party's answer; DatasiteError naming both when it is missing."""
    if field not in answer:
        raise DatasiteError(
            f"{party}: its datasite answered without the field {field!r}",
            remedy="ask its owner which release of fedaccord runs there",
        )
    return answer[field]


def _undecided(name: str, answer: Answer) -> PartyStatus:
    """Before an approval syft answers, not the supervisor: it knows no more than that somebody has to decide."""
    standing, reason = answer.get("standing"), str(answer.get("reason", ""))
    if standing == Standing.DENIED:
        said = f"{reason}: {EXPLANATIONS[reason]}" if reason in EXPLANATIONS else reason
        state = REVOKED if reason.startswith("revoked by ") else DENIED
        return PartyStatus(party=name, state=state, reason=said, answer=answer)
    if standing == Standing.ABSENT:
        return PartyStatus(party=name, state=ABSENT, reason="it was never submitted there", answer=answer)
    lacking = {"missing": [f"the approval of {name}'s own people"]}
    return PartyStatus(party=name, state=PENDING, reason="", answer={**answer, **lacking})


def approvals(request: ComputationRequest, standing: tuple[PartyStatus, ...]) -> tuple[PartyApproval, ...]:
    """Every party's countersigned approval, each verified.

    Raises NotApprovedError naming the parties that lack one, StateError for a run that is under way, DatasiteError for
    a party that can't be reached, Refusal with what else a party said.
    """
    found, missing = [], []
    for status in standing:
        _check_answered(status)
        text = str(status.answer.get("approval", ""))
        if not text:
            missing.append(f"{status.party} ({in_words(status)})")
            continue
        for approval in parse_approvals(text):
            verify_party_approval(approval, request)
            found.append(approval)
    if missing:
        digest = request_digest(request)[:12]
        raise NotApprovedError(
            f"not approved by {', '.join(missing)}",
            remedy=f"fedaccord request status {digest} says what is missing",
        )
    return tuple(found)


def in_words(status: PartyStatus) -> str:
    """State and reason, in small letters and without the same word twice: "denied by owner: too many columns"."""
    state, reason = status.state.lower(), status.reason
    if not reason or reason.startswith((f"{state} by ", "refused by ")):
        return reason or state
    return f"{state}: {reason}"


def _check_answered(status: PartyStatus) -> None:
    if status.state == UNREACHABLE:
        raise DatasiteError(
            f"{status.party} can't be reached: {status.reason}", remedy="ask its owner whether it runs"
        )
    if status.state == RUNNING:
        raise StateError(
            f"a run is under way at {status.party}", remedy="follow it: fedaccord request status --watch"
        )
    if status.state == REFUSED:
        accepted(dict(status.answer), status.party)
