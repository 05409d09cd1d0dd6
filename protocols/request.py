"""The ComputationRequest: one frozen, canonical record whose SHA-256 is the identity of a run.

Everything that an owner agrees to is in it, so changing one byte means asking again. Programs, manifest and blocks speak of
roles ("active", "passive"); only the roster (`parties`) says which organisation has which role.
"""

import hashlib
import re
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from protocols import keys
from protocols.errors import ApprovalError, RequestError
from protocols.records import (
    Scalar,
    check_text,
    check_types,
    decode_record,
    encode_record,
    parse_utc,
    signing_bytes,
)

_HEX = re.compile(r"[0-9a-f]+\Z")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_ADDRESS = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\]):([0-9]{1,5})-([0-9]{1,5})\Z")
_SEED_LIMIT = 1 << 63


@dataclass(frozen=True, slots=True, kw_only=True)
class PartyEntry:
    """One line of the roster: an organisation, its role here and the two public keys that others pin.

    `signing_key` is Ed25519 in hex; `link_certificate` is PEM; `address` is "host:first-last" for a party that listens and ""
    for one that dials. Raises RequestError.
    """

    name: str
    role: str
    signing_key: str
    link_certificate: str
    address: str

    def __post_init__(self) -> None:
        check_types(self, RequestError)
        _check_name(self.name, "name")
        _check_name(self.role, "role")
        _check_hex(self.signing_key, "signing_key", 64)
        if not self.link_certificate.startswith("-----BEGIN CERTIFICATE-----\n"):
            raise RequestError("link_certificate: expected one certificate in PEM form")
        check_text(self.link_certificate.rstrip("\n"), "link_certificate", RequestError, limit=8192, lines=True)
        if self.address:
            _check_address(self.address)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalystEntry:
    """Who asks: `key` (Ed25519, hex) signs the request. Raises RequestError."""

    name: str
    organisation: str
    key: str

    def __post_init__(self) -> None:
        check_types(self, RequestError)
        check_text(self.name, "name", RequestError)
        check_text(self.organisation, "organisation", RequestError)
        _check_hex(self.key, "key", 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockEntry:
    """One feature block as the request uses it: exactly these columns of exactly this content.

    `commitment` is the salted SHA-256 (hex) of the content, `rows` the published upper bound of its row count, `label` the
    label's column or "", `subject_key` the column that identifies people and `key_rule` how its text is normalised.
    Raises RequestError.
    """

    role: str
    block: str
    version: int
    commitment: str
    columns: tuple[str, ...]
    label: str
    rows: int
    subject_key: str
    key_rule: str

    def __post_init__(self) -> None:
        check_types(self, RequestError)
        _check_name(self.role, "role")
        for field in ("block", "subject_key", "key_rule"):
            check_text(getattr(self, field), field, RequestError)
        _check_hex(self.commitment, "commitment", 64)
        _check_range(self.version, "version", 1)
        _check_range(self.rows, "rows", 1)
        if not self.columns:
            raise RequestError("columns: at least one is needed")
        for column in self.columns:
            check_text(column, "columns", RequestError)
        _check_unique(self.columns, "columns")
        if self.label:
            check_text(self.label, "label", RequestError)
        if self.subject_key in self.columns or self.subject_key == self.label:
            raise RequestError(f"columns: the subject key {self.subject_key!r} can't be a feature or the label")
        if self.label in self.columns:
            raise RequestError(f"columns: the label {self.label!r} can't be a feature too")


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One line of the manifest: a kind of message that may go from one role to another, and how much of it.

    `shapes` gives for every array, bytes or text field of the message its largest shape; `repetitions` counts messages in the
    run; `max_bytes` bounds one encoded message; `learns` says in words what the receiver learns. Raises RequestError.
    """

    kind: str
    sender: str
    receiver: str
    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    repetitions: int
    max_bytes: int
    learns: str

    def __post_init__(self) -> None:
        check_types(self, RequestError)
        for field in ("kind", "sender", "receiver"):
            _check_name(getattr(self, field), field)
        if self.sender == self.receiver:
            raise RequestError(f"receiver: {self.kind} goes from {self.sender} to itself")
        _check_unique([name for name, _ in self.shapes], "shapes")
        for name, shape in self.shapes:
            _check_name(name, "shapes", leading="_")
            for size in shape:
                _check_range(size, f"shapes.{name}", 0)
        _check_range(self.repetitions, "repetitions", 1)
        _check_range(self.max_bytes, "max_bytes", 1)
        check_text(self.learns, "learns", RequestError, limit=2000)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputationRequest:
    """What is asked for, complete: purpose, people, data, computation, what leaves, limits, expiry and number of runs.

    `parameters` are sorted by name; `minimum_group` is the k of the disclosure rules; `public_seed` (63 bits) orders rows and
    batches only; `expires` is ISO 8601 in UTC; `nonce` (hex, 16 bytes or more) makes two equal wishes two requests.
    Raises RequestError naming the field.
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
        _check_name(self.computation, "computation")
        check_text(self.computation_version, "computation_version", RequestError)
        _check_hex(self.code_digest, "code_digest", 64)
        for received in self.analyst_receives:
            check_text(received, "analyst_receives", RequestError, limit=2000)
        for field in ("minimum_group", "minimum_overlap", "runs"):
            _check_range(getattr(self, field), field, 1)
        _check_range(self.public_seed, "public_seed", 0, _SEED_LIMIT)
        parse_utc(self.expires, "expires", RequestError)
        _check_hex(self.nonce, "nonce", 32, longer=True)
        _check_parameters(self.parameters)
        _check_roster(self)
        _check_references(self)


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
    """The request that `data` is the canonical form of. Raises RequestError naming the field or the broken form."""
    return decode_record(data, ComputationRequest, RequestError)


def party(request: ComputationRequest, role: str) -> PartyEntry:
    """The roster entry of a role. Raises RequestError for a role the request doesn't have."""
    for entry in request.parties:
        if entry.role == role:
            return entry
    raise RequestError(f"role {role!r} is not in the request; it has {', '.join(p.role for p in request.parties)}")


def party_named(request: ComputationRequest, name: str) -> PartyEntry:
    """The roster entry of an organisation. Raises RequestError for one that is not in the roster."""
    for entry in request.parties:
        if entry.name == name:
            return entry
    raise RequestError(f"party {name!r} is not in the roster; it has {', '.join(p.name for p in request.parties)}")


def sign_request(request: ComputationRequest, key: Ed25519PrivateKey) -> SignedRequest:
    """The request under its analyst's signature. Raises RequestError if `key` isn't the key that the request names."""
    if keys.public_hex(key) != request.analyst.key:
        raise RequestError(f"analyst.key: the request names another key for {request.analyst.name} than the one that signs")
    return SignedRequest(request=request, signature=keys.sign(key, signing_bytes("request", canonical(request))))


def verify_request(signed: SignedRequest) -> None:
    """Raises RequestError unless the signature is by the analyst whom the request names, over this very request."""
    try:
        keys.verify(signed.request.analyst.key, signing_bytes("request", canonical(signed.request)), signed.signature)
    except ApprovalError as failure:
        raise RequestError(
            f"signature: not by the key of analyst {signed.request.analyst.name}, or the request was altered after signing",
            remedy="ask the analyst to submit the request again",
        ) from failure


def to_text(signed: SignedRequest) -> str:
    """Canonical text of a signed request; `parse_signed` reads it."""
    return encode_record(signed).decode("utf-8")


def parse_signed(text: str) -> SignedRequest:
    """The signed request in `text`, its analyst's signature verified. Raises RequestError."""
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as failure:
        raise RequestError("SignedRequest: not UTF-8 text") from failure
    signed = decode_record(data, SignedRequest, RequestError)
    verify_request(signed)
    return signed


def differences(old: ComputationRequest, new: ComputationRequest) -> tuple[Difference, ...]:
    """Every field in which two requests differ, down to the line of manifest, roster, block and parameter.

    Values are compared by their canonical form, so that the result is empty exactly when the digests are equal.
    """
    before, after = _lines(old), _lines(new)
    names = [*before, *(name for name in after if name not in before)]
    return tuple(
        Difference(field=name, old=before.get(name), new=after.get(name))
        for name in names
        if before.get(name) != after.get(name)
    )


def _lines(request: ComputationRequest) -> dict[str, str]:
    """Field path -> canonical value, for all fields; lists of records by their own names, and their order as a line too."""
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
        _check_unique([getattr(entry, field) for entry in request.parties], f"parties.{field}")
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
    _check_unique([f"{block.role}/{block.block}" for block in request.blocks], "blocks")
    _check_unique([f"{r.kind} {r.sender} -> {r.receiver}" for r in request.manifest], "manifest")


def _check_parameters(parameters: tuple[tuple[str, Scalar], ...]) -> None:
    names = [name for name, _ in parameters]
    for name in names:
        check_text(name, "parameters", RequestError)
    _check_unique(names, "parameters")
    if names != sorted(names):
        raise RequestError("parameters: expected in the order of their names")
    for name, value in parameters:
        if isinstance(value, str) and value:
            check_text(value, f"parameters.{name}", RequestError, limit=2000)


def _check_name(value: str, field: str, leading: str = "") -> None:
    if not _NAME.match(value.lstrip(leading) if leading else value):
        raise RequestError(f"{field}: expected 1-64 letters, digits, dots, dashes or underscores, got {value[:80]!r}")


def _check_hex(value: str, field: str, digits: int, *, longer: bool = False) -> None:
    if not _HEX.match(value) or len(value) < digits or (len(value) > digits and not longer) or len(value) > 128:
        raise RequestError(f"{field}: expected {digits} lower-case hex digits{' or more' if longer else ''}")


def _check_range(value: int, field: str, least: int, limit: int = _SEED_LIMIT) -> None:
    if not least <= value < limit:
        raise RequestError(f"{field}: expected {least} or more, got {value}" if value < least else f"{field}: too large")


def _check_unique(values: list[str] | tuple[str, ...], field: str) -> None:
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        raise RequestError(f"{field}: {twice[0][:80]!r} appears more than once")


def _check_address(value: str) -> None:
    match = _ADDRESS.match(value)
    if not match or not 1 <= int(match[1]) <= int(match[2]) <= 65535:
        raise RequestError(f"address: expected host:first-last with ports from 1 to 65535, got {value[:80]!r}")
