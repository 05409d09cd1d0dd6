"""Who may read a party's audit log, and the entry that every reading leaves in it.

The log names people and their decisions, so it is for the party's own people only: owners, reviewers and auditors see
all of it. An analyst has no way to it: what the shim answers is about the caller's own request. What was read is shown
only once its entry is on the disk. Who reads on the command line or in the console has opened the key of the person in
whose name it is. A log whose check fails isn't written to by that: the next check must find the same.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias, TypeVar

from parties.home.journal import Actor, Journal, one_line
from parties.home.people import ROLES, find_person
from parties.home.state import State
from parties.roles.signer import key_path, unlock
from protocols.audit import AuditEvent
from protocols.errors import ConfigError, KeyFileError, StateError

T = TypeVar("T")
Passphrase: TypeAlias = Callable[[Path], bytes | None]
"""The passphrase of a key file; KeyFileError when it needs one and there is none."""
Clock = Callable[[], datetime]
COMMAND_LINE = "command line"
TARGET = "audit log"


def utc_now() -> datetime:
    """The time on this machine."""
    return datetime.now(UTC)


def read_log(
    state: State,
    person: str,
    what: str,
    read: Callable[[], T],
    *,
    event: AuditEvent = AuditEvent.LOG_READ,
    origin: str = COMMAND_LINE,
    now: Clock = utc_now,
) -> T:
    """What `read` gives back of the log; the log says who read `what` before it is given back.

    Raises StateError for somebody who isn't one of our people, which is logged as refused; what `read` raises; and
    AuditError when the reading can't be logged.
    """
    journal = Journal(state, now)
    actor = reader(state, person, what, event=event, origin=origin, now=now)
    found = read()
    journal.ok(event, actor, TARGET, what=what)
    return found


def prove(
    state: State,
    person: str,
    passphrase: Passphrase,
    *,
    event: AuditEvent = AuditEvent.LOG_READ,
    now: Clock = utc_now,
) -> str:
    """The person's name, proved by opening the person's own key file.

    Raises StateError for a stranger and KeyFileError or ConfigError for a key that doesn't open; both are logged as
    refused.
    """
    actor = reader(state, person, "proof of who it is", event=event, now=now)
    try:
        unlock(state, person, passphrase(key_path(state, person)))
    except (ConfigError, KeyFileError) as error:
        claimed = replace(actor, role="unknown", organisation="unknown")
        Journal(state, now).refused(event, claimed, f"{TARGET}: not proved by key", error)
        raise
    return actor.who


def reader(
    state: State,
    person: str,
    what: str,
    *,
    event: AuditEvent,
    origin: str = COMMAND_LINE,
    now: Clock = utc_now,
    roles: tuple[str, ...] = ROLES,
) -> Actor:
    """The person as an actor of the log; StateError, logged as refused, unless one of ours in one of the roles."""
    try:
        known = find_person(state.folder, person)
        if known.role not in roles:
            raise ConfigError(f"{known.name} is {known.role}", remedy=f"this is done by {' or '.join(roles)}")
    except ConfigError as error:
        refusal = StateError(
            f"the audit log of {state.name} is for its own people: {error}",
            remedy="give --as a person of `fedaccord person list`",
        )
        stranger = Actor(
            who=one_line(person, 80) or "nobody", role="unknown", organisation="unknown", origin=origin
        )
        Journal(state, now).refused(event, stranger, f"{TARGET}: {what}", refusal)
        raise refusal from error
    return Actor(who=known.name, role=known.role, organisation=known.organisation, origin=origin)
