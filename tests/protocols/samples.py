"""A small, valid request between a bank and a retailer, with the keys of everybody in it."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from protocols import keys
from protocols.approval import Decision, PartyApproval, PersonDecision, Role, countersign, decide
from protocols.request import AnalystEntry, BlockEntry, ComputationRequest, PartyEntry, Release, digest

NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
POLICY = "policy-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """The private keys behind a sample request."""

    analyst: Ed25519PrivateKey = field(default_factory=keys.generate_key)
    bank: Ed25519PrivateKey = field(default_factory=keys.generate_key)
    retailer: Ed25519PrivateKey = field(default_factory=keys.generate_key)
    bank_owner: Ed25519PrivateKey = field(default_factory=keys.generate_key)
    retailer_owner: Ed25519PrivateKey = field(default_factory=keys.generate_key)


def party_entry(name: str, role: str, key: Ed25519PrivateKey, address: str = "") -> PartyEntry:
    pem = f"-----BEGIN CERTIFICATE-----\n{name}\n-----END CERTIFICATE-----\n"
    return PartyEntry(
        name=name, role=role, signing_key=keys.public_hex(key), link_certificate=pem, address=address
    )


def release(kind: str, sender: str, receiver: str, **limits: object) -> Release:
    given: dict[str, object] = {
        "shapes": (("values", (4, 2)),),
        "repetitions": 3,
        "max_bytes": 500,
        "learns": "the values",
    }
    return Release(kind=kind, sender=sender, receiver=receiver, **(given | limits))  # type: ignore[arg-type]


def sample_block() -> BlockEntry:
    return BlockEntry(
        role="active",
        block="customers",
        version=1,
        commitment="a" * 64,
        columns=("age", "hours"),
        label="income",
        rows=1000,
        subject_key="customer",
        key_rule="text",
    )


def sample_request(people: People, **changes: object) -> ComputationRequest:
    given: dict[str, object] = {
        "purpose": "credit risk",
        "purpose_text": "Does the basket help?\nOnly for this study.",
        "analyst": AnalystEntry(name="Ana", organisation="Lab", key=keys.public_hex(people.analyst)),
        "parties": (
            party_entry("bank", "active", people.bank, "bank.example:7000-7009"),
            party_entry("retailer", "passive", people.retailer),
        ),
        "blocks": (sample_block(),),
        "computation": "vertical.fedcvt.train",
        "computation_version": "1",
        "code_digest": "b" * 64,
        "parameters": (("rate", 0.5), ("shuffle", True), ("steps", 3), ("variant", "mlp")),
        "manifest": (
            release("Values", "passive", "active"),
            release("Answer", "active", "passive", shapes=()),
        ),
        "analyst_receives": ("metrics",),
        "minimum_group": 10,
        "minimum_overlap": 20,
        "public_seed": 7,
        "expires": "2030-02-01T00:00:00Z",
        "runs": 1,
        "nonce": "c" * 32,
    }
    return ComputationRequest(**(given | changes))  # type: ignore[arg-type]


def decision(
    request: ComputationRequest, party: str, key: Ed25519PrivateKey, **changes: object
) -> PersonDecision:
    given: dict[str, object] = {
        "digest": digest(request),
        "party": party,
        "person": f"{party}-owner",
        "role": Role.OWNER,
        "organisation": party,
        "decision": Decision.APPROVE,
        "reason": "",
        "now": NOW,
    }
    return decide(key=key, **(given | changes))  # type: ignore[arg-type]


def approvals(request: ComputationRequest, people: People) -> tuple[PartyApproval, PartyApproval]:
    """Both parties' approvals of the request."""
    bank = decision(request, "bank", people.bank_owner)
    retailer = decision(request, "retailer", people.retailer_owner)
    return (
        countersign(request, "bank", [bank], POLICY, NOW, people.bank),
        countersign(request, "retailer", [retailer], POLICY, NOW, people.retailer),
    )
