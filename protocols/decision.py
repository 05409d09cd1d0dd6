"""One person's signed decision on one request: approve, deny or revoke. Part of protocols.approval, which lists it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from protocols import keys
from protocols.errors import ApprovalError
from protocols.records import (
    check_text,
    check_types,
    decode_record,
    encode_record,
    parse_utc,
    signed_form,
    utc_text,
    utf8,
)

CLOCK_SKEW = timedelta(minutes=5)
"""How far apart two people's clocks may be: so much may an approval be dated ahead of the party's clock, and so much
later than a denial or revocation it must be dated to count in its place."""


class Role(StrEnum):
    """In which capacity a person decides."""

    OWNER = "owner"
    REVIEWER = "reviewer"


class Decision(StrEnum):
    """What a person decides about a request."""

    APPROVE = "approve"
    DENY = "deny"
    REVOKE = "revoke"


_EARLIEST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonDecision:
    """One person's signed decision on one digest, for one party.

    `key` and `signature` are hex, `time` is UTC.

    Raises ApprovalError for a malformed field and for a denial or revocation without a reason.
    """

    digest: str
    party: str
    person: str
    role: Role
    organisation: str
    key: str
    decision: Decision
    reason: str
    time: str
    signature: str

    def __post_init__(self) -> None:
        check_types(self, ApprovalError)
        for field in ("digest", "party", "person", "organisation"):
            check_text(getattr(self, field), field, ApprovalError)
        if self.reason or self.decision is not Decision.APPROVE:
            check_text(self.reason, "reason", ApprovalError, limit=2000, lines=True)
        parse_utc(self.time, "time", ApprovalError)


def decide(
    *,
    digest: str,
    party: str,
    person: str,
    role: Role,
    organisation: str,
    decision: Decision,
    reason: str,
    key: Ed25519PrivateKey,
    now: datetime,
) -> PersonDecision:
    """The person's decision, signed with the person's key. Raises ApprovalError for a malformed field."""
    unsigned = PersonDecision(
        digest=digest,
        party=party,
        person=person,
        role=role,
        organisation=organisation,
        key=keys.public_hex(key),
        decision=decision,
        reason=reason,
        time=utc_text(now),
        signature="",
    )
    return replace(unsigned, signature=keys.sign(key, signed_form("decision", unsigned, "signature")))


def verify_decision(decision: PersonDecision) -> None:
    """Raises ApprovalError unless the decision is signed by the key in it and unaltered."""
    try:
        keys.verify(decision.key, signed_form("decision", decision, "signature"), decision.signature)
    except ApprovalError as failure:
        raise ApprovalError(
            f"the decision of {decision.person} at {decision.party} was altered, "
            "or isn't signed by the key it names"
        ) from failure


def latest(decisions: Iterable[PersonDecision]) -> tuple[PersonDecision, ...]:
    """Each person's decision that counts, by the dates: the last one.

    A denial or revocation counts too when it is dated at most CLOCK_SKEW before an approval: the dates can't say then
    which came later. A party that knows the order in which they came goes by that (`parties.home.policy.standing`).
    """
    counting: dict[str, PersonDecision] = {}
    for decision in decisions:
        known = counting.get(decision.key)
        if known is None or _rank(decision) >= _rank(known):
            counting[decision.key] = decision
    return tuple(counting.values())


def decision_text(decision: PersonDecision) -> str:
    """Canonical text of one decision; `parse_decision` reads it."""
    return encode_record(decision).decode("utf-8")


def parse_decision(text: str) -> PersonDecision:
    """The decision in `text`, its signature verified. Raises ApprovalError."""
    decision = decode_record(utf8(text, ApprovalError), PersonDecision, ApprovalError)
    verify_decision(decision)
    return decision


def _rank(decision: PersonDecision) -> tuple[timedelta, bool]:
    """The decision's place by its date; a denial or revocation stands as if it had come CLOCK_SKEW later."""
    denies = decision.decision is not Decision.APPROVE
    since = parse_utc(decision.time, "time", ApprovalError) - _EARLIEST
    return since + (CLOCK_SKEW if denies else timedelta()), denies
