"""Approvals as somebody would tamper with them on their way."""

from collections.abc import Callable
from dataclasses import replace

from protocols import keys
from protocols.approval import PartyApproval
from protocols.records import signed_form
from tests.attempts.table import Attempt

Papers = dict[str, PartyApproval]
"""Genuine approvals by party."""


def altered(ours: PartyApproval, theirs: PartyApproval) -> PartyApproval:
    return replace(theirs, policy_version="f" * 16)


def other_partys(ours: PartyApproval, theirs: PartyApproval) -> PartyApproval:
    return replace(ours, party=theirs.party)


def forged(ours: PartyApproval, theirs: PartyApproval) -> PartyApproval:
    signature = keys.sign(keys.generate_key(), signed_form("approval", theirs, "signature"))
    return replace(theirs, signature=signature)


TAMPERED: dict[Attempt, Callable[[PartyApproval, PartyApproval], PartyApproval]] = {
    Attempt.ALTERED: altered,
    Attempt.OTHER_PARTY: other_partys,
    Attempt.FORGED: forged,
}
"""What stands in for the other party's approval, by our own and theirs."""


def tampered(attempt: Attempt, papers: Papers, other: Papers, *, own: str) -> tuple[PartyApproval, ...]:
    """All that is handed over at the party `own` in this attempt; `other` are the papers of another request."""
    (peer,) = set(papers) - {own}
    if attempt is Attempt.NONE:
        return (papers[own],)
    if attempt is Attempt.OTHER_DIGEST:
        return (papers[own], other[peer])
    if attempt in TAMPERED:
        return (papers[own], TAMPERED[attempt](papers[own], papers[peer]))
    return (papers[own], papers[peer])
