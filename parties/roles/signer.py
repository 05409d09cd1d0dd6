"""Who somebody is: one of a party's people, proved by opening that person's own key file."""

from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from parties.home.people import Person, find_person
from parties.home.state import State
from protocols.errors import ConfigError
from protocols.keys import load_key, public_hex


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """One of our people with the unlocked key: who holds it can decide in that name."""

    person: Person
    key: Ed25519PrivateKey = field(repr=False)


def unlock(state: State, name: str, passphrase: bytes | None) -> Signer:
    """The person, proved by opening the person's key. ConfigError for a stranger, KeyFileError if it stays shut."""
    person = find_person(state.folder, name)
    key = load_key(key_path(state, name), passphrase)
    if public_hex(key) != person.key:
        raise ConfigError(
            f"the key file of {person.name} holds another key than people.json",
            remedy="restore it from a backup",
        )
    return Signer(person=person, key=key)


def key_path(state: State, person: str) -> Path:
    """The key file of one of our people; ConfigError when there is no such person."""
    return state.folder / "keys" / "people" / f"{find_person(state.folder, person).name}.pem"
