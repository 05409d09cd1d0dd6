"""What an audit log consists of: events, entries, the links of the chain, and signed heads.

The hash of an entry covers its party, its index, the hash of the entry before and everything it says. A head
is the last entry's index and hash; signed and handed to the other party, it shows later whether the end of
the log was cut off or the log rewritten.
"""

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from protocols import keys
from protocols.errors import ApprovalError, AuditError
from protocols.records import (
    Scalar,
    check_text,
    check_types,
    decode_record,
    encode_record,
    parse_utc,
    signed_form,
    utc_text,
    utf8,
)

GENESIS = "0" * 64
"""The hash before the first entry."""
DETAIL_ITEMS, DETAIL_TEXT = 40, 200
"""How many details an entry may have, and how many characters a text among them."""
ALTERED = "find out who did that, compare with copies and exports of the log, and put it back from a copy"
INTEGER_LIMIT = 1 << 63
"""Numbers in a detail are smaller than this."""


class AuditEvent(StrEnum):
    """What happened. A new kind of event is one line here and one in its test."""

    CONFIG_CHANGED = "config_changed"
    PEER_ADDED = "peer_added"
    PEER_REMOVED = "peer_removed"
    PERSON_REMOVED = "person_removed"
    LOGIN = "login"
    USER_ADDED = "user_added"
    USER_CHANGED = "user_changed"
    USER_REMOVED = "user_removed"
    BLOCK_REGISTERED = "block_registered"
    BLOCK_REPLACED = "block_replaced"
    PEOPLE_ERASED = "people_erased"
    SUBMITTED = "submitted"
    LOGGED_IN = "logged_in"
    VIEWED = "viewed"
    APPROVED = "approved"
    DENIED = "denied"
    REVOKED = "revoked"
    COUNTERSIGNED = "countersigned"
    STARTED = "started"
    START_REFUSED = "start_refused"
    HANDSHAKE = "handshake"
    CLOCKS_DIFFER = "clocks_differ"
    HANDSHAKE_REFUSED = "handshake_refused"
    HEAD_RECEIVED = "head_received"
    PEER_FAULT = "peer_fault"
    PSI_STARTED = "psi_started"
    PSI_FINISHED = "psi_finished"
    MESSAGES_RESERVED = "messages_reserved"
    PROGRAM_FINISHED = "program_finished"
    RUN_FINISHED = "run_finished"
    RUN_FAILED = "run_failed"
    RUN_CANCELLED = "run_cancelled"
    RUN_INTERRUPTED = "run_interrupted"
    RESULT_SUPPRESSED = "result_suppressed"
    RESULT_RELEASED = "result_released"
    TEMPORARY_DELETED = "temporary_deleted"
    MODEL_EXPORTED = "model_exported"
    MEMORY_DELETED = "memory_deleted"
    ROWS_EXPORTED = "rows_exported"
    PRIVATE_SEED_INJECTED = "private_seed_injected"
    SERVER_STARTED = "server_started"
    SERVER_STOPPED = "server_stopped"
    LOG_REPAIRED = "log_repaired"
    LOG_READ = "log_read"
    LOG_EXPORTED = "log_exported"
    LOG_PRUNED = "log_pruned"


class Result(StrEnum):
    """How it ended: refused is what a rule forbade, failed is what broke."""

    OK = "ok"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the log.

    `index` counts from 1, `time` is UTC, `hash` covers all other fields. Raises AuditError.

    `who` with `role` and `organisation` is the verified user or the program that acts, `origin` the host or
    session it came from, `object` what it was done to (data set and version, request, code digest), `detail`
    numbers and short texts by name.
    """

    index: int
    time: str
    party: str
    event: AuditEvent
    who: str
    role: str
    organisation: str
    result: Result
    origin: str
    object: str
    detail: tuple[tuple[str, Scalar], ...]
    previous: str
    hash: str

    def __post_init__(self) -> None:
        check_types(self, AuditError)
        parse_utc(self.time, "time", AuditError)
        for field in ("party", "who", "role", "organisation", "origin"):
            check_text(getattr(self, field), field, AuditError)
        check_text(self.object, "object", AuditError, limit=500)
        _check_detail(self.detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The last entry of a party's log at some moment; index 0 and GENESIS for an empty log."""

    party: str
    index: int
    hash: str

    def __post_init__(self) -> None:
        check_types(self, AuditError)
        check_text(self.party, "party", AuditError)
        if self.index < 0 or (self.index == 0) != (self.hash == GENESIS):
            raise AuditError("index: 0 goes with the hash of an empty log, and no other")


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedHead:
    """A head signed by its party at `time` (UTC) with its signing key `key`; key and signature in hex."""

    head: Head
    time: str
    key: str
    signature: str

    def __post_init__(self) -> None:
        check_types(self, AuditError)
        parse_utc(self.time, "time", AuditError)


