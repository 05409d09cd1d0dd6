"""The steward: does in syft what the supervisor decided, and brings what analysts submit to the supervisor.

It runs as a thread of the syft server process and logs in to that server as its owner (measured against a process of
its own: 4 s and 400 MB saved). It decides nothing: a request that is exactly the shim is handed to the supervisor,
foreign code is only reported, and a request is approved when the supervisor says so and the comparison with the
template holds before and after. All tasks can be repeated, since either side may die in the middle of one.
"""

import math
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from parties.control.refused import refusal_words
from parties.shim import function_name
from parties.syft_side.foreign_code import LONGEST, code_warnings
from parties.syft_side.publication import Publication
from protocols.errors import DatasiteError, FedaccordError, PolicyError

PAUSE = 0.25
"""Seconds of a round: the longest that a new request waits."""
LOOK_SECONDS = 30.0
"""Seconds between two looks at syft's requests without news of one; a look costs the server 15 ms and more with each
request that it keeps."""
SETTLING_SECONDS = 3.0
"""For so long after news each round looks: the server tells of a request a moment before others can read it."""
INTERNAL = "internal"
"""The supervisor's refusal that says nothing about the request: it stays pending until the next start."""
CHANGED = "the submitted code changed while it was being approved"

Supervisor = Callable[[Mapping[str, object]], Mapping[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeRequest:
    """One entry of syft's list of requests; `caller` is its author's verify key in hex, `pending` is undecided."""

    uid: str
    caller: str
    email: str
    pending: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """A request compared with the shim: the function's name, the signed request's text, and every difference found.

    `problems` is empty exactly when the request is the shim for the request in `signed`; then `digest` is its digest.
    `code` is the submitted text as the server holds it, "" when it can't be shown.
    """

    name: str
    signed: str
    digest: str
    problems: tuple[str, ...]
    code: str = ""


class Desk(Protocol):
    """The owner's side of one syft server, as far as the steward needs it. Every method raises DatasiteError."""

    def requests(self) -> tuple[CodeRequest, ...]:
        """All requests, newest first."""

    def examine(self, uid: str) -> Examination:
        """The request as the server holds it now, compared with the shim field by field."""

    def approve(self, uid: str) -> None:
        """Approves; the caller examines before and after."""

    def deny(self, uid: str, reason: str) -> None:
        """Denies, also after an approval; the analyst can read the reason."""

    def publish(self, publication: Publication) -> None:
        """Makes the dataset, or replaces the one of the same name; nothing when it is there with this commitment."""

    def add_user(self, email: str, name: str, password: str) -> None:
        """Makes an analyst's account; nothing when this account exists already."""

    def reset_user(self, email: str, password: str) -> None:
        """Gives the account another password."""

    def remove_user(self, email: str) -> None:
        """Deletes the account; nothing when there is none (any more)."""


class Steward:
    """The loop over one desk and one supervisor.

    `publication` gives what is to be published for the `block` of a publish task. The address of a request in syft is
    found by digest and author, since two analysts may submit the same request and only one is bound to it. `news` is
    set whenever the server has got a request.
    """

    def __init__(
        self,
        desk: Desk,
        supervisor: Supervisor,
        publication: Callable[[str], Publication],
        *,
        news: threading.Event,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._desk = desk
        self._supervisor = supervisor
        self._publication = publication
        self._news = news
        self._clock = clock
        self._looked = -math.inf
        self._settled = -math.inf
        self._seen: set[str] = set()
        self._names: dict[str, str] = {}
        """Function names of examined requests by uid: where to look, since examining one costs the server 0.1 s."""

    def run(self, stopping: threading.Event) -> None:
        """Works until told to stop; an error of one round is logged and the next round tried."""
        while not stopping.is_set():
            try:
                self.look_if_due()
                self.work(PAUSE)
            except Exception as error:
                # The supervisor may be restarting, syft may hiccup: neither may end the steward.
                traceback.print_exception(error, limit=-3)
                stopping.wait(PAUSE)

    def look_if_due(self) -> bool:
        """Looks if there may be a new request; whether it did. After a look that fails the next one is due."""
        now = self._clock()
        if self._news.is_set():
            self._news.clear()
            self._settled = now + SETTLING_SECONDS
        if now >= self._settled and now < self._looked + LOOK_SECONDS:
            return False
        self._looked = -math.inf
        self.look()
        self._looked = now
        return True

    def look(self) -> None:
        """Brings each pending request that wasn't settled yet to the supervisor."""
        for request in self._desk.requests():
            if not request.pending or request.uid in self._seen:
                continue
            self._report(request, self._examined(request))
            self._seen.add(request.uid)

    def _report(self, request: CodeRequest, found: Examination) -> None:
        """Tells the supervisor; a shim that it refuses is denied with the typed reason, which the analyst can read."""
        if found.problems:
            foreign = {
                "name": found.name,
                "email": request.email,
                "reasons": list(found.problems),
                "warnings": [warning.text() for warning in code_warnings(found.code)],
                "code": found.code[:LONGEST],
            }
            answer = self._supervisor({"action": "ingest_foreign", "caller": request.caller, **foreign})
        else:
            shim = {"signed": found.signed, "caller": request.caller, "email": request.email}
            answer = self._supervisor({"action": "ingest", **shim})
        if answer.get("ok") is True:
            return
        code = str(answer.get("error", INTERNAL))
        print(f"steward: the supervisor refused {found.name[:20]}: {code}", file=sys.stderr)
        if not found.problems and code != INTERNAL:
            self._desk.deny(request.uid, denial_reason(answer))

    def work(self, timeout: float) -> bool:
        """Does the supervisor's next task, waiting up to `timeout` seconds for one; True when there was one."""
        answer = self._supervisor({"action": "next_task", "timeout": timeout})
        if answer.get("ok") is not True:
            raise DatasiteError(f"the supervisor gave no task: {answer.get('error')}")
        task = answer.get("task")
        if not isinstance(task, Mapping):
            return False
        problems = self._attempt(task)
        done = {
            "action": "task_done",
            "id": task.get("id"),
            "ok": not problems,
            "problems": "; ".join(problems),
        }
        self._supervisor(done)
        return True

    def _attempt(self, task: Mapping[str, object]) -> tuple[str, ...]:
        try:
            return self._do(task)
        except FedaccordError as error:
            return (str(error),)
        except Exception as error:
            traceback.print_exception(error, limit=-3)
            return (f"{type(error).__name__}, see the syft server's log",)

    def _do(self, task: Mapping[str, object]) -> tuple[str, ...]:
        match task.get("kind"):
            case "publish":
                self._desk.publish(self._publication(_field(task, "block")))
            case "add_user":
                self._desk.add_user(_field(task, "email"), _field(task, "name"), _field(task, "password"))
            case "reset_user":
                self._desk.reset_user(_field(task, "email"), _field(task, "password"))
            case "remove_user":
                self._desk.remove_user(_field(task, "email"))
            case "approve":
                return self._approve(_field(task, "digest"), _field(task, "caller", ""))
            case "deny":
                reason = _field(task, "reason", "denied")
                return self._deny(_field(task, "digest"), _field(task, "caller", ""), reason)
            case other:
                return (f"unknown task {str(other)[:40]!r}",)
        return ()

    def _approve(self, digest: str, caller: str) -> tuple[str, ...]:
        """Examines, approves, examines again; a request that changed in between is denied at once."""
        request, before = self._find(digest, caller)
        if before.problems:
            return before.problems
        self._desk.approve(request.uid)
        after = self._desk.examine(request.uid)
        if after != before:
            self._desk.deny(request.uid, CHANGED)
            return (CHANGED, *after.problems)
        return ()

    def _deny(self, digest: str, caller: str, reason: str) -> tuple[str, ...]:
        request, _ = self._find(digest, caller)
        self._desk.deny(request.uid, reason)
        return ()

    def _find(self, digest: str, caller: str) -> tuple[CodeRequest, Examination]:
        """The one request whose function is named after the digest; `caller` "" leaves the author open."""
        found, wanted = [], function_name(digest)
        for request in self._desk.requests():
            if caller in ("", request.caller) and self._names.get(request.uid, wanted) == wanted:
                examination = self._examined(request)
                if examination.name == wanted:
                    found.append((request, examination))
        exact = [each for each in found if not each[1].problems]
        if len(exact or found) != 1:
            raise DatasiteError(f"{len(exact or found)} requests in syft for {digest[:12]}, expected one")
        return (exact or found)[0]

    def _examined(self, request: CodeRequest) -> Examination:
        """The request as the server holds it now; its name is remembered when it could be read."""
        examination = self._desk.examine(request.uid)
        if examination.name:
            self._names[request.uid] = examination.name
        return examination


def denial_reason(answer: Mapping[str, object]) -> str:
    """What the analyst reads of a supervisor's refusal: its code, and of the policy's which rule it was and what to do.

    Rules hold no data.
    """
    code = str(answer.get("error", INTERNAL))
    if code != PolicyError.code:
        return code
    return refusal_words(code, str(answer.get("message", "")), str(answer.get("remedy", "")))


def _field(task: Mapping[str, object], name: str, default: str | None = None) -> str:
    value = task.get(name, default)
    if not isinstance(value, str):
        raise DatasiteError(f"the task {task.get('kind')} has no {name}")
    return value
