"""The entries of a ComputationRequest: roster, analyst, blocks, manifest; validated when they are made."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from protocols.errors import RequestError
from protocols.records import check_text, check_types

_HEX = re.compile(r"[0-9a-f]+\Z")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
_ADDRESS = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\]):([0-9]{1,5})-([0-9]{1,5})\Z")
INTEGER_LIMIT = 1 << 63
"""Every integer in a request is below this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartyEntry:
    """One line of the roster: an organisation, its role here and the two public keys that others pin.

    `signing_key` is Ed25519 in hex; `link_certificate` is PEM; `address` is "host:first-last" for a party
    that listens and "" for one that dials. Raises RequestError.
    """

    name: str
    role: str
    signing_key: str
    link_certificate: str
    address: str

    def __post_init__(self) -> None:
        check_types(self, RequestError)
        check_name(self.name, "name")
        check_name(self.role, "role")
        check_hex(self.signing_key, "signing_key", 64)
        if not self.link_certificate.startswith("-----BEGIN CERTIFICATE-----\n"):
            raise RequestError("link_certificate: expected one certificate in PEM form")
        check_text(
            self.link_certificate.rstrip("\n"), "link_certificate", RequestError, limit=8192, lines=True
        )
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
        check_hex(self.key, "key", 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockEntry:
    """One feature block as the request uses it: exactly these columns (none for an alignment) of exactly this content.

    `commitment` is the salted SHA-256 (hex) of the content, `rows` the published upper bound of its row
    count, `label` the label's column or "", `subject_key` the column (or columns, with commas between) that identifies
    people and `key_rule` how its text is normalised; `key_missing` are the texts that mean "no key", `duplicates` says
    what became of rows that share a key. Raises RequestError.
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
    key_missing: tuple[str, ...] = ()
    duplicates: str = "error"

    def __post_init__(self) -> None:
        check_types(self, RequestError)
        check_name(self.role, "role")
        for field in ("block", "subject_key", "key_rule", "duplicates"):
            check_text(getattr(self, field), field, RequestError)
        for token in self.key_missing:
            check_text(token, "key_missing", RequestError)
        check_hex(self.commitment, "commitment", 64)
        check_range(self.version, "version", 1)
        check_range(self.rows, "rows", 1)
        for column in self.columns:
            check_text(column, "columns", RequestError)
        check_unique(self.columns, "columns")
        if self.label:
            check_text(self.label, "label", RequestError)
        if self.subject_key in self.columns or self.subject_key == self.label:
            raise RequestError(
                f"columns: the subject key {self.subject_key!r} can't be a feature or the label"
            )
        if self.label in self.columns:
            raise RequestError(f"columns: the label {self.label!r} can't be a feature too")


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One line of the manifest: a kind of message that may go from one role to another, and how much of it.

    `shapes` gives for every array, bytes or text field of the message its largest shape; `repetitions` counts
    messages in the run; `max_bytes` bounds one encoded message; `learns` says in words what the receiver
    learns. Raises RequestError.
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
            check_name(getattr(self, field), field)
        if self.sender == self.receiver:
            raise RequestError(f"receiver: {self.kind} goes from {self.sender} to itself")
        check_unique([name for name, _ in self.shapes], "shapes")
        for name, shape in self.shapes:
            _check_field(name)
            for size in shape:
                check_range(size, f"shapes.{name}", 0)
        check_range(self.repetitions, "repetitions", 1)
        check_range(self.max_bytes, "max_bytes", 1)
        check_text(self.learns, "learns", RequestError, limit=2000)


def check_name(value: str, field: str) -> None:
    """Refuses a name that couldn't be a file name or part of an identifier."""
    if not _NAME.match(value):
        raise RequestError(
            f"{field}: expected 1-64 letters, digits, dots, dashes, underscores, got {value[:80]!r}"
        )


def check_hex(value: str, field: str, digits: int, *, longer: bool = False) -> None:
    """Refuses text that isn't lower-case hex of this length (or longer, up to 128 digits)."""
    if (
        not _HEX.match(value)
        or len(value) < digits
        or (len(value) > digits and not longer)
        or len(value) > 128
    ):
        raise RequestError(f"{field}: expected {digits} lower-case hex digits{' or more' if longer else ''}")


def check_range(value: int, field: str, least: int, limit: int = INTEGER_LIMIT) -> None:
    """Refuses a number outside least..limit-1."""
    if not least <= value < limit:
        raise RequestError(
            f"{field}: expected {least} or more, got {value}" if value < least else f"{field}: too large"
        )


def check_unique(values: Sequence[str], field: str) -> None:
    """Refuses a list that names one thing twice."""
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        raise RequestError(f"{field}: {twice[0][:80]!r} appears more than once")


def _check_address(value: str) -> None:
    match = _ADDRESS.match(value)
    if not match or not 1 <= int(match[1]) <= int(match[2]) <= 65535:
        raise RequestError(
            f"address: expected host:first-last with ports from 1 to 65535, got {value[:80]!r}"
        )


def _check_field(value: str) -> None:
    if not _FIELD.match(value):
        raise RequestError(f"shapes: {value[:80]!r} can't be the name of a message's field")
