"""Public cards of parties and analysts, and the address book that decides whom a party talks to.

A card is handed over in any way; its fingerprint is read out of band (by telephone, on paper). A peer enters the
address book only with both, so that nobody can name his own key "retailer".
"""

import json
import re
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from cryptography import x509

from parties.home.private_files import make_private_folder, sync_folder, write_private
from protocols.errors import KeyFileError, RosterError
from protocols.keys import certificate_fingerprint, fingerprint
from protocols.request import ComputationRequest, PartyEntry

NAME = re.compile(r"[a-z][a-z0-9-]{0,61}[a-z0-9]\Z")
ADDRESS = re.compile(r"([A-Za-z0-9.-]{1,253}):(\d{1,5})-(\d{1,5})\Z")
HEX_KEY = re.compile(r"[0-9a-f]{64}\Z")
KINDS = ("party", "analyst")
CARD_LIMIT = 16_384  # bytes; a real card has about 900


@dataclass(frozen=True, slots=True, kw_only=True)
class PartyCard:
    """What others must know of a party or an analyst; holds no secret.

    `signing_key` is hex Ed25519; `link_certificate` PEM and `address` ("host:first-last" when the party listens, ""
    when it dials) are empty for an analyst. Raises RosterError naming the wrong field.
    """

    kind: str
    name: str
    organisation: str
    signing_key: str
    link_certificate: str = ""
    address: str = ""

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.kind not in KINDS:
            raise RosterError(f"card of {self.name}: kind must be one of {', '.join(KINDS)}")
        if (
            not self.organisation.strip()
            or not self.organisation.isprintable()
            or len(self.organisation) > 200
        ):
            raise RosterError(f"card of {self.name}: organisation must be 1 to 200 printable characters")
        if not HEX_KEY.match(self.signing_key):
            raise RosterError(f"card of {self.name}: signing_key must be 64 hex digits")
        if self.kind == "party":
            _check_certificate(self.name, self.link_certificate)
            if self.address:
                parse_address(self.address)
        elif self.link_certificate or self.address:
            raise RosterError(f"card of {self.name}: an analyst has neither link certificate nor address")


def check_name(name: str) -> str:
    """The name, when it can be a file name and a DNS label: lower case letters, digits, hyphens; 2 to 63 of them."""
    if not NAME.match(name):
        raise RosterError(
            f"the name {name[:80]!r} is not usable",
            remedy="use 2 to 63 lower case letters, digits or hyphens",
        )
    return name


def parse_address(address: str) -> tuple[str, int, int]:
    """Host, first and last port of "host:first-last"; RosterError when it isn't of that form."""
    match = ADDRESS.match(address)
    if match is None:
        raise RosterError(
            f"address {address[:80]!r} is not host:first-last", remedy="for example 127.0.0.1:7400-7409"
        )
    host, first, last = match[1], int(match[2]), int(match[3])
    if not 0 < first <= last < 65536 or last - first > 999:
        raise RosterError(f"address {address!r}: the ports must rise within 1 to 65535 and be at most 1000")
    return host, first, last


def _check_certificate(name: str, pem: str) -> None:
    try:
        certificate = x509.load_pem_x509_certificate(pem.encode())
    except ValueError as error:
        raise RosterError(f"card of {name}: link_certificate is not a PEM certificate") from error
    try:
        certificate_fingerprint(pem)
    except KeyFileError as error:
        raise RosterError(f"card of {name}: {error}") from error
    if certificate.issuer != certificate.subject:
        raise RosterError(f"card of {name}: link_certificate must be self-signed")


