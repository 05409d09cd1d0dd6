"""A party's policy: who must approve, who may ask for what, and the limits of a request; the stricter party wins.

A request carries one number for each limit, and every party checks it against its own: a request passes only when it
is at least as strict as the strictest party. Nobody counts for the analyst's own request, and nobody counts twice.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from parties.home.agreements import RULES, Agreement, beyond, own_peers, read_agreements
from parties.home.checklist import Question, read_checklist
from parties.home.people import Person
from parties.home.private_files import TomlValue, read_toml, toml_key, toml_text
from parties.home.processing import Processing, read_processing
from parties.home.use_rules import LISTS, UseRules, check_required, forbidden, read_use_rules, use_tables
from protocols.approval import Decision, PartyApproval, PersonDecision
from protocols.errors import ConfigError, RequestError, StateError
from protocols.records import parse_utc
from protocols.request import ComputationRequest

BOUNDS = {
    "owners": (1, 20),
    "reviewers": (0, 20),
    "joint_reviewers": (0, 50),
    "joint_organisations": (0, 50),
    "minimum_group": (2, 100_000),
    "minimum_overlap": (2, 100_000_000),
    "max_runs": (1, 1000),
    "max_days": (1, 366),
    **RULES,
}
COMMENT = """\
owners, reviewers: how many of our own people must approve before we countersign.
joint_reviewers, joint_organisations: reviewers needed over all parties, and from how many organisations.
minimum_group, minimum_overlap: smallest group in a released number, smallest number of common people.
max_runs, max_days: most runs of one request, and how far ahead it may expire.
max_psi_runs, max_psi_keys: most alignments with one peer in all, and most keys in a set of either side. A table
[agreements.PEER] with both makes them stricter for that peer.
purposes: the agreed ones; a request names one of them. analysts: who may ask. may_receive: the parties that may get
messages of ours. An empty list binds nobody.
[never_used] BLOCK = [columns that no request may use]; [allowed."PURPOSE"] BLOCK = [the only ones for that purpose].
[require."COMPUTATION"] SETTING = value, or { least = number, most = number }.
[checklist] ITEM = "question": what whoever approves has to answer with yes and why; without it nothing is asked.
[processing] contact, legal_basis, people, data, retention, transfer, security, necessity: your own words, which the
review shows as given (Art. 30(1) and 35(7) GDPR)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules of one party; ConfigError names a value that is out of its bounds."""

    owners: int = 1
    reviewers: int = 0
    joint_reviewers: int = 0
    joint_organisations: int = 0
    minimum_group: int = 10
    minimum_overlap: int = 20
    max_runs: int = 10
    max_days: int = 90
    max_psi_runs: int = 100
    max_psi_keys: int = 10_000_000
    agreements: tuple[Agreement, ...] = ()
    uses: UseRules = field(default_factory=UseRules)
    processing: Processing = field(default_factory=Processing)
    checklist: tuple[Question, ...] = ()

    def __post_init__(self) -> None:
        for name, (low, high) in BOUNDS.items():
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise ConfigError(
                    f"policy: {name} must be a whole number from {low} to {high}, got {value!r:.40}"
                )

    def agreement(self, peer: str) -> Agreement:
        """What holds for alignments with this peer: the stricter of the general rules and of the agreement with it."""
        each = [(self.max_psi_runs, self.max_psi_keys)]
        each += [(a.max_psi_runs, a.max_psi_keys) for a in self.agreements if a.peer == peer]
        runs, keys = (min(values) for values in zip(*each, strict=True))
        return Agreement(peer=peer, max_psi_runs=runs, max_psi_keys=keys)

    @property
    def version(self) -> str:
        """16 hex digits that change with any rule."""
        text = "\n".join(f"{name}={value}" for name, value in sorted(asdict(self).items()))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_policy(folder: Path) -> Policy:
    """The policy of the state folder; ConfigError naming an unknown or missing rule, a bad value or an unreadable file.

    A rule that isn't there is no rule at all: a line may have been lost, and a file of an earlier release must be read
    again by its owner before it holds.
    """
    path = folder / "policy.toml"
    try:
        table = read_toml(path)
    except StateError as error:  # that error is about a request's state where an analyst is told its code
        raise ConfigError(str(error), remedy=error.remedy or "restore policy.toml") from error
    return parse_policy(table, str(path))


def parse_policy(document: Mapping[str, object], where: str) -> Policy:
    """The policy in a TOML document that `where` names; raises like `read_policy`."""
    table = dict(document)
    _check_complete(table, where)
    agreements = read_agreements(table.pop("agreements", {}), where)
    processing = read_processing(table.pop("processing", {}), where)
    checklist = read_checklist(table.pop("checklist", {}), where)
    uses = read_use_rules(table, where)
    check_required(uses.require, where)
    for name in sorted(set(table) - set(BOUNDS)):
        raise ConfigError(f"{where}: {name} is unknown", remedy="correct policy.toml")
    values: dict[str, int] = {}
    for name, value in table.items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise ConfigError(f"{where}: {name} must be a whole number", remedy="correct policy.toml")
        values[name] = value
    return Policy(agreements=agreements, uses=uses, processing=processing, checklist=checklist, **values)


def _check_complete(table: Mapping[str, object], where: str) -> None:
    """ConfigError with the lines to add, when rules are missing; they are what `init` writes."""
    rules = _general(Policy())
    lacking = {name: value for name, value in rules.items() if name not in table}
    if lacking:
        lines = "; ".join(toml_text({"": lacking}).splitlines())
        raise ConfigError(
            f"{where}: {', '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} missing",
            remedy=f"add above the first [table], a line each, with values of your own: {lines}"
            + ("  (an empty list binds nobody)" if set(lacking) & set(LISTS) else ""),
        )


def _general(policy: Policy) -> dict[str, TomlValue]:
    """The rules that every policy.toml has, above its tables."""
    return {name: getattr(policy, name) for name in BOUNDS} | use_tables(policy.uses)[""]


def policy_text(policy: Policy) -> str:
    """The policy as the TOML text that `read_policy` reads."""
    tables = use_tables(policy.uses)
    tables[""] = _general(policy)
    for each in policy.agreements:
        tables[f"agreements.{toml_key(each.peer)}"] = {name: getattr(each, name) for name in RULES}
    tables["processing"] = dict(asdict(policy.processing))
    if policy.checklist:
        tables["checklist"] = {question.item: question.text for question in policy.checklist}
    return toml_text(tables, COMMENT)


def changed_rules(old: Policy, new: Policy) -> tuple[str, ...]:
    """Names of the rules in which two policies differ."""
    before, after = _flat(old), _flat(new)
    return tuple(name for name in before if before[name] != after[name])


def _flat(policy: Policy) -> dict[str, object]:
    """Every rule by its name, those in records of their own too."""
    rules: dict[str, object] = {name: getattr(policy, name) for name in (*BOUNDS, "agreements", "checklist")}
    return rules | asdict(policy.uses) | asdict(policy.processing)


def violations(policy: Policy, request: ComputationRequest, own_role: str, now: datetime) -> tuple[str, ...]:
    """What in the request is laxer than the policy of the party in this role, or what that forbids, one text each."""
    found = list(forbidden(policy.uses, request, own_role))
    for name in ("minimum_group", "minimum_overlap"):
        asked, wanted = getattr(request, name), getattr(policy, name)
        if asked < wanted:
            found.append(f"{name} is {asked}, our policy asks for at least {wanted}")
    if request.runs > policy.max_runs:
        found.append(f"runs is {request.runs}, our policy allows at most {policy.max_runs}")
    if parse_utc(request.expires, "expires", RequestError) > now + timedelta(days=policy.max_days):
        found.append(f"it expires {request.expires}, our policy allows at most {policy.max_days} days")
    for peer in own_peers(request, own_role):
        found += beyond(policy.agreement(peer), request)
    return tuple(found)


def standing(decisions: Iterable[PersonDecision]) -> tuple[PersonDecision, ...]:
    """Each person's decision that stands at our desk: the one that came last, whatever its date."""
    return tuple({decision.key: decision for decision in decisions}.values())


