"""Deleting entries of the audit log after the time for which a party keeps them."""

from datetime import UTC, date, datetime, time

from parties.home.journal import Journal
from parties.home.state import State
from parties.roles.auditing import newest_heads
from parties.roles.log_access import TARGET, Clock, reader, utc_now
from protocols.audit import AuditEvent, AuditLog, head_detail, months_before
from protocols.errors import AuditError, StateError
from protocols.records import parse_utc, utc_text


def prune_log(
    state: State, before: date | None, person: str, now: Clock = utc_now
) -> tuple[dict[str, object], str]:
    """Deletes the entries of before that day (None: all that need no longer be kept), with a stub in their place.

    An owner does this. Raises StateError, logged as refused, for a day within the months that the party keeps, and for
    others than owners; StateError when nothing is that old; AuditError when the log is altered or can't be written.
    The newest head that this party holds of each other party's log is written again first: it must outlive its entry.
    """
    moment = now()
    actor = reader(state, person, "deletion", event=AuditEvent.LOG_PRUNED, now=now, roles=("owner",))
    limit = months_before(moment, state.keep_months)
    cutoff = limit if before is None else datetime.combine(before, time.min, UTC)
    journal = Journal(state, now)
    if cutoff > limit:
        refusal = StateError(
            f"entries are kept for {state.keep_months} months: nothing after {utc_text(limit)} can be deleted",
            remedy=f"name an earlier day, or change keep_months in {state.folder / 'party.toml'} (6 at least)",
        )
        journal.refused(AuditEvent.LOG_PRUNED, actor, TARGET, refusal)
        raise refusal
    if not _any_before(state, cutoff):
        raise StateError(
            f"the audit log of {state.name} has no entry from before {utc_text(cutoff)}",
            remedy="nothing was deleted",
        )
    for head in newest_heads(state):
        journal.ok(AuditEvent.HEAD_RECEIVED, actor, TARGET, **head_detail(head, "kept"))
    log = AuditLog(state.audit_path, state.name)
    stub = log.prune(
        cutoff,
        who=actor.who,
        role=actor.role,
        organisation=actor.organisation,
        origin=actor.origin,
        now=moment,
    )
    if stub is None:
        raise StateError("another deletion came first", remedy="look at the log")
    return {"party": state.name, **stub.detail()}, (
        f"entries 1 to {stub.last} of {state.name}, up to {stub.newest}, are deleted; the log begins with their stub"
    )


def _any_before(state: State, cutoff: datetime) -> bool:
    """Whether the oldest entry is old enough; a log without entries has none."""
    oldest = next(iter(AuditLog(state.audit_path, state.name).entries()), None)
    return oldest is not None and parse_utc(oldest.time, "time", AuditError) < cutoff
