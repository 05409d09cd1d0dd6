"""The ComputationRequest: one frozen, canonical record whose SHA-256 is the identity of a run.

Everything that an owner agrees to is in it, so changing one byte means asking again. Programs, manifest and
blocks speak of roles ("active", "passive"); only the roster (`parties`) says which organisation has which
role.
"""

import hashlib
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from protocols import keys
from protocols.entries import (
    INTEGER_LIMIT,
    AnalystEntry,
    BlockEntry,
    PartyEntry,
    Release,
    check_hex,
    check_name,
    check_range,
    check_unique,
)
from protocols.errors import ApprovalError, RequestError
from protocols.records import (
    Scalar,
    check_text,
    check_types,
    decode_record,
    encode_record,
    parse_utc,
    signing_bytes,
    utf8,
)

__all__ = [
    "AnalystEntry",
    "BlockEntry",
    "ComputationRequest",
    "Difference",
    "PartyEntry",
    "Release",
    "SignedRequest",
    "canonical",
    "differences",
    "digest",
    "parse",
    "parse_signed",
    "party",
    "party_named",
    "set_in_words",
    "sign_request",
    "to_text",
    "verify_request",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputationRequest:
    """All that is asked for: purpose, people, data, computation, what leaves, limits, expiry, number of runs.

    `parameters` are sorted by name; `minimum_group` is the k of the disclosure rules; `public_seed` (63 bits)
    orders rows and batches only; `expires` is ISO 8601 in UTC; `nonce` (hex, 16 bytes or more) makes two
    equal wishes two requests. Raises RequestError naming the field.
    """

    purpose: str
    purpose_text: str
    analyst: AnalystEntry
    parties: tuple[PartyEntry, ...]
    blocks: tuple[BlockEntry, ...]
    computation: str
    computation_version: str
    code_digest: str
    parameters: tuple[tuple[str, Scalar], ...]
    manifest: tuple[Release, ...]
    analyst_receives: tuple[str, ...]
    minimum_group: int
    minimum_overlap: int
    public_seed: int
    expires: str
    runs: int
    nonce: str

    def __post_init__(self) -> None:
        check_types(self, RequestError)
        check_text(self.purpose, "purpose", RequestError)
        if self.purpose_text:
            check_text(self.purpose_text, "purpose_text", RequestError, limit=10_000, lines=True)
        check_name(self.computation, "computation")
        check_text(self.computation_version, "computation_version", RequestError)
        check_hex(self.code_digest, "code_digest", 64)
        for received in self.analyst_receives:
            check_text(received, "analyst_receives", RequestError, limit=2000)
        for field in ("minimum_group", "minimum_overlap", "runs"):
            check_range(getattr(self, field), field, 1)
        check_range(self.public_seed, "public_seed", 0, INTEGER_LIMIT)
        parse_utc(self.expires, "expires", RequestError)
        check_hex(self.nonce, "nonce", 32, longer=True)
        _check_parameters(self.parameters)
        _check_roster(self)
        _check_references(self)

    @property
    def rows(self) -> dict[str, int]:
        """Published upper bound of the rows of each role's block."""
        return {block.role: block.rows for block in self.blocks}


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedRequest:
    """A request with its analyst's signature (hex). Made by `sign_request` or `parse_signed`."""

    request: ComputationRequest
    signature: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One field in which two requests differ; None stands for a line that the other request doesn't have."""

    field: str
    old: str | None
    new: str | None


def canonical(request: ComputationRequest) -> bytes:
    """The canonical bytes of the request: the one preimage of its digest."""
    return encode_record(request)


def digest(request: ComputationRequest) -> str:
    """SHA-256 (hex) of the canonical bytes: the identity of the run."""
    return hashlib.sha256(canonical(request)).hexdigest()


def parse(data: bytes) -> ComputationRequest:
    """The request that `data` is the canonical form of.

    Raises RequestError naming the field or the broken form.
    """
    return decode_record(data, ComputationRequest, RequestError)


def party(request: ComputationRequest, role: str) -> PartyEntry:
    """The roster entry of a role. Raises RequestError for a role the request doesn't have."""
    for entry in request.parties:
        if entry.role == role:
            return entry
    raise RequestError(
        f"role {role!r} is not in the request; it has {', '.join(p.role for p in request.parties)}"
    )


def party_named(request: ComputationRequest, name: str) -> PartyEntry:
    """The roster entry of an organisation. Raises RequestError for one that is not in the roster."""
    for entry in request.parties:
        if entry.name == name:
            return entry
    raise RequestError(
        f"party {name!r} is not in the roster; it has {', '.join(p.name for p in request.parties)}"
    )


def blocks_of(request: ComputationRequest, name: str) -> tuple[BlockEntry, ...]:
    """The blocks that an organisation brings. Raises RequestError for one that is not in the roster."""
    role = party_named(request, name).role
    return tuple(block for block in request.blocks if block.role == role)


def set_in_words(request: ComputationRequest, role: str) -> str:
    """Which keys a role brings, for logs and reviews: block, version, published rows, beginning of the commitment."""
    return "; ".join(
        f"{block.block} v{block.version}, at most {block.rows} keys, commitment {block.commitment[:16]}"
        for block in request.blocks
        if block.role == role
    )


def sign_request(request: ComputationRequest, key: Ed25519PrivateKey) -> SignedRequest:
    """The request under its analyst's signature.

    Raises RequestError if `key` isn't the key that the request names.
    """
    if keys.public_hex(key) != request.analyst.key:
        raise RequestError(
            f"analyst.key: the request names another key for {request.analyst.name} than the one that signs"
        )
    return SignedRequest(
        request=request, signature=keys.sign(key, signing_bytes("request", canonical(request)))
    )


def verify_request(signed: SignedRequest) -> None:
    """Raises RequestError unless the analyst whom the request names signed this very request."""
    try:
        keys.verify(
            signed.request.analyst.key, signing_bytes("request", canonical(signed.request)), signed.signature
        )
    except ApprovalError as failure:
        raise RequestError(
            f"signature: not by the key of {signed.request.analyst.name}, or the request was altered",
            remedy="ask the analyst to submit the request again",
        ) from failure


def to_text(signed: SignedRequest) -> str:
    """Canonical text of a signed request; `parse_signed` reads it."""
    return encode_record(signed).decode("utf-8")


def parse_signed(text: str) -> SignedRequest:
    """The signed request in `text`, its analyst's signature verified. Raises RequestError."""
    signed = decode_record(utf8(text, RequestError), SignedRequest, RequestError)
    verify_request(signed)
    return signed


def differences(old: ComputationRequest, new: ComputationRequest) -> tuple[Difference, ...]:
    """Every field in which two requests differ, down to the line of manifest, roster, block and parameter.

    Values are compared by their canonical form, so that the result is empty exactly when the digests are
    equal.
    """
    before, after = _lines(old), _lines(new)
    names = [*before, *(name for name in after if name not in before)]
    return tuple(
        Difference(field=name, old=before.get(name), new=after.get(name))
        for name in names
        if before.get(name) != after.get(name)
    )


def _lines(request: ComputationRequest) -> dict[str, str]:
    """Field path -> canonical value, for every field; the order of each list is a line too."""
    lines: dict[str, str] = {}
    for field in ComputationRequest.__dataclass_fields__:
        if field not in ("analyst", "parties", "blocks", "parameters", "manifest"):
            lines[field] = _text(getattr(request, field))
    _add(lines, "analyst", request.analyst)
    for listed, entries in _named(request).items():
        for name, entry in entries:
            _add(lines, f"{listed}[{name}]", entry)
        lines[f"{listed} (order)"] = ", ".join(name for name, _ in entries)
    return lines


def _named(request: ComputationRequest) -> dict[str, list[tuple[str, object]]]:
    return {
        "parties": [(p.role, p) for p in request.parties],
        "blocks": [(f"{b.role}/{b.block}", b) for b in request.blocks],
        "parameters": list(request.parameters),
        "manifest": [(f"{r.kind} {r.sender} -> {r.receiver}", r) for r in request.manifest],
    }


def _add(lines: dict[str, str], path: str, entry: object) -> None:
    if isinstance(entry, PartyEntry | AnalystEntry | BlockEntry | Release):
        for field in entry.__dataclass_fields__:
            lines[f"{path}.{field}"] = _text(getattr(entry, field))
    else:
        lines[path] = _text(entry)


def _text(value: object) -> str:
    return encode_record(value).decode("utf-8")


def _check_roster(request: ComputationRequest) -> None:
    if not request.parties:
        raise RequestError("parties: at least one is needed")
    for field in ("role", "name", "signing_key", "link_certificate"):
        check_unique([getattr(entry, field) for entry in request.parties], f"parties.{field}")
    if request.analyst.key in {entry.signing_key for entry in request.parties}:
        raise RequestError("analyst.key: is the signing key of a party; the analyst needs a key of their own")


def _check_references(request: ComputationRequest) -> None:
    roles = {entry.role for entry in request.parties}
    used = [("blocks.role", block.role) for block in request.blocks]
    used += [("manifest.sender", line.sender) for line in request.manifest]
    used += [("manifest.receiver", line.receiver) for line in request.manifest]
    for field, role in used:
        if role not in roles:
            raise RequestError(f"{field}: role {role!r} has no party in the roster")
    check_unique([f"{block.role}/{block.block}" for block in request.blocks], "blocks")
    check_unique([f"{r.kind} {r.sender} -> {r.receiver}" for r in request.manifest], "manifest")


def _check_parameters(parameters: tuple[tuple[str, Scalar], ...]) -> None:
    names = [name for name, _ in parameters]
    for name in names:
        check_text(name, "parameters", RequestError)
    check_unique(names, "parameters")
    if names != sorted(names):
        raise RequestError("parameters: expected in the order of their names")
    for name, value in parameters:
        if isinstance(value, str) and value:
            check_text(value, f"parameters.{name}", RequestError, limit=2000)
