"""The actions of the supervisor's socket: what each asks for, and which part of the supervisor answers.

From the shim: `call`. From the owner's command line and console: `requests`, `request`, `foreign`, `decide`, `start`,
`status`, `cancel`, `head`, `add_user`, `reset_user`, `remove_user`, `publish`, `task_state`, `shutdown`. From the
steward and the syft process: `login`, `refused_in_syft`, `ingest`, `ingest_foreign`, `next_task`, `task_done`. From a
worker: `sign_head`, `run_committed`. Answers are plain dicts; refusals are raised and become typed answers.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from parties.control import fields
from parties.control.decisions import Decisions
from parties.control.fields import Fields
from parties.control.logins import Logins
from parties.control.reception import Reception
from parties.control.runner import Runner
from parties.control.runs import Ledger, RequestRow, RunState
from parties.control.socket import refusal
from parties.control.tasks import Task, TaskQueue
from parties.control.validate import CurrentBlock
from parties.control.watch import Watch
from parties.home.accounts import Accounts
from parties.home.documents import check_digest
from parties.home.journal import SOCKET, Actor, Journal
from parties.home.people import read_people
from parties.home.state import State
from protocols.audit import AuditEvent, sign_head, to_text
from protocols.errors import AlignmentsUsedError, FedaccordError, RequestError

TASK_SECONDS = 25.0  # longest that the steward's next_task waits
FAILED_TASKS = {
    "publish": AuditEvent.BLOCK_REGISTERED,
    "add_user": AuditEvent.USER_ADDED,
    "reset_user": AuditEvent.USER_CHANGED,
    "remove_user": AuditEvent.USER_REMOVED,
    "approve": AuditEvent.COUNTERSIGNED,
    "deny": AuditEvent.DENIED,
}
"""As what a task that failed in syft is logged."""
Answer = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Actions:
    """The parts that answer; every method may be called from several threads."""

    state: State
    ledger: Ledger
    tasks: TaskQueue
    journal: Journal
    runner: Runner
    watch: Watch
    reception: Reception
    decisions: Decisions
    accounts: Accounts
    logins: Logins
    key: Ed25519PrivateKey
    current_block: CurrentBlock
    ended: threading.Event
    now: Callable[[], datetime]

    def handle(self, request: Fields) -> Answer:
        """The answer to one request of the socket. Raises RequestError for an unknown action."""
        action = fields.text(request, "action")
        handler = ACTIONS.get(action)
        if handler is None:
            raise RequestError(
                f"unknown action {action[:40]!r}", remedy=f"one of {', '.join(sorted(ACTIONS))}"
            )
        return handler(self, request)

    def call(self, request: Fields) -> Answer:
        """start, status, cancel or result, for the analyst to whose syft key the request is bound."""
        digest = check_digest(fields.text(request, "request"))
        what, argument = fields.text(request, "call"), fields.text(request, "argument", "")
        caller = fields.text(request, "caller")
        row = self._bound(digest, caller, what)
        actor = Actor(who=row.analyst, role="analyst", organisation=self._organisation(row), origin="syft")
        try:
            return self._called(digest, what, argument, actor)
        except FedaccordError as error:
            row = self.ledger.find(digest)
            used, allowed = row.used, row.allowed
            if isinstance(error, AlignmentsUsedError):  # then this is the number that matters
                used, allowed = error.used, error.allowed
            return refusal(error) | {"state": row.state.value, "used": used, "allowed": allowed}

    def _bound(self, digest: str, caller: str, what: str) -> RequestRow:
        """The request, when it is bound to this caller; to others it doesn't exist, and the log says who tried."""
        try:
            row = self.ledger.find(digest)
            if row.caller != caller:
                raise RequestError(f"request {digest[:12]} belongs to another caller")
            if row.analyst not in self.accounts.all():
                raise RequestError(f"the account of {row.analyst} was removed")
            return row
        except RequestError as error:
            who = f"syft key {caller[:16] if caller.isalnum() else 'malformed'}"
            stranger = Actor(who=who, role="analyst", organisation="unknown", origin="syft")
            event = AuditEvent.START_REFUSED if what == "start" else AuditEvent.VIEWED
            self.journal.refused(event, stranger, f"request {digest}", error)
            raise RequestError(f"request {digest[:12]} is not known here") from error

    def _called(self, digest: str, what: str, argument: str, actor: Actor) -> Answer:
        if what == "start":
            return self.runner.start(digest, argument, actor)
        if what == "status":
            return self._with_papers(self.watch.for_analyst(self.watch.status(digest, argument)), digest)
        if what == "cancel":
            self.runner.cancel(digest, actor)
            return self.watch.for_analyst(self.watch.view(digest))
        if what == "result":
            return self.watch.result(digest, actor)
        raise RequestError("call is start, status, cancel or result")

    def _organisation(self, row: RequestRow) -> str:
        return self.state.address_book().find(row.analyst, "analyst").organisation

    def _with_papers(self, view: Answer, digest: str) -> Answer:
        """The view with what is missing while PENDING, and with our approval once there is one that may start a run."""
        if view["state"] == RunState.PENDING:
            return view | {"missing": list(self.reception.overview.missing(digest))}
        if view["state"] in (RunState.RUNNING, RunState.REVOKED):
            return view
        return view | {"approval": self.decisions.approval_text(digest)}

    def _owner(self, request: Fields) -> Actor:
        """Whoever works at the owner's desk; the socket answers our own user only, so name and origin are as given."""
        name = fields.text(request, "person", "owner")
        known = next((person for person in read_people(self.state.folder) if person.name == name), None)
        return Actor(
            who=name,
            role="owner" if known is None else known.role,
            organisation=self.state.organisation if known is None else known.organisation,
            origin=fields.text(request, "origin", SOCKET),
        )

    def requests(self, request: Fields) -> Answer:
        """All requests, for the owner."""
        return self.reception.overview.listing()

    def request(self, request: Fields) -> Answer:
        """One request with its papers, for the owner."""
        return self.reception.overview.view(_digest(request), self._owner(request))

    def decide(self, request: Fields) -> Answer:
        """Takes one person's signed decision."""
        text, origin = fields.text(request, "decision"), fields.text(request, "origin", SOCKET)
        row, already = self.decisions.take(text, origin)
        lacking = self.reception.overview.missing(row.digest) if row.state is RunState.PENDING else ()
        return {
            "digest": row.digest,
            "state": row.state.value,
            "reason": row.reason,
            "missing": list(lacking),
            "already": already,
        }

    def start_run(self, request: Fields) -> Answer:
        """Starts a run for the owner, under the same checks."""
        return self.runner.start(
            _digest(request), fields.text(request, "approvals", ""), self._owner(request)
        )

    def status(self, request: Fields) -> Answer:
        """The owner's view of one request; waits like the analyst's when `seen` is given."""
        digest, seen = _digest(request), fields.text(request, "seen", "")
        view = self.watch.status(digest, seen) if seen else self.watch.view(digest)
        return self._with_papers(view, digest)

    def cancel(self, request: Fields) -> Answer:
        """Ends a run for the owner."""
        self.runner.cancel(_digest(request), self._owner(request))
        return self.watch.view(_digest(request))

    def head(self, request: Fields) -> Answer:
        """The newest head of our log, signed: for the worker to hand over, for the owner to keep."""
        return {"head": to_text(sign_head(self.journal.log.head(), self.now(), self.key))}

    def run_committed(self, request: Fields) -> Answer:
        """From the worker, before its first message: the run counts from now on."""
        self.runner.commit(_digest(request), fields.whole(request, "run"))
        return {}

    def shutdown(self, request: Fields) -> Answer:
        """Asks the supervisor to end."""
        self.ended.set()
        return {}

    def add_user(self, request: Fields) -> Answer:
        """Opens an analyst's account."""
        return {"password": self.accounts.add(fields.text(request, "name"), fields.text(request, "email"))}

    def login(self, request: Fields) -> Answer:
        """From the syft process: somebody logged in, or failed to."""
        self.logins.note(fields.text(request, "email", ""), fields.flag(request, "success"))
        return {}

    def reset_user(self, request: Fields) -> Answer:
        """Gives an analyst's account a new password."""
        password, email = self.accounts.reset(fields.text(request, "name"))
        return {"password": password, "email": email}

    def remove_user(self, request: Fields) -> Answer:
        """Closes an analyst's account."""
        return {"email": self.accounts.remove(fields.text(request, "name"))}

    def publish(self, request: Fields) -> Answer:
        """Queues a block for publication."""
        self.current_block(fields.text(request, "block"))
        return {"task": self.tasks.put("publish", {"block": fields.text(request, "block")})}

    def task_state(self, request: Fields) -> Answer:
        """How the newest task of a kind about a block, an e-mail or a digest stands."""
        state, problems = self.tasks.standing(fields.text(request, "kind"), fields.text(request, "about"))
        return {"state": state, "problems": problems}

    def ingest(self, request: Fields) -> Answer:
        """From the steward: a shim with its signed request."""
        signed, caller = fields.text(request, "signed"), check_digest(fields.text(request, "caller"))
        row = self.reception.ingest(signed, caller, fields.text(request, "email"))
        return {"digest": row.digest, "state": row.state.value}

    def ingest_foreign(self, request: Fields) -> Answer:
        """From the steward: code that isn't the shim."""
        self.reception.foreign.add(
            fields.text(request, "name"),
            fields.text(request, "caller"),
            fields.text(request, "email"),
            fields.texts(request, "reasons"),
            fields.texts(request, "warnings"),
            fields.text(request, "code", ""),
        )
        return {}

    def foreign(self, request: Fields) -> Answer:
        """One submission of foreign code with its text, for the owner."""
        return self.reception.foreign.view(fields.whole(request, "number"), self._owner(request))

    def refused_in_syft(self, request: Fields) -> Answer:
        """From the syft server: a start that syft refused before the shim ran."""
        self.reception.refused_in_syft(fields.text(request, "name"), fields.text(request, "caller"))
        return {}

    def next_task(self, request: Fields) -> Answer:
        """The steward's next task, its details flat beside id and kind; null when there is none for a while."""
        task = self.tasks.next(fields.seconds(request, "timeout", TASK_SECONDS), self.ended)
        return {"task": None if task is None else {**task.details, "id": task.id, "kind": task.kind}}

    def task_done(self, request: Fields) -> Answer:
        """How a task ended."""
        task = self.tasks.done(
            fields.whole(request, "id"),
            fields.flag(request, "ok"),
            fields.text(request, "problems", "")[:2000],
        )
        if not fields.flag(request, "ok"):
            self._log_failure(task, fields.text(request, "problems", "") or "none given")
        return {}

    def _log_failure(self, task: Task, problems: str) -> None:
        steward = Actor(who="steward", role="program", organisation=self.state.organisation, origin="syft")
        target = next(
            (task.details[name] for name in ("digest", "block", "name") if name in task.details), "task"
        )
        self.journal.failed(FAILED_TASKS[task.kind], steward, f"{task.kind} {target}", problems=problems)


ACTIONS: dict[str, Callable[[Actions, Fields], Answer]] = {
    "call": Actions.call,
    "requests": Actions.requests,
    "request": Actions.request,
    "decide": Actions.decide,
    "start": Actions.start_run,
    "status": Actions.status,
    "cancel": Actions.cancel,
    "head": Actions.head,
    "sign_head": Actions.head,
    "run_committed": Actions.run_committed,
    "shutdown": Actions.shutdown,
    "add_user": Actions.add_user,
    "reset_user": Actions.reset_user,
    "remove_user": Actions.remove_user,
    "publish": Actions.publish,
    "task_state": Actions.task_state,
    "login": Actions.login,
    "ingest": Actions.ingest,
    "ingest_foreign": Actions.ingest_foreign,
    "foreign": Actions.foreign,
    "refused_in_syft": Actions.refused_in_syft,
    "next_task": Actions.next_task,
    "task_done": Actions.task_done,
}


def _digest(request: Fields) -> str:
    return check_digest(fields.text(request, "digest"))
