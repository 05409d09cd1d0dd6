"""A party's policy: who must approve, and the limits that a request has to keep; the stricter party wins.

A request carries one number for each limit, and every party checks it against its own: a request passes only when it
is at least as strict as the strictest party. Nobody counts for the analyst's own request, and nobody counts twice.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from pathlib import Path

from parties.home.agreements import RULES, Agreement, beyond, own_peers, read_agreements
from parties.home.people import Person
from parties.home.private_files import read_toml, toml_text
from protocols.approval import Decision, PartyApproval, PersonDecision
from protocols.errors import ConfigError, RequestError
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
[agreements.PEER] with both makes them stricter for that peer."""


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
    """The policy of the state folder; ConfigError naming an unknown or missing rule or a bad value."""
    path = folder / "policy.toml"
    table = read_toml(path)
    agreements = read_agreements(table.pop("agreements", {}), str(path))
    names = {field.name for field in fields(Policy)} - {"agreements"}
    for name in sorted(set(table) ^ names):
        raise ConfigError(
            f"{path}: {name} is {'unknown' if name in table else 'missing'}", remedy="correct policy.toml"
        )
    values: dict[str, int] = {}
    for name, value in table.items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise ConfigError(f"{path}: {name} must be a whole number", remedy="correct policy.toml")
        values[name] = value
    return Policy(agreements=agreements, **values)


def policy_text(policy: Policy) -> str:
    """The policy as the TOML text that `read_policy` reads."""
    rules = asdict(policy)
    del rules["agreements"]
    tables: dict[str, dict[str, int]] = {"": rules}
    for each in policy.agreements:
        tables[f"agreements.{json.dumps(each.peer)}"] = {name: getattr(each, name) for name in RULES}
    return toml_text(tables, COMMENT)


def strictest(policies: Iterable[Policy]) -> Policy:
    """For each rule the strictest value of all: the largest minimum, the smallest maximum."""
    found = list(policies)
    choose = {name: min if name.startswith("max_") else max for name in BOUNDS}
    return Policy(**{name: choose[name](getattr(each, name) for each in found) for name in BOUNDS})


def violations(policy: Policy, request: ComputationRequest, own_role: str, now: datetime) -> tuple[str, ...]:
    """What in the request is laxer than the policy of the party in this role, one text each; empty when nothing is."""
    found = []
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
