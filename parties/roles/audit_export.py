"""A stretch of the audit log for somebody outside: JSON Lines, a page to read, and the signed head of the whole log.

The lines are the log's own, byte for byte, so their hashes can be checked without us. The page is one file without
scripts or anything from elsewhere. A log that fails its check is exported up to the fault, and the page says so first.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path

from parties.home.private_files import make_private_folder, write_private
from parties.home.state import State
from parties.roles.auditing import check_log, verdict
from parties.roles.log_access import Clock, read_log, utc_now
from protocols.audit import AuditEvent, Entry, SignedHead, read, sign_head, to_text
from protocols.errors import AuditError, StateError
from protocols.records import encode_record, parse_utc, utc_text

TEMPLATES = Path(__file__).parent / "templates"
ENTRIES_FILE, PAGE_FILE, HEAD_FILE = "entries.jsonl", "log.html", "head.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """What is exported: the entries from `since` to `until` (days in UTC, both included) and how the check ended.

    `problem` is "" for a log that passed; then `head` is its signed head.
    """

    party: str
    organisation: str
    since: date
    until: date
    made: str
    entries: tuple[Entry, ...]
    verified: str
    problem: str
    head: SignedHead | None

    def document(self) -> dict[str, object]:
        """The facts of the export without its entries."""
        return {
            "party": self.party,
            "from": self.since.isoformat(),
            "to": self.until.isoformat(),
            "made": self.made,
            "entries": len(self.entries),
            "verification": "failed" if self.problem else "ok",
            "problem": self.problem,
            "head": "" if self.head is None else self.head.head.hash,
        }


def parse_day(text: str) -> date:
    """The day of "2026-01-31"; StateError otherwise."""
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise StateError(f"{text[:40]!r} is no day", remedy="write it as in 2026-01-31, in UTC") from error


def export_log(
    state: State,
    since: date,
    until: date,
    out: Path,
    *,
    person: str,
    heads: tuple[Path, ...] = (),
    now: Clock = utc_now,
) -> tuple[dict[str, object], str]:
    """Writes the export into the new folder `out` once the log says so; the facts as a document and as text.

    Raises StateError for a folder that isn't new, days in the wrong order, and somebody who may not read the log.
    """
    if out.exists() or out.is_symlink():
        raise StateError(f"{out} exists already", remedy="name a new folder; nothing is overwritten")
    export = read_log(
        state,
        person,
        f"{since} to {until}",
        lambda: make_export(state, since, until, heads, person, now()),
        event=AuditEvent.LOG_EXPORTED,
        now=now,
    )
    return export.document(), write_export(export, out)


def make_export(
    state: State, since: date, until: date, heads: tuple[Path, ...], person: str, now: datetime
) -> Export:
    """The entries of these days with the verification of the whole log, also against heads that others hold."""
    if since > until:
        raise StateError(f"the export would begin on {since} and end on {until}", remedy="swap the two days")
    head, verified, problem = None, "", ""
    try:
        checked = check_log(state, heads)
        verified, head = verdict(checked), sign_head(checked.head, now, state.signing_key())
    except AuditError as error:
        problem = str(error)
    return Export(
        party=state.name,
        organisation=state.organisation,
        since=since,
        until=until,
        made=f"{utc_text(now)} by {person}",
        entries=_between(state, since, until),
        verified=verified,
        problem=problem,
        head=head,
    )


def write_export(export: Export, folder: Path) -> str:
    """Writes the files into a new folder (0700); StateError when there is something already."""
    make_private_folder(folder)
    write_private(folder / ENTRIES_FILE, lines(export))
    write_private(folder / PAGE_FILE, page(export))
    names = [ENTRIES_FILE, PAGE_FILE]
    if export.head is not None:
        write_private(folder / HEAD_FILE, to_text(export.head) + "\n")
        names.append(HEAD_FILE)
    result = f"VERIFICATION FAILED: {export.problem}" if export.problem else export.verified
    return f"{len(export.entries)} entries in {folder} ({', '.join(names)}, mode 0600)\n{result}"


def lines(export: Export) -> bytes:
    """The entries as JSON Lines, each as the log has it."""
    return b"".join(encode_record(entry) + b"\n" for entry in export.entries)


def page(export: Export) -> str:
    """The export as one HTML page; every value is escaped by the template engine."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("audit.html").render(export=export)


def _between(state: State, since: date, until: date) -> tuple[Entry, ...]:
    """The entries of these days, up to the first that is altered."""
    first = datetime.combine(since, time.min, UTC)
    end = datetime.combine(until, time.min, UTC) + timedelta(days=1)
    return tuple(
        entry
        for entry in _readable(state.audit_path)
        if first <= parse_utc(entry.time, "time", AuditError) < end
    )


def _readable(path: Path) -> Iterator[Entry]:
    """The entries up to the first that is altered: the export says which that is, from its own verification."""
    try:
        yield from read(path)
    except AuditError:
        return
