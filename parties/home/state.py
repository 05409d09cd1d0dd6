"""The state folder: everything a party or an analyst keeps, in one place, readable by its owner only.

party.toml      kind, name, organisation, uid; link; syft host, port; cores; [audit]          card.json  the public card
keys/           signing.pem, link.pem, link.crt, people/NAME.pem                      people.json, policy.toml
peers/          the address book, one accepted card each                              users.json, datasites.json
requests/ approvals/   signed requests, decisions of our people, countersigned approvals
runs/           one folder per run                                                    ledger.db  states and counters
blocks/         the store's feature blocks                                            audit.jsonl  the hash chain
secrets.json    syft's server key and root password; syft/ its database and blobs
"""

import os
import secrets
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from parties.home.cards import AddressBook, PartyCard, card_text, check_name, parse_address, parse_card
from parties.home.people import Person, add_person
from parties.home.policy import Policy, policy_text
from parties.home.private_files import (
    check_private,
    make_private_folder,
    read_json,
    read_toml,
    toml_text,
    write_json,
    write_private,
)
from protocols import keys
from protocols.audit import LEAST_MONTHS
from protocols.errors import StateError

POLICY_SEEN = "policy.seen.toml"
"""The policy that was last acted on, so that a change of policy.toml is noticed and logged."""
FOLDERS = ("keys", "keys/people", "peers", "requests", "approvals", "runs", "blocks", "syft")
PRIVATE_FILES = (
    "party.toml",
    "secrets.json",
    "keys/signing.pem",
    "keys/link.pem",
    "people.json",
    "users.json",
    "datasites.json",
    "audit.jsonl",
    "ledger.db",
)


KEEP_MONTHS, MOST_MONTHS = 12, 1200


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """An opened state folder; paths and public facts, no secret.

    `address` is "host:first-last" for a party that listens and "" for one that dials; `host` and `port` are where its
    syft server answers; `uid` (UUID4 text) is that server's identity; `warnings` are to be shown to the owner. An
    alignment uses so many `cores`, all for 0; the audit log's entries are kept for `keep_months`.
    """

    folder: Path
    kind: str
    name: str
    organisation: str
    uid: str
    address: str
    host: str
    port: int
    cores: int = 0
    keep_months: int = KEEP_MONTHS
    warnings: tuple[str, ...] = ()

    @property
    def audit_path(self) -> Path:
        """The audit log."""
        return self.folder / "audit.jsonl"

    @property
    def ledger_path(self) -> Path:
        """SQLite file of request states, run counters and steward tasks."""
        return self.folder / "ledger.db"

    @property
    def runs(self) -> Path:
        """Folder of the run folders."""
        return self.folder / "runs"

    @property
    def blocks(self) -> Path:
        """Folder of the store's feature blocks."""
        return self.folder / "blocks"

    @property
    def root_email(self) -> str:
        """Login name of the owner's account on the party's own syft server."""
        return f"owner@{self.name}.example.org"

    def card(self) -> PartyCard:
        """The public card that others add to their address books."""
        return parse_card((self.folder / "card.json").read_text(encoding="utf-8"))

    def address_book(self) -> AddressBook:
        """The accepted peers and analysts."""
        return AddressBook(self.folder / "peers", self.card())

    def signing_key(self, passphrase: bytes | None = None) -> Ed25519PrivateKey:
        """The signing key: a party's has no passphrase (its supervisor runs unattended), an analyst's may have one."""
        return keys.load_key(self.folder / "keys" / "signing.pem", passphrase)

    def secrets(self) -> dict[str, str]:
        """`SERVER_PRIVATE_KEY` (hex) and `DEFAULT_ROOT_PASSWORD` of the party's syft server; StateError unless 0600."""
        path = self.folder / "secrets.json"
        check_private(path)
        return {name: str(value) for name, value in read_json(path).items()}


def init_party(
    folder: Path,
    *,
    name: str,
    organisation: str,
    address: str = "",
    host: str = "127.0.0.1",
    port: int = 8081,
    owner: str = "owner",
    passphrase: bytes | None = None,
    policy: Policy | None = None,
) -> State:
    """A new party's state folder with all keys, its card and a first person: the owner, whose key gets the passphrase.

    Raises StateError when the folder is not empty and RosterError for an unusable name or address.
    """
    if address:
        parse_address(address)
    if not 0 < port < 65536:
        raise StateError(f"syft port {port} is not within 1 to 65535")
    check_name(owner)
    folder = _create(
        folder, kind="party", name=name, organisation=organisation, address=address, host=host, port=port
    )
    key_pem, certificate = keys.link_certificate(name)
    write_private(folder / "keys" / "link.pem", key_pem)
    write_private(folder / "keys" / "link.crt", certificate)
    secret = {"SERVER_PRIVATE_KEY": secrets.token_hex(32), "DEFAULT_ROOT_PASSWORD": secrets.token_urlsafe(24)}
    write_json(folder / "secrets.json", secret)
    for file in ("policy.toml", POLICY_SEEN):
        write_private(folder / file, policy_text(policy or Policy()))
    _finish(folder, "party", name, organisation, None, certificate.decode(), address)
    state = open_state(folder, test_mode=True)
    key_path = folder / "keys" / "people" / f"{owner}.pem"
    key = keys.generate_key()
    keys.save_key(key_path, key, passphrase)
    add_person(folder, Person(name=owner, role="owner", organisation=organisation, key=keys.public_hex(key)))
    return state


