"""The pages on the audit log: its entries, a trace through it, its check against a peer's head, files for an authority.

Each of them is a reading of the log, and so an entry of it before anything is shown.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, TypeVar

from fastapi import Form, Request
from fastapi.responses import Response

from parties.console.entrance import ORIGIN, Entrance
from parties.console.sessions import Session
from parties.console.views import rows_of
from parties.home.state import State
from parties.roles.audit_export import Export, lines, make_export, page, parse_day
from parties.roles.auditing import entries, newest_heads, verify_against, verify_log
from parties.roles.log_access import read_log
from protocols.audit import AuditEvent, to_text
from protocols.errors import AuditError, RequestError

T = TypeVar("T")
LENGTHS = (20, 100, 500)
"""Numbers of entries of the audit log that can be asked for."""


class File(StrEnum):
    """What of an export is asked for."""

    ENTRIES = "entries"
    PAGE = "page"
    HEAD = "head"


NAMES = {File.ENTRIES: "entries.jsonl", File.PAGE: "log.html", File.HEAD: "head.json"}
TYPES = {File.ENTRIES: "application/jsonl", File.PAGE: "text/html", File.HEAD: "application/json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogViews:
    """The pages on the log for people who are logged in; the answer to everybody else is the login page."""

    entrance: Entrance

    def log(self, request: Request, last: int = LENGTHS[0]) -> Response:
        """The newest entries of the audit log and its verification."""
        if last not in LENGTHS:
            raise RequestError(f"the log is shown by {', '.join(map(str, LENGTHS))} entries")
        session = self.entrance.session(request)
        (_, verdict), (document, _) = self._read(
            session,
            f"verification and the last {last} entries",
            lambda: (verify_log(self._state, ()), entries(self._state, last)),
        )
        shown = rows_of(document["entries"])[::-1]
        return self._page(session, "log.html", verdict=verdict, entries=shown, last=last, lengths=LENGTHS)

    def trace(self, request: Request, what: str = "") -> Response:
        """What leads to a model or request, or what came of a block."""
        from parties.roles.tracing import trace

        session = self.entrance.session(request)
        text = ""
        if what:
            _, text = self._read(session, f"trace of {what[:80]}", lambda: trace(self._state, what))
        return self._page(session, "trace.html", what=what, text=text)

    def heads(self, request: Request) -> Response:
        """The newest heads of other parties' logs that we hold, and the form for one of ours that they hold."""
        session = self.entrance.session(request)
        return self._heads(session)

    def compare(
        self, request: Request, head: Annotated[str, Form()] = "", csrf: Annotated[str, Form()] = ""
    ) -> Response:
        """Checks the whole log against a head of it that another party holds; a log that doesn't fit says so."""
        session = self.entrance.own_form(request, csrf)
        try:
            _, verdict = self._read(
                session, "verification against a peer's head", lambda: verify_against(self._state, head)
            )
        except AuditError as error:
            # nothing more is read: that would write to a log that is to be looked into
            problem = f"{error}{f' ({error.remedy})' if error.remedy else ''}"
            return self._page(session, "heads.html", verdict="", problem=problem, heads=None)
        return self._heads(session, verdict)

    def export_form(self, request: Request) -> Response:
        """The form for a stretch of the log as files."""
        session = self.entrance.session(request)
        today = self.entrance.now().date()
        return self._page(session, "export.html", first=today.replace(day=1), today=today)

    def export(
        self,
        request: Request,
        since: Annotated[str, Form()] = "",
        until: Annotated[str, Form()] = "",
        file: Annotated[File, Form()] = File.ENTRIES,
        csrf: Annotated[str, Form()] = "",
    ) -> Response:
        """One file of what `fedaccord audit export` writes; AuditError for the head of a log with a fault."""
        session = self.entrance.own_form(request, csrf)
        first, last = parse_day(since), parse_day(until)
        person, now = session.signer.person.name, self.entrance.now()
        export = self._read(
            session,
            f"{first} to {last}: {NAMES[file]}",
            lambda: make_export(self._state, first, last, (), person, now),
            AuditEvent.LOG_EXPORTED,
        )
        name = f"{self._state.name}-{first}-to-{last}-{NAMES[file]}"
        return Response(
            _content(export, file),
            media_type=TYPES[file],
            headers={"content-disposition": f'attachment; filename="{name}"'},
        )

    @property
    def _state(self) -> State:
        return self.entrance.state

    def _read(
        self, session: Session, what: str, read: Callable[[], T], event: AuditEvent = AuditEvent.LOG_READ
    ) -> T:
        person, now = session.signer.person.name, self.entrance.now
        return read_log(self._state, person, what, read, event=event, origin=ORIGIN, now=now)

    def _heads(self, session: Session, verdict: str = "") -> Response:
        held = self._read(session, "heads of other parties", lambda: newest_heads(self._state))
        heads = [(signed, to_text(signed)) for signed in held]
        return self._page(session, "heads.html", verdict=verdict, problem="", heads=heads)

    def _page(self, session: Session, template: str, **values: object) -> Response:
        return self.entrance.pages.html(template, session, self.entrance.now(), {"here": "/log", **values})


def _content(export: Export, file: File) -> bytes:
    if file is File.ENTRIES:
        return lines(export)
    if file is File.PAGE:
        return page(export).encode()
    if export.head is None:
        raise AuditError(f"a log with a fault gets no signed head: {export.problem}")
    return f"{to_text(export.head)}\n".encode()
