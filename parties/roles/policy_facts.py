"""A party's own policy beside a request: its rules, and what in the request they forbid."""

from datetime import datetime

from parties.home.policy import Policy, violations
from parties.roles.facts import Content, Fact, Group, Note, Section, section
from protocols.request import ComputationRequest, party_named

NO_LIST = "no list: for people to judge"


def policy_sections(
    policy: Policy, request: ComputationRequest, party: str, now: datetime
) -> tuple[Section, ...]:
    """This party's policy as it is now, held against the request.

    A number in the request holds at every party, and each party refuses one that is laxer than its own: so the
    strictest rule is the one that is kept.
    """
    title = f"Policy of {party} in force (each party holds its own, the strictest wins)"
    forbidden = violations(policy, request, party_named(request, party).role, now)
    verdict: Content = Note(text="it forbids nothing in this request")
    if forbidden:
        verdict = Group(title="FORBIDDEN by it: an approval would be refused", items=forbidden)
    return (section(title, [verdict, *_rules(policy, request)]),)


def _rules(policy: Policy, request: ComputationRequest) -> list[Fact]:
    joint = (
        f"over all parties {policy.joint_reviewers} reviewers of {policy.joint_organisations} organisations"
    )
    rules = [
        ("version", policy.version),
        ("approvals", f"owners {policy.owners}, reviewers {policy.reviewers}; {joint}; never the analyst"),
        ("group", _at_least("minimum_group", policy, request)),
        ("overlap", _at_least("minimum_overlap", policy, request)),
        ("runs", f"asked {request.runs}, at most {policy.max_runs}"),
        ("expiry", f"asked {request.expires}, at most {policy.max_days} days ahead"),
        ("purposes", ", ".join(policy.uses.purposes) or NO_LIST),
        ("analysts", ", ".join(policy.uses.analysts) or NO_LIST),
        ("recipients", ", ".join(policy.uses.may_receive) or NO_LIST),
    ]
    never = [f"{', '.join(rule.columns)} of {rule.block}" for rule in policy.uses.never_used]
    required = [str(rule) for rule in policy.uses.require if rule.computation == request.computation]
    rules += [("never used", text) for text in never] + [("required", text) for text in required]
    return [Fact(name=name, text=text) for name, text in rules]


def _at_least(rule: str, policy: Policy, request: ComputationRequest) -> str:
    return f"asked {getattr(request, rule)}, at least {getattr(policy, rule)}"