def link(entry: Entry, before: Head) -> Entry:
    """The entry as the successor of `before`: with index, hash of the entry before and its own hash."""
    linked = replace(entry, index=before.index + 1, previous=before.hash)
    return replace(linked, hash=entry_hash(linked))


def entry_hash(entry: Entry) -> str:
    """SHA-256 (hex) over all fields of the entry but its own hash."""
    try:
        return hashlib.sha256(signed_form("entry", entry, "hash")).hexdigest()
    except ValueError as failure:
        raise AuditError("detail: holds a value without a canonical form") from failure


def sign_head(head: Head, time: datetime, key: Ed25519PrivateKey) -> SignedHead:
    """The head under the party's signature, to be handed to the other parties."""
    unsigned = SignedHead(head=head, time=utc_text(time), key=keys.public_hex(key), signature="")
    return replace(unsigned, signature=keys.sign(key, signed_form("head", unsigned, "signature")))


def verify_head(signed: SignedHead, key: str | None = None) -> None:
    """Raises AuditError unless the head is signed by the key in it, which must be `key` if given."""
    if key is not None and signed.key != key:
        raise AuditError(f"the audit head of {signed.head.party} is signed with another key than expected")
    try:
        keys.verify(signed.key, signed_form("head", signed, "signature"), signed.signature)
    except ApprovalError as failure:
        raise AuditError(
            f"the audit head of {signed.head.party} was altered, or isn't signed by its key"
        ) from failure


def head_detail(signed: SignedHead, when: str) -> dict[str, Scalar]:
    """A peer's signed head, whole, as an entry's detail: with it a cut or rewritten log of that peer can be told."""
    return {
        "peer": signed.head.party,
        "index": signed.head.index,
        "hash": signed.head.hash,
        "time": signed.time,
        "key": signed.key,
        "signature": signed.signature,
        "when": when,
    }


def to_text(signed: SignedHead) -> str:
    """Canonical text of a signed head; `parse_head` reads it."""
    return encode_record(signed).decode("utf-8")


def parse_head(text: str, key: str | None = None) -> SignedHead:
    """The signed head in `text`, verified as by `verify_head`. Raises AuditError."""
    signed = decode_record(utf8(text, AuditError), SignedHead, AuditError)
    verify_head(signed, key)
    return signed


def parse_line(line: bytes, name: str) -> Entry:
    """The entry in a line, its own hash checked; `name` says which in the AuditError."""
    try:
        entry = decode_record(line, Entry, AuditError)
    except AuditError as failure:
        raise AuditError(f"{name} was altered: {failure}", remedy=ALTERED) from failure
    if entry.hash != entry_hash(entry):
        raise AuditError(f"{name} was altered: its hash doesn't match its content", remedy=ALTERED)
    return entry


def head_of(entry: Entry) -> Head:
    """The head of a log that ends in this entry."""
    return Head(party=entry.party, index=entry.index, hash=entry.hash)


def torn_line(index: int) -> AuditError:
    """The error for a last line without its end."""
    return AuditError(
        f"entry {index} is torn: the log's last line has no end, as after a crash while writing",
        remedy="the next append sets the torn bytes aside and says so in the log",
    )


def _check_detail(detail: tuple[tuple[str, Scalar], ...]) -> None:
    names = [name for name, _ in detail]
    if len(names) > DETAIL_ITEMS:
        raise AuditError(f"detail: {len(names)} items, at most {DETAIL_ITEMS} are allowed")
    if names != sorted(set(names)):
        raise AuditError("detail: expected each name once and in order")
    for name, value in detail:
        check_text(name, "detail", AuditError, limit=80)
        if isinstance(value, str) and value:
            check_text(value, f"detail.{name}", AuditError, limit=DETAIL_TEXT)
        elif isinstance(value, int) and abs(value) >= INTEGER_LIMIT:
            raise AuditError(f"detail.{name}: the number is too large")
