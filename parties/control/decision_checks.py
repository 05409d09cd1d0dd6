"""What is checked of a person's decision before anything else: whose it is, when it was made, and why."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from parties.control.runs import RunState
from parties.home.people import find_person
from parties.home.state import State
from protocols.approval import Decision, PersonDecision
from protocols.errors import ApprovalError
from protocols.records import parse_utc
from protocols.request import ComputationRequest

AHEAD = timedelta(seconds=5)
"""How far ahead of our clock a decision at our own desk may be dated: both clocks are usually the same one."""


def check_person(state: State, decision: PersonDecision, request: ComputationRequest) -> None:
    """ApprovalError unless the decision is for this party, by one of its people as people.json has them, and not by
    the analyst of the request."""
    if decision.party != state.name:
        raise ApprovalError(f"the decision was made for {decision.party}, not for {state.name}")
    person = find_person(state.folder, decision.person)
    if (person.key, person.role, person.organisation) != (
        decision.key,
        decision.role.value,
        decision.organisation,
    ):
        raise ApprovalError(f"key, role or organisation of {person.name} differ from people.json")
    if decision.key == request.analyst.key:
        raise ApprovalError(f"{person.name} is the analyst of the request, who can't decide on it")


def check_date(
    decision: PersonDecision, state: RunState, earlier: Iterable[PersonDecision], now: datetime
) -> None:
    """ApprovalError for a date ahead of our clock, or an approval before its person's last decision among `earlier`.

    Of one person's decisions the last that came stands; so an old approval must not come again. What takes something
    away may be dated before, and what ends a request (whose state is given) for good is taken with any date.
    """
    time = parse_utc(decision.time, "time", ApprovalError)
    ends = decision.decision is not Decision.APPROVE and (
        decision.decision is Decision.REVOKE or state is not RunState.PENDING
    )
    if time - now > AHEAD and not ends:
        raise ApprovalError(
            f"the decision of {decision.person} is dated {decision.time}, ahead of this party's clock",
            remedy="set the clock, then decide again",
        )
    if decision.decision is not Decision.APPROVE:
        return
    for before in earlier:
        last = parse_utc(before.time, "time", ApprovalError)
        # of the same moment only an approval may come again
        late = time >= last if before.decision is Decision.APPROVE else time > last
        if before.key == decision.key and not late:
            raise ApprovalError(
                f"the approval of {decision.person} is dated before your last decision, of {before.time}",
                remedy="decide again now; if the clock was set back since, after that time",
            )


def check_reason(decision: PersonDecision) -> None:
    """ApprovalError for an approval without a reason; the others can't be made without one."""
    if decision.decision is Decision.APPROVE and not decision.reason:
        raise ApprovalError(
            f"the approval of {decision.person} needs a reason", remedy="say why, with --reason"
        )
