"""Who may read a party's audit log, and the entry that every reading leaves in it.

The log names people and their decisions, so it is for the party's own people only: owners, reviewers and auditors see
all of it. An analyst has no way to it: what the shim answers is about the caller's own request. What was read is shown
only once its entry is on the disk. A log whose check fails isn't written to by that: the next check must find the same.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from parties.home.journal import Actor, Journal, one_line
from parties.home.people import ROLES, find_person
from parties.home.state import State
from protocols.audit import AuditEvent
from protocols.errors import ConfigError, StateError

T = TypeVar("T")
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
