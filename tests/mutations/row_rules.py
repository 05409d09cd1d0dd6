"""Rules of single rows of the review list: entries, reading, retention, clocks, uses, decisions, what stays."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

from parties.control.endings import mark_withdrawn
from parties.control.runs import Ledger, RunState
from parties.control.workers import run_folder
from parties.home.agreements import Agreement, beyond
from parties.home.journal import Journal
from parties.home.policy import Policy, violations
from parties.home.private_files import make_private_folder
from parties.home.use_rules import Columns, Requirement, UseRules
from parties.links.handshake import Peer
from parties.roles.log_access import read_log
from parties.roles.pruning import prune_log
from parties.running.passing import delete_passing, passing_at
from parties.running.runspec import ARTIFACTS_FILE, CHECKPOINTS, SEED_FILE, State
from protocols.approval import Decision
from protocols.audit import GENESIS, AuditEvent, AuditLog, Head, sign_head
from protocols.errors import ApprovalError, AuditError, FedaccordError, ModelError, RequestError, StateError
from protocols.request import digest
from tests.mutations.rule import Cut, Place, Rule, Stopped
from tests.parties.control.offices import CALLER, EMAIL, Offices
from tests.parties.control.test_desk import Desk
from tests.protocols import samples
from tests.protocols.test_audit import KEY, NOW, add

USES = "parties.home.use_rules."
READ = "parties.roles.log_access."


def an_entry_of_nobody(place: Place) -> None:
    """An entry that doesn't say who."""
    add(AuditLog(place.folder / "audit.jsonl", "bank"), who="")


def logged_in(offices: Offices) -> Journal:
    """The bank's log, with an entry."""
    journal = Journal(offices.bank, offices.clock)
    journal.ok(AuditEvent.SERVER_STARTED, journal.itself, "datasite bank")
    return journal


def a_reading(person: str, place: Place) -> None:
    """Somebody reads the log, and no entry tells of it."""
    offices = place.offices()
    journal = logged_in(offices)
    read_log(offices.bank, person, "everything", lambda: "all of it")
    if any(entry.event is AuditEvent.LOG_READ for entry in journal.log.entries()):
        raise Stopped("an entry tells of it")


def refused_without_a_trace(place: Place) -> None:
    """A request of a stranger is refused, and the log doesn't know."""
    desk = Desk(place.offices())
    try:
        desk.reception.ingest("{}", CALLER, EMAIL)
    except FedaccordError:
        if "refused" in desk.decided(AuditEvent.SUBMITTED):
            raise Stopped("an entry tells of it") from None


def pruned(place: Place) -> None:
    """The owner deletes entries of last month."""
    offices = place.offices()
    logged_in(offices)
    later = offices.clock() + timedelta(days=40)
    prune_log(offices.bank, later.date(), "owner", now=lambda: later)


def a_clock_an_hour_ahead(place: Place) -> None:
    head = sign_head(Head(party="bank", index=0, hash=GENESIS), NOW, KEY)
    peer = Peer(role="passive", name="bank", head=head, held=frozenset(), ahead=3600.0)
    if peer.skew:
        raise Stopped(peer.skew)


def asked(uses: UseRules, place: Place) -> None:
    """A request for a use that the policy's rules forbid."""
    request = samples.sample_request(samples.People())
    found = violations(Policy(uses=uses), request, "active", samples.NOW)
    if found:
        raise Stopped("; ".join(found))


def submitted_against_the_policy(place: Place) -> None:
    """A use that is forbidden waits for no person."""
    desk = Desk(place.offices())
    path = desk.offices.bank.folder / "policy.toml"
    path.write_text(path.read_text().replace("purposes = []", 'purposes = ["something else"]'))
    desk.submitted()


def denied_without_a_reason(place: Place) -> None:
    people = samples.People()
    request = samples.sample_request(people)
    samples.decision(request, "bank", people.bank_owner, decision=Decision.DENY, reason="")


def of_more_keys(place: Place) -> None:
    people = samples.People()
    request = samples.sample_request(people)
    found = beyond(Agreement(peer="retailer", max_psi_runs=5, max_psi_keys=999), request)
    if found:
        raise Stopped("; ".join(found))


def a_withdrawn_model(revoke: bool, place: Place) -> None:
    """A use of a model whose training was revoked here, or by the peer while it ran."""
    offices = place.offices()
    desk = Desk(offices)
    request = desk.submitted()
    desk.decide(request, Decision.APPROVE)
    ledger, now = Ledger(offices.bank.ledger_path), offices.clock()
    run = ledger.reserve(digest(request), now).run
    ledger.finish(digest(request), run, RunState.DONE, "", now, committed=True)
    folder = make_private_folder(run_folder(offices.bank.runs, digest(request), run))
    (folder / ARTIFACTS_FILE).write_bytes(b"a model")
    if revoke:
        ledger.revoke(digest(request), "revoked by owner", now)
    else:
        mark_withdrawn(folder, "shop", "peer_stopped:revoked", now)
    offices.supervisor()._models.find(digest(request))


def left_behind(state: State, place: Place) -> None:
    """Checkpoints and the private seed stay after a run that is over for good."""
    folder = make_private_folder(place.folder / "run")
    make_private_folder(folder / CHECKPOINTS)
    (folder / SEED_FILE).write_bytes(b"x" * 32)
    delete_passing(folder, passing_at(state))
    if not any(folder.iterdir()):
        raise Stopped("nothing stays")


