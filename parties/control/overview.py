"""What this party's own people may read of its requests: all of them in a list, one in full, what is missing."""

from parties.control.alignments import Alignments, planned_alignments
from parties.control.foreign import ForeignShelf
from parties.control.refused import RefusedShelf
from parties.control.runs import Ledger, RequestRow, RunState
from parties.control.tasks import TaskQueue
from parties.home.documents import Documents
from parties.home.journal import Actor, Journal, one_line
from parties.home.people import read_people
from parties.home.policy import missing
from parties.home.policy_watch import WatchedPolicy
from parties.home.state import State
from protocols.audit import AuditEvent
from protocols.errors import AuditError, ConfigError, RequestError, StateError
from protocols.request import ComputationRequest

NOT_IN_FORCE = "policy.toml can't be read, so nothing can be approved: `fedaccord policy check` says why"
NOT_LOGGED = "a change of policy.toml can't be logged, so nothing can be approved"


class Overview:
    """One party's requests as read from its papers and its ledger; every method may be called from several threads."""

    def __init__(
        self,
        state: State,
        *,
        ledger: Ledger,
        tasks: TaskQueue,
        journal: Journal,
        policy: WatchedPolicy,
        foreign: ForeignShelf,
        refused: RefusedShelf,
    ) -> None:
        self._state = state
        self._ledger = ledger
        self._alignments = Alignments(state.ledger_path)
        self._tasks = tasks
        self._journal = journal
        self._policy = policy
        self._foreign = foreign
        self._refused = refused
        self._documents = Documents(state.folder)

    def missing(self, digest: str) -> tuple[str, ...]:
        """What our own people still have to approve, one text each; empty when our policy is satisfied.

        Without a policy in force that is what is missing: requests must stay readable and revocable meanwhile.
        """
        request = self._documents.request(digest).request
        try:
            policy = self._policy.read()
        except ConfigError:
            return (NOT_IN_FORCE,)
        except AuditError:
            return (NOT_LOGGED,)
        return missing(
            policy,
            request,
            read_people(self._state.folder),
            self._documents.decisions(digest),
        )

    def listing(self) -> dict[str, object]:
        """All requests with what is missing, oldest change first; foreign code and refused requests since the start."""
        return {
            "requests": [self._line(row) for row in self._ledger.all()],
            "foreign": self._foreign.listing(),
            "refused": self._refused.listing(),
        }

    def _line(self, row: RequestRow) -> dict[str, object]:
        """The request's line; one whose papers are damaged says so, and the others go on."""
        line: dict[str, object] = {
            "digest": row.digest,
            "state": row.state.value,
            "reason": row.reason,
            "analyst": row.analyst,
            "used": row.used,
            "allowed": row.allowed,
            "changed": row.changed,
        }
        try:
            request = self._documents.request(row.digest).request
            lacking = list(self.missing(row.digest)) if row.state is RunState.PENDING else []
        except (StateError, RequestError) as error:
            damage = one_line(str(error), 1000)
            return line | {
                "purpose": "damaged",
                "computation": "damaged",
                "expires": "",
                "missing": [damage],
                "damaged": damage,
            }
        return line | {
            "purpose": request.purpose,
            "computation": request.computation,
            "expires": request.expires,
            "missing": lacking,
        }

    def view(self, digest: str, actor: Actor) -> dict[str, object]:
        """One request with its signed text, our decisions and problems in syft; reading is logged."""
        row, request = self._ledger.find(digest), self._documents.request(digest).request
        self._journal.ok(AuditEvent.VIEWED, actor, f"request {digest}")
        return self._line(row) | {
            "signed": self._documents.signed_text(digest),
            "decisions": [
                {
                    "person": d.person,
                    "role": d.role.value,
                    "decision": d.decision.value,
                    "time": d.time,
                    "reason": d.reason,
                }
                for d in self._documents.decisions(digest)
            ],
            "problems": list(self._tasks.problems(digest)),
            "clocks": self._clocks(request),
            "alignments": self._standing_alignments(digest, request),
        }

    def _standing_alignments(self, digest: str, request: ComputationRequest) -> list[str]:
        """How many alignments are used and left; none can be told without a policy in force."""
        try:
            planned = planned_alignments(request, self._state.name, self._policy.read())
        except (ConfigError, AuditError):
            return []
        return [each.line() for each in self._alignments.standing(digest, 0, planned)]

    def _clocks(self, request: ComputationRequest) -> list[str]:
        """What the newest handshake with each other party of the request said of its clock, if that went wrong."""
        found = {entry.name: "" for entry in request.parties if entry.name != self._state.name}
        for entry in self._journal.log.entries():
            peer = str(dict(entry.detail).get("peer", ""))
            if peer in found and entry.event is AuditEvent.HANDSHAKE:
                found[peer] = ""
            if peer in found and entry.event is AuditEvent.CLOCKS_DIFFER:
                found[peer] = f"{dict(entry.detail)['warning']} (measured {entry.time})"
        return [text for text in found.values() if text]
