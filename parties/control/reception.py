"""What comes in at a party through syft before a run: requests, foreign code, and starts that syft refuses."""

import re
import threading
from collections.abc import Callable
from datetime import datetime

from parties.control.foreign import ForeignShelf
from parties.control.overview import Overview
from parties.control.refused import RefusedShelf
from parties.control.runs import Ledger, RequestRow
from parties.control.tasks import TaskQueue
from parties.control.validate import CurrentBlock, SeatsChecked, check_blocks
from parties.home.accounts import Accounts
from parties.home.documents import Documents
from parties.home.journal import Actor, Journal, one_line
from parties.home.policy_watch import WatchedPolicy
from parties.home.state import State
from parties.home.use_rules import forbidden
from protocols.approval import check_expiry
from protocols.audit import AuditEvent
from protocols.errors import FedaccordError, NotApprovedError, PolicyError
from protocols.request import ComputationRequest, parse_signed
from protocols.request import digest as request_digest


class Reception:
    """One party's desk; every method may be called from several threads."""

    def __init__(
        self,
        state: State,
        *,
        ledger: Ledger,
        tasks: TaskQueue,
        journal: Journal,
        policy: WatchedPolicy,
        current_block: CurrentBlock,
        accounts: Accounts,
        check_model: Callable[[ComputationRequest], None] = lambda request: None,
        check_seats: SeatsChecked = lambda request, organisations: None,
        now: Callable[[], datetime],
    ) -> None:
        self._state = state
        self._ledger = ledger
        self._tasks = tasks
        self._journal = journal
        self._current_block = current_block
        self._accounts = accounts
        self._check_model = check_model
        self._check_seats = check_seats
        self._now = now
        self._policy = policy
        self._documents = Documents(state.folder)
        self._ingesting = threading.Lock()  # of two that bring the same request only one logs it
        self.foreign = ForeignShelf(journal)
        self.refused = RefusedShelf(now)
        self.overview = Overview(
            state,
            ledger=ledger,
            tasks=tasks,
            journal=journal,
            policy=policy,
            foreign=self.foreign,
            refused=self.refused,
        )

    def ingest(self, signed_text: str, caller: str, email: str) -> RequestRow:
        """Takes in a signed request as PENDING, bound to the syft key that submitted it; again is fine.

        Refused and logged: a bad signature, a roster that differs from the address book, an unknown analyst or one
        with another account, an organisation in a role that it may not have, a use that our policy forbids
        (PolicyError), a block that isn't the newest, a digest that another caller has submitted. AuditError when a new
        one can't be logged: then it isn't taken in.
        """
        with self._ingesting:
            return self._ingest(signed_text, caller, email)

    def _ingest(self, signed_text: str, caller: str, email: str) -> RequestRow:
        who = one_line(email, 200) or "nobody"
        steward = Actor(who=who, role="analyst", organisation="unverified", origin="syft")
        target, digest, claimed = "a submitted request", "", ""
        try:
            signed = parse_signed(signed_text)
            digest, claimed = request_digest(signed.request), signed.request.analyst.name
            target = f"request {digest}"
            book = self._state.address_book()
            own = book.check_roster(signed.request)
            self._check_seats(signed.request, book.organisations())
            self._accounts.check(signed.request, email)
            check_expiry(signed.request, self._now())
            self._check_use(signed.request, own.role)
            check_blocks(signed.request, own.role, self._current_block)
            self._check_model(signed.request)
            known = self._ledger.is_bound(digest, caller)
        except FedaccordError as error:
            self.refused.add(digest, claimed, email, error)
            self._journal.refused(AuditEvent.SUBMITTED, steward, target, error)
            raise
        if not known:
            analyst, runs = signed.request.analyst, signed.request.runs
            actor = Actor(who=analyst.name, role="analyst", organisation=analyst.organisation, origin="syft")
            with self._journal.before(AuditEvent.SUBMITTED, actor, target, email=email):
                self._documents.save_request(signed)
                self._ledger.bind(digest, caller=caller, analyst=analyst.name, allowed=runs, now=self._now())
        return self._ledger.find(digest)

    def _check_use(self, request: ComputationRequest, own_role: str) -> None:
        """What no person of ours may approve needn't wait for one: the purpose, who asks, columns, settings."""
        found = forbidden(self._policy.read().uses, request, own_role)
        if found:
            raise PolicyError("; ".join(found), remedy="ask with a request that keeps to that")

    def refused_in_syft(self, name: str, caller: str) -> None:
        """Logs a start that syft refused by itself: of code that is pending, denied, or another analyst's."""
        named = re.fullmatch("run_([0-9a-f]{64})", name)
        target = f"request {named[1]}" if named else f"code {one_line(name, 80) or 'without a name'}"
        who = f"syft key {caller[:16] if caller.isalnum() else 'malformed'}"
        actor = Actor(who=who, role="analyst", organisation="unverified", origin="syft")
        error = NotApprovedError(
            "syft refused the call: the code isn't approved here, or is another analyst's"
        )
        self._journal.refused(AuditEvent.START_REFUSED, actor, target, error)
