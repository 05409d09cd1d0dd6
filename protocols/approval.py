"""Approvals: people decide on a digest; their party countersigns what they approved under its policy.

A party vouches for its people; the others check its countersignature and see who decided and from which
organisation. Signed is the canonical form of a record without its signature, under a prefix of its own: a
decision, a countersignature, a request and an audit head can't stand in for each other. In each record the
digest says which request and the party says for whom.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from protocols import keys
from protocols.decision import (
    CLOCK_SKEW,
    Decision,
    PersonDecision,
    Role,
    decide,
    decision_text,
    latest,
    parse_decision,
    verify_decision,
)
from protocols.entries import PartyEntry
from protocols.errors import ApprovalError, ExpiredError, NotApprovedError, RequestError
from protocols.records import (
    check_text,
    check_types,
    decode_records,
    encode_record,
    parse_utc,
    signed_form,
    utc_text,
    utf8,
)
from protocols.request import ComputationRequest, digest, party_named

__all__ = [
    "CLOCK_SKEW",
    "Decision",
    "PartyApproval",
    "PersonDecision",
    "Role",
    "check_expiry",
    "countersign",
    "decide",
    "decision_text",
    "latest",
    "parse_approvals",
    "parse_decision",
    "to_text",
    "verify_all",
    "verify_decision",
    "verify_party_approval",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartyApproval:
    """A party's countersignature: these decisions on this digest satisfy its policy `policy_version`."""

    digest: str
    party: str
    signing_key: str
    decisions: tuple[PersonDecision, ...]
    policy_version: str
    time: str
    signature: str

    def __post_init__(self) -> None:
        check_types(self, ApprovalError)
        for field in ("digest", "party", "policy_version"):
            check_text(getattr(self, field), field, ApprovalError)
        parse_utc(self.time, "time", ApprovalError)


def countersign(
    request: ComputationRequest,
    party_name: str,
    decisions: Iterable[PersonDecision],
    policy_version: str,
    now: datetime,
    key: Ed25519PrivateKey,
) -> PartyApproval:
    """The party's countersigned approval of the request.

    Whether the decisions satisfy the party's policy is the caller's check (`policy_version` names it).
    Refused here: a key that isn't the party's in the roster, an expired request, a decision on another digest
    or for another party, altered, by the analyst, or dated ahead; a standing denial or revocation; nobody
    approving. Raises ApprovalError, ExpiredError, NotApprovedError.
    """
    entry = _roster_entry(request, party_name)
    if keys.public_hex(key) != entry.signing_key:
        raise ApprovalError(
            f"the roster names another signing key for {party_name} than the one that signs here"
        )
    check_expiry(request, now)
    given = tuple(decisions)
    _check_decisions(request, party_name, given)
    for decision in given:
        ahead = parse_utc(decision.time, "time", ApprovalError) - now
        if decision.decision is Decision.APPROVE and ahead > CLOCK_SKEW:
            raise ApprovalError(
                f"the approval of {decision.person} is dated {decision.time}, ahead of this party's clock"
            )
    unsigned = PartyApproval(
        digest=digest(request),
        party=party_name,
        signing_key=entry.signing_key,
        decisions=given,
        policy_version=policy_version,
        time=utc_text(now),
        signature="",
    )
    return replace(unsigned, signature=keys.sign(key, signed_form("approval", unsigned, "signature")))


def verify_party_approval(approval: PartyApproval, request: ComputationRequest) -> None:
    """Raises ApprovalError unless the party's key in the roster countersigned this request."""
    wanted = digest(request)
    if approval.digest != wanted:
        raise ApprovalError(
            f"the approval of {approval.party} is for request {approval.digest[:12]}, not for {wanted[:12]}",
            remedy="a request that was changed in any byte needs new approvals",
        )
    if approval.signing_key != _roster_entry(request, approval.party).signing_key:
        raise ApprovalError(f"the approval of {approval.party} is signed with another key than the roster's")
    try:
        keys.verify(approval.signing_key, signed_form("approval", approval, "signature"), approval.signature)
    except ApprovalError as failure:
        raise ApprovalError(f"the approval of {approval.party} was altered after it was signed") from failure
    _check_decisions(request, approval.party, approval.decisions)


def verify_all(request: ComputationRequest, approvals: Iterable[PartyApproval], now: datetime) -> None:
    """Raises unless every party of the roster approved this request and it hasn't expired.

    ExpiredError; ApprovalError for an approval that doesn't hold; NotApprovedError naming the parties that
    are missing.
    """
    check_expiry(request, now)
    approved: set[str] = set()
    for approval in approvals:
        verify_party_approval(approval, request)
        if approval.party in approved:
            raise ApprovalError(f"two approvals of {approval.party} were given; pass the newest only")
        approved.add(approval.party)
    missing = [entry.name for entry in request.parties if entry.name not in approved]
    if missing:
        raise NotApprovedError(
            f"approval missing from {', '.join(missing)}",
            remedy="wait until they have approved, then start again",
        )


def check_expiry(request: ComputationRequest, now: datetime) -> None:
    """Raises ExpiredError from the moment `request.expires` on."""
    if now >= parse_utc(request.expires, "expires", RequestError):
        raise ExpiredError(f"the request expired at {request.expires}", remedy="ask with a new request")


def to_text(approvals: Iterable[PartyApproval]) -> str:
    """Canonical text of approvals, as the analyst carries them; `parse_approvals` reads it."""
    return encode_record(tuple(approvals)).decode("utf-8")


def parse_approvals(text: str) -> tuple[PartyApproval, ...]:
    """The approvals in `text`, well-formed but not yet verified. Raises ApprovalError naming the field."""
    return decode_records(utf8(text, ApprovalError), PartyApproval, ApprovalError)


def _check_decisions(request: ComputationRequest, party: str, decisions: tuple[PersonDecision, ...]) -> None:
    """Refuses decisions that aren't this party's people's standing approvals of this request."""
    wanted = digest(request)
    for decision in decisions:
        who = f"the decision of {decision.person}"
        if decision.digest != wanted:
            raise ApprovalError(f"{who} is for request {decision.digest[:12]}, not for {wanted[:12]}")
        if decision.party != party:
            raise ApprovalError(f"{who} was made for {decision.party}, not for {party}")
        if decision.key == request.analyst.key:
            raise ApprovalError(f"{who} is by the analyst of the request, who can't decide on it")
        verify_decision(decision)
    people = {(d.person, d.role, d.key) for d in decisions}
    if len(people) > min(len({d.person for d in decisions}), len({d.key for d in decisions})):
        raise ApprovalError(f"decisions at {party}: one person must have one key and one role")
    standing = latest(decisions)
    for decision in standing:
        if decision.decision is not Decision.APPROVE:
            verb = "denied" if decision.decision is Decision.DENY else "revoked"
            raise NotApprovedError(f"{decision.person} {verb} the request at {party} at {decision.time}")
    if not standing:
        raise NotApprovedError(f"nobody at {party} has approved the request")


def _roster_entry(request: ComputationRequest, name: str) -> PartyEntry:
    try:
        return party_named(request, name)
    except RequestError as failure:
        raise ApprovalError(str(failure)) from failure