def init_analyst(folder: Path, *, name: str, organisation: str, passphrase: bytes | None = None) -> State:
    """A new analyst's state folder: signing key under the passphrase, card, empty address book."""
    folder = _create(
        folder, kind="analyst", name=name, organisation=organisation, address="", host="", port=0
    )
    _finish(folder, "analyst", name, organisation, passphrase, "", "")
    return open_state(folder, test_mode=True)


def open_state(folder: Path, *, test_mode: bool = False) -> State:
    """The state in the folder; StateError for a missing file or one that others could read.

    Inside the system's temporary folder the state may vanish at the next boot: a warning says so, unless in test mode.
    """
    folder = folder.resolve()
    if folder.exists() and os.access(folder, os.X_OK) and not (folder / "party.toml").exists():
        raise StateError(
            f"{folder} is no state folder: it has no party.toml",
            remedy="name another with --state, or make one with `fedaccord init`",
        )
    check_private(folder)
    for name in FOLDERS:
        check_private(make_private_folder(folder / name))
    for name in PRIVATE_FILES:
        if (folder / name).exists():
            check_private(folder / name)
    table = read_toml(folder / "party.toml")
    texts = {}
    for name in ("kind", "name", "organisation", "uid", "address", "host"):
        value = table.get(name)
        if not isinstance(value, str):
            raise StateError(f"{folder / 'party.toml'}: {name} must be text", remedy="correct the file")
        texts[name] = value
    port = _whole(folder, "port", table.get("port"))
    cores = _whole(folder, "cores", table.get("cores", 0))
    if texts["kind"] not in ("party", "analyst"):
        raise StateError(f"{folder / 'party.toml'}: kind must be party or analyst", remedy="correct the file")
    warnings = () if test_mode else _warnings(folder)
    keep = _keep_months(folder, table.get("audit", {}))
    state = State(folder=folder, port=port, cores=cores, keep_months=keep, warnings=warnings, **texts)
    card = state.card()
    if (card.kind, card.name, card.organisation, card.address) != (
        state.kind,
        state.name,
        state.organisation,
        state.address,
    ):
        raise StateError(
            f"{folder / 'party.toml'} and card.json differ", remedy="restore the file that was changed"
        )
    return state


def _whole(folder: Path, name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise StateError(f"{folder / 'party.toml'}: {name} must be a whole number", remedy="correct the file")
    return value


def _keep_months(folder: Path, audit: object) -> int:
    """How long entries of the audit log are kept, of the table [audit]; StateError unless that is long enough."""
    months = audit.get("keep_months", KEEP_MONTHS) if isinstance(audit, dict) else None
    if type(months) is not int or not LEAST_MONTHS <= months <= MOST_MONTHS:
        raise StateError(
            f"{folder / 'party.toml'}: [audit] keep_months must be a whole number from {LEAST_MONTHS} to {MOST_MONTHS}",
            remedy=f"correct the file; without it {KEEP_MONTHS} months are kept",
        )
    return months


def require_kind(state: State, kind: str) -> State:
    """The state, when it is of this kind (party or analyst); StateError otherwise."""
    if state.kind != kind:
        article = {"analyst": "an analyst", "party": "a party"}
        raise StateError(
            f"{state.folder} is the folder of {article[state.kind]}, this is done by {article[kind]}",
            remedy="name the other folder with --state",
        )
    return state


def _create(
    folder: Path, *, kind: str, name: str, organisation: str, address: str, host: str, port: int
) -> Path:
    check_name(name)
    if folder.exists() and any(folder.iterdir()):
        raise StateError(
            f"{folder} is not empty", remedy="choose a new folder; an existing state is never overwritten"
        )
    folder = make_private_folder(folder.resolve())
    for each in FOLDERS:
        make_private_folder(folder / each)
    table: dict[str, str | int | float | bool] = {
        "kind": kind,
        "name": name,
        "organisation": organisation,
        "uid": str(uuid.uuid4()),
        "address": address,
        "host": host,
        "port": port,
        "cores": 0,
    }
    comment = (
        "Whose state folder this is. address: host:first-last when the link listens here, empty when it dials.\n"
        "cores: how many an alignment uses, 0 for all.\n"
        f"[audit] keep_months: how long entries of the audit log are kept at least; {LEAST_MONTHS} or more."
    )
    tables: dict[str, dict[str, str | int | float | bool]] = {"": table}
    if kind == "party":
        tables["audit"] = {"keep_months": KEEP_MONTHS}
    write_private(folder / "party.toml", toml_text(tables, comment))
    return folder


def _finish(
    folder: Path,
    kind: str,
    name: str,
    organisation: str,
    passphrase: bytes | None,
    certificate: str,
    address: str,
) -> None:
    key = keys.generate_key()
    keys.save_key(folder / "keys" / "signing.pem", key, passphrase)
    card = PartyCard(
        kind=kind,
        name=name,
        organisation=organisation,
        signing_key=keys.public_hex(key),
        link_certificate=certificate,
        address=address,
    )
    write_private(folder / "card.json", card_text(card) + "\n")


def _warnings(folder: Path) -> tuple[str, ...]:
    temporary = Path(tempfile.gettempdir()).resolve()
    if folder.is_relative_to(temporary):
        return (f"the state folder {folder} lies in the system's temporary folder and may vanish: move it",)
    return ()