def counting(
    request: ComputationRequest, people: Iterable[Person], decisions: Iterable[PersonDecision]
) -> tuple[PersonDecision, ...]:
    """The approvals that count: by one of our people, with that person's key and role, not the analyst, one each.

    `decisions` are in the order in which they came.
    """
    known = {person.name: person for person in people}
    counted: dict[str, PersonDecision] = {}
    for decision in standing(decisions):
        person = known.get(decision.person)
        if decision.decision is not Decision.APPROVE or person is None or decision.key == request.analyst.key:
            continue
        if decision.key == person.key and str(decision.role) == person.role:
            counted[person.key] = decision
    return tuple(counted.values())


def missing(
    policy: Policy, request: ComputationRequest, people: Iterable[Person], decisions: Iterable[PersonDecision]
) -> tuple[str, ...]:
    """What our own people still have to approve before we countersign, one text each; empty when all is there.

    `decisions` are in the order in which they came: a denial or revocation blocks until its person approves after it.
    """
    given = tuple(decisions)
    counted = counting(request, people, given)
    found = [
        f"{decision.person} decided to {decision.decision}"
        for decision in standing(given)
        if decision.decision is not Decision.APPROVE
    ]
    for role, wanted in (("owner", policy.owners), ("reviewer", policy.reviewers)):
        have = sum(1 for decision in counted if str(decision.role) == role)
        if have < wanted:
            found.append(f"{wanted - have} more {role}{'s' if wanted - have > 1 else ''} must approve")
    return tuple(found)


def missing_jointly(
    policy: Policy, request: ComputationRequest, approvals: Iterable[PartyApproval]
) -> tuple[str, ...]:
    """What the policy asks of all parties' reviewers together and the verified approvals don't hold."""
    reviewers = {
        decision.key: decision.organisation
        for approval in approvals
        for decision in approval.decisions
        if decision.decision is Decision.APPROVE
        and str(decision.role) == "reviewer"
        and decision.key != request.analyst.key
    }
    found = []
    if len(reviewers) < policy.joint_reviewers:
        found.append(
            f"{policy.joint_reviewers - len(reviewers)} more reviewers over all parties must approve"
        )
    organisations = len(set(reviewers.values()))
    if organisations < policy.joint_organisations:
        found.append(
            f"reviewers from {policy.joint_organisations} organisations must approve, {organisations} have"
        )
    return tuple(found)
