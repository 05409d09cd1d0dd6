"""What comes in at a party before a run: requests through syft, and decisions of its own people."""

import re
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime, timedelta

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from parties.control.foreign import ForeignShelf
from parties.control.overview import Overview
from parties.control.runs import Ledger, RequestRow, RunState
from parties.control.tasks import TaskQueue
from parties.control.validate import CurrentBlock, SeatsChecked, check_blocks
from parties.home.accounts import Accounts
from parties.home.documents import Documents
from parties.home.journal import SOCKET, Actor, Journal, one_line
from parties.home.people import find_person, read_people
from parties.home.policy import counting, standing, violations
from parties.home.policy_watch import WatchedPolicy
from parties.home.state import State
from parties.home.use_rules import forbidden
from protocols.approval import (
    Decision,
    PartyApproval,
    PersonDecision,
    check_expiry,
    countersign,
    parse_decision,
)
from protocols.approval import to_text as approvals_text
from protocols.audit import AuditEvent
from protocols.errors import (
    ApprovalError,
    FedaccordError,
    NotApprovedError,
    PolicyError,
    RevokedRun,
)
from protocols.records import parse_utc
from protocols.request import ComputationRequest, parse_signed, party_named
from protocols.request import digest as request_digest

Stop = Callable[[str, str], None]
"""Ends all that runs of a request (digest, reason); called after the ledger says REVOKED."""
EVENTS = {
    Decision.APPROVE: AuditEvent.APPROVED,
    Decision.DENY: AuditEvent.DENIED,
    Decision.REVOKE: AuditEvent.REVOKED,
}
AHEAD = timedelta(seconds=5)
"""How far ahead of our clock a decision at our own desk may be dated: both clocks are usually the same one."""


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
        key: Ed25519PrivateKey,
        current_block: CurrentBlock,
        accounts: Accounts,
        check_model: Callable[[ComputationRequest], None] = lambda request: None,
        check_seats: SeatsChecked = lambda request, organisations: None,
        stop: Stop,
        now: Callable[[], datetime],
    ) -> None:
        self._state = state
        self._ledger = ledger
        self._tasks = tasks
        self._journal = journal
        self._key = key
        self._current_block = current_block
        self._accounts = accounts
        self._check_model = check_model
        self._check_seats = check_seats
        self._stop = stop
        self._now = now
        self._policy = policy
        self._documents = Documents(state.folder)
        self._deciding = threading.Lock()
        self._ingesting = threading.Lock()  # of two that bring the same request only one logs it
        self.foreign = ForeignShelf(journal)
        self.overview = Overview(
            state, ledger=ledger, tasks=tasks, journal=journal, policy=policy, foreign=self.foreign
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
        target = "a submitted request"
        try:
            signed = parse_signed(signed_text)
            digest = request_digest(signed.request)
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
            raise PolicyError(
                f"{self._state.name}: {'; '.join(found)}",
                remedy="ask with a request that keeps to the policy",
            )

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

    def decide(self, decision_text: str, origin: str = SOCKET) -> tuple[RequestRow, str]:
        """Takes one person's signed decision: countersigns when our policy is satisfied, or ends the request.

        ApprovalError unless the person is one of ours, with the key, role and organisation of people.json, and not the
        analyst; further what `countersign` raises, and ApprovalError when the request is laxer than our policy, or for
        a wrong date. What is refused is logged as refused and not kept.
        AuditError when it can't be logged: then an approval doesn't count, a denial or revocation has its effect.
        The text says when the person had approved already, "" if not: a second approval isn't kept and isn't logged.
        """
        decision = parse_decision(decision_text)
        with self._deciding:  # papers are numbered, and two last decisions must not both countersign
            return self._take(decision, origin)

    def _take(self, decision: PersonDecision, origin: str) -> tuple[RequestRow, str]:
        actor = Actor(
            who=decision.person, role=decision.role.value, organisation=decision.organisation, origin=origin
        )
        try:
            request = self._documents.request(decision.digest).request
            self._check_person(decision, request)
            self._check_date(decision)
            if decision.decision is Decision.APPROVE and not decision.reason:
                raise ApprovalError(
                    f"the approval of {decision.person} needs a reason", remedy="say why, with --reason"
                )
            if decision.decision is Decision.APPROVE:
                self._check_approvable(decision.digest, request)
                self._signed(
                    (decision,), request
                )  # what can't be countersigned must not stay among the papers
        except FedaccordError as error:
            self._journal.refused(EVENTS[decision.decision], actor, f"request {decision.digest}", error)
            raise
        already = ""
        if decision.decision is Decision.APPROVE:
            already = self._approved_at(decision.digest, decision.person)
            if not already:
                with self._recorded(decision, actor):
                    self._documents.add_decision(decision)
            self._countersign(decision.digest, request)
        else:
            try:
                self._withdraw(decision)  # first: what ends a run must not wait for room on a disk
            finally:
                with self._recorded(decision, actor):
                    self._documents.add_decision(decision)
        return self._ledger.find(decision.digest), already

    def _recorded(self, decision: PersonDecision, actor: Actor) -> AbstractContextManager[None]:
        """The decision's entry in the log, written before the block."""
        reason = decision.reason or "none given"
        return self._journal.before(
            EVENTS[decision.decision], actor, f"request {decision.digest}", reason=reason
        )

    def _check_person(self, decision: PersonDecision, request: ComputationRequest) -> None:
        if decision.party != self._state.name:
            raise ApprovalError(f"the decision was made for {decision.party}, not for {self._state.name}")
        person = find_person(self._state.folder, decision.person)
        if (person.key, person.role, person.organisation) != (
            decision.key,
            decision.role.value,
            decision.organisation,
        ):
            raise ApprovalError(f"key, role or organisation of {person.name} differ from people.json")
        if decision.key == request.analyst.key:
            raise ApprovalError(f"{person.name} is the analyst of the request, who can't decide on it")

    def _check_date(self, decision: PersonDecision) -> None:
        """Of one person's decisions the last that came stands; so an old approval must not come again.

        What takes something away may be dated before, and what ends a request for good is taken with any date.
        """
        time = parse_utc(decision.time, "time", ApprovalError)
        row = self._ledger.find(decision.digest)
        ends = decision.decision is not Decision.APPROVE and (
            decision.decision is Decision.REVOKE or row.state is not RunState.PENDING
        )
        if time - self._now() > AHEAD and not ends:
            raise ApprovalError(
                f"the decision of {decision.person} is dated {decision.time}, ahead of this party's clock",
                remedy="set the clock, then decide again",
            )
        if decision.decision is not Decision.APPROVE:
            return
        for before in self._documents.decisions(decision.digest):
            last = parse_utc(before.time, "time", ApprovalError)
            # of the same moment only an approval may come again
            late = time >= last if before.decision is Decision.APPROVE else time > last
            if before.key == decision.key and not late:
                raise ApprovalError(
                    f"the approval of {decision.person} is dated before your last decision, of {before.time}",
                    remedy="decide again now",
                )

    def _check_approvable(self, digest: str, request: ComputationRequest) -> None:
        row = self._ledger.find(digest)
        if row.state is RunState.REVOKED:
            raise RevokedRun(f"request {digest[:12]} was revoked", remedy="ask again with a new request")
        check_expiry(request, self._now())
        own = party_named(request, self._state.name)
        lax = violations(self._policy.read(), request, own.role, self._now())
        if lax:
            raise ApprovalError("; ".join(lax), remedy="ask with a new request, or change policy.toml first")

    def _countersign(self, digest: str, request: ComputationRequest) -> None:
        row = self._ledger.find(digest)
        if row.state is not RunState.PENDING or self.overview.missing(digest):
            return
        people = read_people(self._state.folder)
        approval = self._signed(counting(request, people, self._documents.decisions(digest)), request)
        itself, target = self._journal.itself, f"request {digest}"
        with self._journal.before(AuditEvent.COUNTERSIGNED, itself, target, policy=approval.policy_version):
            self._documents.save_approval(approval)
            # The ledger last: while it says PENDING, the next start of the supervisor does all of this again.
            self._tasks.put("approve", {"digest": digest, "caller": row.caller})
            self._ledger.approve(digest, self._now())

    def _signed(self, decisions: tuple[PersonDecision, ...], request: ComputationRequest) -> PartyApproval:
        version = self._policy.read().version
        return countersign(request, self._state.name, decisions, version, self._now(), self._key)

    def reconcile(self) -> None:
        """After a restart: countersigns what our people approved when a crash came before the ledger knew of it.

        What the policy doesn't allow (any more) stays pending.
        """
        with self._deciding:
            for row in self._ledger.all():
                try:
                    if row.state is RunState.PENDING and not self.overview.missing(row.digest):
                        request = self._documents.request(row.digest).request
                        self._check_approvable(row.digest, request)
                        self._countersign(row.digest, request)
                except FedaccordError as error:
                    print(f"WARNING: request {row.digest} stays pending: {error}", file=sys.stderr)

    def _withdraw(self, decision: PersonDecision) -> None:
        """A denial of a pending request can be thought over; everything else ends the request for good."""
        row = self._ledger.find(decision.digest)
        verb = "denied" if decision.decision is Decision.DENY else "revoked"
        reason = f"{verb} by {decision.person}" + (f": {decision.reason}" if decision.reason else "")
        task = {"digest": decision.digest, "caller": row.caller, "reason": reason}
        if decision.decision is Decision.DENY and row.state is RunState.PENDING:
            self._ledger.note(decision.digest, reason, self._now())
            self._tasks.put("deny", task)
        else:
            try:
                # The task before the ledger: after a crash in between people can decide again.
                self._tasks.put("deny", task)
                self._ledger.revoke(decision.digest, reason, self._now())
            finally:
                self._stop(decision.digest, reason)

    def _approved_at(self, digest: str, person: str) -> str:
        """When the person approved, as it still stands; "" for who didn't, or denied or revoked since."""
        decisions = standing(self._documents.decisions(digest))
        return next((d.time for d in decisions if d.person == person and d.decision is Decision.APPROVE), "")

    def approval_text(self, digest: str) -> str:
        """Our countersigned approval as the analyst carries it; "" before we countersigned."""
        approval = self._documents.approval(digest)
        return "" if approval is None else approvals_text((approval,))
