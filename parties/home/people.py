"""The people of one party: owners and reviewers, who decide, and auditors, who only read. Each has an own key."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

from parties.home.cards import HEX_KEY, check_name
from parties.home.private_files import read_json, write_json
from protocols import keys
from protocols.errors import ConfigError, StateError

ROLES = ("owner", "reviewer", "auditor")
"""An auditor reads requests and the audit log and decides on nothing: no approval knows that role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """One person: `role` is one of ROLES, `key` the hex Ed25519 public key; ConfigError naming a wrong field."""

    name: str
    role: str
    organisation: str
    key: str

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.role not in ROLES:
            raise ConfigError(
                f"person {self.name}: role must be {' or '.join(ROLES)}, got {self.role[:40]!r}"
            )
        if not HEX_KEY.match(self.key):
            raise ConfigError(f"person {self.name}: the public key must be 64 hex digits")
        if not self.organisation.strip() or not self.organisation.isprintable():
            raise ConfigError(f"person {self.name}: organisation must be printable text")


Recorded = Callable[[Person], AbstractContextManager[None]]
"""Given a new person, the block in which he or she may be written: it is entered when the log says so."""


def read_people(folder: Path) -> tuple[Person, ...]:
    """All people of the state folder, by name; StateError when people.json is damaged."""
    path = folder / "people.json"
    if not path.exists():
        return ()
    people = []
    for name, value in sorted(read_json(path).items()):
        if (
            not isinstance(value, dict)
            or set(value) != {"name", "role", "organisation", "key"}
            or value["name"] != name
        ):
            raise StateError(
                f"{path}: the entry {name[:80]!r} is damaged", remedy="restore the file from a backup"
            )
        people.append(Person(**{field: str(content) for field, content in value.items()}))
    return tuple(people)


def add_person(folder: Path, person: Person) -> None:
    """Adds a person; ConfigError when name or key is taken: one person is one key."""
    people = _people_without(folder, person)
    write_json(folder / "people.json", {each.name: asdict(each) for each in (*people, person)})


def _people_without(folder: Path, person: Person) -> tuple[Person, ...]:
    """All people so far; ConfigError when one of them has the new person's name or key."""
    people = read_people(folder)
    for known in people:
        if known.name == person.name:
            raise ConfigError(f"{person.name} is already one of our people", remedy="remove that entry first")
        if known.key == person.key:
            raise ConfigError(
                f"{person.name} has the key of {known.name}", remedy="each person needs a key of their own"
            )
    return people


def create_person(
    folder: Path,
    *,
    name: str,
    role: str,
    organisation: str,
    passphrase: bytes | None,
    recorded: Recorded = lambda person: nullcontext(),
) -> Person:
    """Makes a key in keys/people/NAME.pem under the passphrase and adds the person; a key file is never overwritten.

    ConfigError when the name is taken. Whatever is written is written inside `recorded`.
    """
    key = keys.generate_key()
    person = Person(name=name, role=role, organisation=organisation, key=keys.public_hex(key))
    _people_without(folder, person)
    with recorded(person):
        keys.save_key(folder / "keys" / "people" / f"{name}.pem", key, passphrase)
        add_person(folder, person)
    return person


def remove_person(folder: Path, name: str) -> Person:
    """Takes a person and the person's key file away; ConfigError for a stranger and for the last owner.

    What the person has approved no longer counts; a denial or revocation stands.
    """
    gone = find_person(folder, name)
    rest = [person for person in read_people(folder) if person.name != gone.name]
    if not any(person.role == "owner" for person in rest):
        raise ConfigError(f"{gone.name} is the last owner", remedy="add another owner first")
    write_json(folder / "people.json", {each.name: asdict(each) for each in rest})
    (folder / "keys" / "people" / f"{gone.name}.pem").unlink(missing_ok=True)
    return gone


def find_person(folder: Path, name: str) -> Person:
    """The person of that name; ConfigError naming who was asked for and who there is."""
    people = read_people(folder)
    for person in people:
        if person.name == name:
            return person
    raise ConfigError(
        f"{name[:80]!r} is not one of our people",
        remedy=f"there are {', '.join(person.name for person in people) or 'none'}",
    )