def card_text(card: PartyCard) -> str:
    """The card as canonical JSON: one line, keys sorted."""
    return json.dumps(asdict(card), sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def card_fingerprint(card: PartyCard) -> str:
    """Fingerprint of the card's canonical text, to be compared out of band."""
    return fingerprint(card_text(card).encode())


def parse_card(text: str) -> PartyCard:
    """The card in the text; RosterError naming what is wrong."""
    if len(text) > CARD_LIMIT:
        raise RosterError(f"a card has at most {CARD_LIMIT} characters")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RosterError("the card is not JSON", remedy="ask for the file card.json again") from error
    names = [field.name for field in fields(PartyCard)]
    if not isinstance(value, dict) or set(value) != set(names):
        raise RosterError(f"a card has exactly the fields {', '.join(names)}")
    for name in names:
        if not isinstance(value[name], str):
            raise RosterError(f"card: {name} must be text")
    return PartyCard(**{name: value[name] for name in names})


class AddressBook:
    """The peers and analysts whose cards the owner accepted, one file each in `peers/`."""

    def __init__(self, folder: Path, own: PartyCard) -> None:
        self._folder = folder
        self._own = own

    def add_peer(self, card: str, expected_fingerprint: str) -> PartyCard:
        """Accepts a card whose fingerprint is the expected one; RosterError otherwise, or when the name is taken."""
        new = self.acceptable(card, expected_fingerprint)
        write_private(make_private_folder(self._folder) / f"{new.name}.json", card_text(new) + "\n")
        return new

    def remove(self, name: str) -> PartyCard:
        """Takes the card of that name out and gives it back; RosterError when there is none."""
        for card in self.cards():
            if card.name == name:
                (self._folder / f"{card.name}.json").unlink()
                sync_folder(self._folder)
                return card
        raise RosterError(
            f"{name[:80]!r} is not in the address book of {self._own.name}",
            remedy=f"there are {', '.join(card.name for card in self.cards()) or 'none'}",
        )

    def acceptable(self, card: str, expected_fingerprint: str) -> PartyCard:
        """The card, when `add_peer` would accept it; raises like `add_peer`, changes nothing."""
        new = parse_card(card)
        found, expected = card_fingerprint(new), _plain(expected_fingerprint)
        if not re.fullmatch("[0-9a-f]{64}", expected):
            raise RosterError(
                f"{expected_fingerprint[:80]!r} is no fingerprint: it has 64 hexadecimal digits, in 16 groups of 4",
                remedy="copy the whole line that the other side's `fedaccord init` or `peer list` showed",
            )
        if expected != _plain(found):
            raise RosterError(
                f"the card of {new.name} has another fingerprint than the one you gave",
                remedy="read the fingerprint again over another channel; somebody may have swapped the card",
            )
        if new.name == self._own.name or new.signing_key == self._own.signing_key:
            raise RosterError(f"{new.name} is this state folder's own name or key")
        for known in self.cards():
            if known.name == new.name and known != new:
                raise RosterError(
                    f"{new.name} is already in the address book with another card",
                    remedy=f"`fedaccord peer remove {new.name}` first when the change is agreed",
                )
            if known.name != new.name and known.signing_key == new.signing_key:
                raise RosterError(f"{new.name} has the key of {known.name}")
        return new

    def cards(self) -> tuple[PartyCard, ...]:
        """All accepted cards, by name."""
        return tuple(
            parse_card(path.read_text(encoding="utf-8")) for path in sorted(self._folder.glob("*.json"))
        )

    def organisations(self) -> dict[str, str]:
        """The organisation of each party that is known here, our own among them, by the party's name."""
        known = (self._own, *(card for card in self.cards() if card.kind == "party"))
        return {card.name: card.organisation for card in known}

    def find(self, name: str, kind: str) -> PartyCard:
        """The card of that name and kind; RosterError with the remedy when there is none."""
        check_name(name)
        for card in self.cards():
            if card.name == name and card.kind == kind:
                return card
        raise RosterError(
            f"{kind} {name!r} is not in the address book of {self._own.name}",
            remedy="fedaccord peer add CARD --fingerprint ... (read the fingerprint out of band)",
        )

    def check_roster(self, request: ComputationRequest) -> PartyEntry:
        """Our own entry, when every party and the analyst of the request are as in the address book.

        Raises RosterError naming party and field: the request may not change a key, a certificate or an address.
        """
        own = [entry for entry in request.parties if entry.name == self._own.name]
        if len(own) != 1:
            raise RosterError(f"the roster names {self._own.name} {len(own)} times, expected once")
        for what in ("name", "role"):
            values = [getattr(entry, what) for entry in request.parties]
            if len(set(values)) != len(values):
                raise RosterError(f"the roster has a {what} twice")
        for entry in request.parties:
            known = self._own if entry.name == self._own.name else self.find(entry.name, "party")
            for field in ("signing_key", "link_certificate", "address"):
                if getattr(entry, field) != getattr(known, field):
                    raise RosterError(f"roster: {field} of {entry.name} differs from the address book")
        self.check_analyst(request)
        return own[0]

    def check_analyst(self, request: ComputationRequest) -> PartyCard:
        """The analyst's card, when the request names it as the address book does; RosterError otherwise."""
        analyst = self.find(request.analyst.name, "analyst")
        if request.analyst.key != analyst.signing_key:
            raise RosterError(f"roster: key of analyst {analyst.name} differs from the address book")
        if request.analyst.organisation != analyst.organisation:
            raise RosterError(f"roster: organisation of analyst {analyst.name} differs from the address book")
        return analyst


def _plain(text: str) -> str:
    return "".join(character for character in text.lower() if character not in "-: \n\t")
