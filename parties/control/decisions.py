"""The decisions of a party's own people: approvals that satisfy the policy are countersigned, the others end requests.

A decision is kept as one that is being carried out from before its first effect until after its last, so that after a
crash at any moment log, state and papers come to say the same. The log decides about an approval: with its entry it
counts, without one nobody has approved. A denial or revocation that came in is carried out to its end in any case.
"""

import hashlib
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from parties.control.decision_checks import check_date, check_person, check_reason
from parties.control.overview import Overview
from parties.control.runs import Ledger, RequestRow, RunState
from parties.control.tasks import TaskQueue
from parties.home.checklist import check_answered
from parties.home.documents import Documents, Unfinished
from parties.home.journal import SOCKET, Actor, Journal
from parties.home.people import read_people
from parties.home.policy import counting, standing, violations
from parties.home.policy_watch import WatchedPolicy
from parties.home.state import State
from protocols.approval import (
    Decision,
    PartyApproval,
    PersonDecision,
    check_expiry,
    countersign,
    decision_text,
    parse_decision,
)
from protocols.approval import to_text as approvals_text
from protocols.audit import AuditEvent, Result
from protocols.errors import ApprovalError, FedaccordError, RevokedRun, StateError
from protocols.request import ComputationRequest, party_named

Stop = Callable[[str, str], None]
"""Ends all that runs of a request (digest, reason); called after the ledger says REVOKED."""
EVENTS = {
    Decision.APPROVE: AuditEvent.APPROVED,
    Decision.DENY: AuditEvent.DENIED,
    Decision.REVOKE: AuditEvent.REVOKED,
}
PAPER = "decision"
"""The detail of a decision's entry with the SHA-256 of its signed text: which paper it was."""


