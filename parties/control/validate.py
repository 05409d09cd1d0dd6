"""All that is checked before a run may start: nothing is opened, reserved or spawned until every check has passed."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from parties.blocks.keys.agreement import check_request
from parties.home.cards import AddressBook
from parties.home.people import Person
from parties.home.policy import Policy, missing, missing_jointly, violations
from parties.links.rendezvous import bind
from protocols.approval import (
    PartyApproval,
    PersonDecision,
    check_expiry,
    verify_all,
    verify_party_approval,
)
from protocols.errors import BlockError, CodeDigestError, NotApprovedError
from protocols.request import ComputationRequest, PartyEntry

CurrentBlock = Callable[[str], tuple[int, str]]
"""Version and commitment of the newest version of a block by name; DataMissingError when there is none."""
SeatsChecked = Callable[[ComputationRequest, Mapping[str, str]], None]
"""(request, each party's organisation) RequestError when one would learn in its role what it mustn't."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounds:
    """What this party knows at the moment of a start; `decisions` are its own people's, `code` its code's digest,
    `bind` the host that a listening worker binds when it isn't the roster's, `check_seats` who may have which role."""

    book: AddressBook
    policy: Policy
    people: tuple[Person, ...]
    decisions: tuple[PersonDecision, ...]
    current_block: CurrentBlock
    code: str
    bind: str
    now: datetime
    check_seats: SeatsChecked


def check_start(
    request: ComputationRequest, approvals: Iterable[PartyApproval], grounds: Grounds
) -> PartyEntry:
    """Our own roster entry, when the request may run here and now with these approvals of all parties.

    Raises, in this order: ExpiredError; RosterError; RequestError for a role; NotApprovedError (own people, other
    parties, reviewers over all parties) or ApprovalError; CodeDigestError; DataMissingError or BlockError; PortInUse or
    LinkError.
    """
    given = tuple(approvals)
    check_expiry(request, grounds.now)
    own = grounds.book.check_roster(request)
    grounds.check_seats(request, grounds.book.organisations())
    _check_own_people(request, own, given, grounds)
    verify_all(request, given, grounds.now)
    lacking = missing_jointly(grounds.policy, request, given)
    if lacking:
        raise NotApprovedError("; ".join(lacking), remedy="wait until they have approved, then start again")
    check_code(request, grounds.code)
    check_blocks(request, own.role, grounds.current_block)
    if own.address:
        bind(own.address, grounds.bind).close()
    return own


def check_code(request: ComputationRequest, installed: str) -> None:
    """CodeDigestError unless the code installed here is the one that the request was made for."""
    if request.code_digest != installed:
        raise CodeDigestError(
            f"the request was made for code {request.code_digest[:12]}, installed is {installed[:12]}",
            remedy="install the same release at every party, or ask with a new request",
        )


def check_blocks(request: ComputationRequest, role: str, current_block: CurrentBlock) -> None:
    """BlockError unless each block that the request wants of this role is still the newest version of that name.

    SubjectKeyError when it would compare keys that were made by different rules.
    """
    check_request(request)
    for entry in request.blocks:
        if entry.role != role:
            continue
        version, commitment = current_block(entry.block)
        if (version, commitment) != (entry.version, entry.commitment):
            raise BlockError(
                f"block {entry.block} is at version {version}, the request was approved for version {entry.version}"
                " and its content",
                remedy="ask with a new request for the new version; approvals don't carry over",
            )


def _check_own_people(
    request: ComputationRequest, own: PartyEntry, approvals: tuple[PartyApproval, ...], grounds: Grounds
) -> None:
    """Our people's decisions of today satisfy our policy of today, and our own approval is among those given."""
    lacking = (
        *violations(grounds.policy, request, own.role, grounds.now),
        *missing(grounds.policy, request, grounds.people, grounds.decisions),
    )
    if lacking:
        raise NotApprovedError(f"{own.name}: {'; '.join(lacking)}")
    for approval in approvals:
        if approval.party == own.name:
            verify_party_approval(approval, request)
            return
    raise NotApprovedError(f"{own.name} hasn't countersigned the request")