def in_another_ones_seat(place: Place) -> None:
    """An analyst whose account is another one's submits a request."""
    desk = Desk(place.offices())
    request = desk.offices.request()
    desk.reception.ingest(desk.offices.signed(request), CALLER, "bob@lab.example.org")


def stopped(
    name: str, saying: str, attempt: Callable[[Place], None], *off: Cut, by: type[Exception] = Stopped
) -> Rule:
    return Rule(name=name, off=off, attempt=attempt, stopped=by, saying=saying)


RULES = (
    stopped(
        "P1: an entry says who",
        "who: expected text",
        an_entry_of_nobody,
        Cut(
            "protocols.audit_entry.Entry.__post_init__",
            '("party", "who", "role", "organisation", "origin")',
            "()",
        ),
        by=AuditError,
    ),
    stopped(
        "P3: what was refused is an entry",
        "an entry tells of it",
        refused_without_a_trace,
        Cut("parties.home.journal.Journal.refused", "self._write(", "(lambda *given: None)("),
    ),
    stopped(
        "P8: entries are kept for the months that the party sets",
        "entries are kept for 12 months",
        pruned,
        Cut("parties.roles.pruning.prune_log", "cutoff > limit"),
        by=StateError,
    ),
    stopped(
        "P9: the log is for the party's own people",
        "is for its own people",
        partial(a_reading, "ana"),
        Cut(
            f"{READ}read_log",
            "reader(state, person, what, event=event, origin=origin, now=now)",
            "journal.itself",
        ),
        Cut(f"{READ}read_log", "journal.ok(event, actor, TARGET, what=what)", "pass"),
        by=StateError,
    ),
    stopped(
        "P9: reading the log is an entry",
        "an entry tells of it",
        partial(a_reading, "owner"),
        Cut(f"{READ}read_log", "journal.ok(event, actor, TARGET, what=what)", "pass"),
    ),
    stopped(
        "P11: clocks that differ are told",
        "the clock of bank is 3600 s ahead of ours",
        a_clock_an_hour_ahead,
        Cut("parties.links.handshake.Peer.skew", "abs(self.ahead) <= SKEW_S", "True"),
    ),
    stopped(
        "R1: a purpose of the agreed list",
        "is not one that we agreed to",
        partial(asked, UseRules(purposes=("churn",))),
        Cut(f"{USES}forbidden", "rules.purposes and request.purpose not in rules.purposes"),
    ),
    stopped(
        "R1: what the policy forbids isn't even taken in",
        "is not one that we agreed to",
        submitted_against_the_policy,
        Cut("parties.control.reception.Reception._check_use", "if found:", "if False:"),
        by=FedaccordError,
    ),
    stopped(
        "R3: a column that is never used",
        "column age of customers is never used",
        partial(asked, UseRules(never_used=(Columns(block="customers", columns=("age",)),))),
        Cut(f"{USES}_columns", "if rule.block == entry.block:", "if False:"),
    ),
    stopped(
        "R3: a column outside the purpose's list",
        "is not one for the purpose",
        partial(
            asked, UseRules(allowed=(Columns(block="customers", columns=("hours",), purpose="credit risk"),))
        ),
        Cut(f"{USES}_columns", "(rule.block, rule.purpose) == (entry.block, request.purpose)"),
    ),
    stopped(
        "R7: who may ask",
        "is not one who may ask us",
        partial(asked, UseRules(analysts=("ben",))),
        Cut(f"{USES}forbidden", "rules.analysts and request.analyst.name not in rules.analysts"),
    ),
    stopped(
        "R7: who may receive",
        "would get messages of ours",
        partial(asked, UseRules(may_receive=("hospital",))),
        Cut(
            f"{USES}forbidden",
            "line.sender == own_role and rules.may_receive and receiver not in rules.may_receive",
        ),
    ),
    stopped(
        "R7: a required setting",
        "noise must be at least 1",
        partial(
            asked,
            UseRules(require=(Requirement(computation="vertical.fedcvt.train", setting="noise", least=1),)),
        ),
        Cut(f"{USES}forbidden", "and not rule.met(parameters)", "and False"),
    ),
    stopped(
        "R13: a denial has a reason",
        "reason: expected text",
        denied_without_a_reason,
        Cut(
            "protocols.decision.PersonDecision.__post_init__",
            "self.reason or self.decision is not Decision.APPROVE",
        ),
        by=ApprovalError,
    ),
    stopped(
        "R15: a model of a revoked training isn't used",
        "was withdrawn",
        partial(a_withdrawn_model, True),
        Cut("parties.control.models.Models.find", "row.state is RunState.REVOKED or", "False or"),
        by=ModelError,
    ),
    stopped(
        "R15: a model that the peer withdrew isn't used",
        "was withdrawn",
        partial(a_withdrawn_model, False),
        Cut("parties.control.models.Models.find", " or (folder / WITHDRAWN_FILE).exists()", ""),
        by=ModelError,
    ),
    stopped(
        "R20: temporary material is gone after a run",
        "nothing stays",
        partial(left_behind, State.REVOKED),
        Cut("parties.running.passing.passing_at", "state in (State.FAILED, State.INTERRUPTED)", "True"),
    ),
    stopped(
        "R21: a set of so many keys and no more",
        "a set has up to 1000 keys",
        of_more_keys,
        Cut("parties.home.agreements.beyond", "largest > agreement.max_psi_keys"),
    ),
    stopped(
        "an account is its analyst's",
        "who has no account",
        in_another_ones_seat,
        Cut("parties.home.accounts.Accounts.check", "self.all().get(request.analyst.name) != email"),
        by=RequestError,
    ),
)