class Decisions:
    """One party's people's decisions; every method may be called from several threads."""

    def __init__(
        self,
        state: State,
        *,
        ledger: Ledger,
        tasks: TaskQueue,
        journal: Journal,
        policy: WatchedPolicy,
        key: Ed25519PrivateKey,
        overview: Overview,
        stop: Stop,
        now: Callable[[], datetime],
    ) -> None:
        self._state = state
        self._ledger = ledger
        self._tasks = tasks
        self._journal = journal
        self._policy = policy
        self._key = key
        self._overview = overview
        self._stop = stop
        self._now = now
        self._documents = Documents(state.folder)
        self._deciding = threading.Lock()

    def take(self, text: str, origin: str = SOCKET) -> tuple[RequestRow, str]:
        """Takes one person's signed decision: countersigns when our policy is satisfied, or ends the request.

        ApprovalError unless the person is one of ours, with the key, role and organisation of people.json, and not the
        analyst; further what `countersign` raises, and ApprovalError when the request is laxer than our policy, or for
        a wrong date. What is refused is logged as refused and not kept.
        AuditError when it can't be logged: then an approval doesn't count, a denial or revocation has its effect.
        The text says when the person had approved already, "" if not: a second approval isn't kept and isn't logged.
        """
        decision = parse_decision(text)
        with self._deciding:  # papers are numbered, and two last decisions must not both countersign
            return self._take(decision, origin)

    def _take(self, decision: PersonDecision, origin: str) -> tuple[RequestRow, str]:
        actor, approves = _actor(decision, origin), decision.decision is Decision.APPROVE
        try:
            request = self._documents.request(decision.digest).request
            self._finish_left(decision)
            check_person(self._state, decision, request)
            # a damaged paper mustn't stop a revocation
            earlier = self._documents.decisions(decision.digest) if approves else ()
            check_date(decision, self._ledger.find(decision.digest).state, earlier, self._now())
            check_reason(decision)
            if approves:
                self._check_approvable(decision.digest, request)
                check_answered(self._policy.read().checklist, decision.reason)
                # what can't be countersigned must not stay among the papers
                self._signed((decision,), request)
        except FedaccordError as error:
            self._journal.refused(EVENTS[decision.decision], actor, f"request {decision.digest}", error)
            raise
        already = ""
        if approves:
            already = self._approved_at(decision.digest, decision.person)
            if not already:
                self._approve(decision, actor)
            self._countersign(decision.digest, request)
        else:
            self._end(decision, actor)
        return self._ledger.find(decision.digest), already

    def _approve(self, decision: PersonDecision, actor: Actor) -> None:
        """The approval counts once its entry is written."""
        self._documents.begin(Unfinished(decision=decision, origin=actor.origin))
        try:
            with self._recorded(decision, actor):
                self._documents.add_decision(decision)
        except Exception:
            self._documents.settle(decision)  # its person is told that it didn't count
            raise
        self._documents.settle(decision)

    def _end(self, decision: PersonDecision, actor: Actor) -> None:
        """A denial or revocation: what ends a run must not wait for room on a disk."""
        try:
            self._documents.begin(Unfinished(decision=decision, origin=actor.origin))
        except (OSError, StateError) as error:
            # a crash now would leave it unfinished; it goes on all the same
            what = f"{decision.decision} by {decision.person}"
            print(f"WARNING: {what} can't be kept before it is carried out: {error}", file=sys.stderr)
        try:
            self._withdraw(decision)
        finally:
            with self._recorded(decision, actor):
                self._documents.add_decision(decision)
        self._documents.settle(decision)

    def _finish_left(self, coming: PersonDecision) -> None:
        """Before another decision on the request is taken: what a full disk or a damaged log has left unfinished.

        When that isn't possible yet, an approval is refused with the error; a denial or revocation goes on.
        """
        try:
            self._finish_all(coming.digest)
        except (OSError, FedaccordError) as error:
            if coming.decision is Decision.APPROVE:
                raise
            print(f"WARNING: an earlier decision stays unfinished: {error}", file=sys.stderr)

    def _finish_all(self, digest: str) -> None:
        for left in self._documents.unfinished(digest):
            self._finish(left)

    def _finish(self, left: Unfinished) -> None:
        """Carries out what is left of a decision: nothing of an approval that has no entry."""
        decision, held = left.decision, left.decision in self._documents.decisions(left.decision.digest)
        ends = decision.decision is not Decision.APPROVE
        if ends:  # again, though its paper is there: that is kept too when the ledger had no room for the withdrawal
            self._withdraw(decision)
        logged = self._is_logged(decision)
        if ends and not logged:
            with self._recorded(decision, _actor(decision, left.origin)):
                self._add(decision, held)
        elif ends or logged:
            self._add(decision, held)
        self._documents.settle(decision)

    def _add(self, decision: PersonDecision, held: bool) -> None:
        if not held:
            self._documents.add_decision(decision)

    def _is_logged(self, decision: PersonDecision) -> bool:
        """Whether the last entry about this very decision says that it was taken."""
        event, target, paper = EVENTS[decision.decision], f"request {decision.digest}", _paper(decision)
        results = [
            entry.result
            for entry in self._journal.log.entries()
            if (entry.event, entry.object) == (event, target) and dict(entry.detail).get(PAPER) == paper
        ]
        return bool(results) and results[-1] is Result.OK

    def _recorded(self, decision: PersonDecision, actor: Actor) -> AbstractContextManager[None]:
        """The decision's entry in the log, written before the block."""
        event, target = EVENTS[decision.decision], f"request {decision.digest}"
        reason, paper = decision.reason or "none given", {PAPER: _paper(decision)}
        return self._journal.before(event, actor, target, reason=reason, **paper)

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
        if row.state is not RunState.PENDING or self._overview.missing(digest):
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
        """After a restart: finishes what a crash has left unfinished, then countersigns what our people approved when
        the crash came before the ledger knew of it.

        What the policy doesn't allow (any more) stays pending.
        """
        with self._deciding:
            for row in self._ledger.all():
                try:
                    self._finish_all(row.digest)
                    pending = self._ledger.find(row.digest).state is RunState.PENDING
                    if pending and not self._overview.missing(row.digest):
                        request = self._documents.request(row.digest).request
                        self._check_approvable(row.digest, request)
                        self._countersign(row.digest, request)
                except (OSError, FedaccordError) as error:
                    print(f"WARNING: request {row.digest} stays as it is: {error}", file=sys.stderr)

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


def _actor(decision: PersonDecision, origin: str) -> Actor:
    role, organisation = decision.role.value, decision.organisation
    return Actor(who=decision.person, role=role, organisation=organisation, origin=origin)


def _paper(decision: PersonDecision) -> str:
    return hashlib.sha256(decision_text(decision).encode()).hexdigest()
