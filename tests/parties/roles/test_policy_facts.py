"""The party's own policy beside a request: its rules, and what they forbid."""

from datetime import UTC, datetime

from parties.home.policy import Policy
from parties.home.use_rules import Columns, Requirement, UseRules
from parties.roles.facts import facts_text
from parties.roles.policy_facts import policy_sections
from tests.parties.roles.samples import sample_request

NOW = datetime(2029, 12, 15, tzinfo=UTC)
REQUEST = sample_request()


def _text(policy: Policy) -> str:
    return facts_text(policy_sections(policy, REQUEST, "bank", NOW))


def test_a_request_within_the_policy_says_so_beside_every_rule() -> None:
    policy = Policy(owners=1, reviewers=2, joint_reviewers=3, joint_organisations=2)
    text = _text(policy)
    for part in (
        "it forbids nothing in this request",
        f"version      {policy.version}",
        "approvals    owners 1, reviewers 2; over all parties 3 reviewers of 2 organisations; never the",
        "overlap      asked 20, at least 20",
        "runs         asked 1, at most 10",
        "expiry       asked 2030-01-01T00:00:00Z, at most 90 days ahead",
        "purposes     no list: for people to judge",
    ):
        assert part in text, part


def test_R7_the_rule_of_the_stricter_party_is_on_its_page_and_what_is_laxer_is_forbidden() -> None:
    assert "group        asked 10, at least 5" in _text(Policy(minimum_group=5))
    text = _text(Policy(minimum_group=11))
    assert "group        asked 10, at least 11" in text
    assert "FORBIDDEN by it: an approval would be refused:" in text
    assert "- minimum_group is 10, our policy asks for at least 11" in text


def test_R3_columns_and_settings_that_the_policy_forbids_are_marked() -> None:
    uses = UseRules(
        purposes=("churn", "fraud"),
        never_used=(Columns(block="customers", columns=("age",)),),
        require=(
            Requirement(computation="vertical.test", setting="steps", most=3),
            Requirement(computation="vertical.other", setting="d", most=1),
        ),
    )
    text = _text(Policy(uses=uses))
    assert "purposes     churn, fraud" in text
    assert "never used   age of customers" in text
    assert "required     steps must be at most 3" in text
    assert "- column age of customers is never used" in text
    assert "- steps must be at most 3" in text
    assert "d must be at most 1" not in text
