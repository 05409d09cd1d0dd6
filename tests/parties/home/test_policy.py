"""Who must approve, and the stricter party (AC-21)."""

from datetime import timedelta
from pathlib import Path

import pytest

from parties.catalog import CATALOG
from parties.home.agreements import Agreement
from parties.home.checklist import Question
from parties.home.people import Person, read_people
from parties.home.policy import (
    Policy,
    changed_rules,
    missing,
    missing_jointly,
    policy_text,
    read_policy,
    violations,
)
from parties.home.private_files import write_private
from parties.home.processing import Processing
from parties.home.use_rules import Columns, Requirement, UseRules
from protocols import keys
from protocols.approval import (
    Decision,
    PartyApproval,
    PersonDecision,
    Role,
    countersign,
    decide,
    parse_decision,
)
from protocols.errors import ConfigError
from protocols.request import ComputationRequest, digest
from tests.parties.control.offices import Offices, make_offices


@pytest.fixture
def offices(tmp_path: Path) -> Offices:
    return make_offices(tmp_path)


def approve(
    offices: Offices, request: ComputationRequest, person: Person, key: keys.Ed25519PrivateKey, what: Decision
) -> PersonDecision:
    return decide(
        digest=digest(request),
        party="bank",
        person=person.name,
        role=Role(person.role),
        organisation=person.organisation,
        decision=what,
        reason="because" if what is not Decision.APPROVE else "",
        key=key,
        now=offices.clock(),
    )


def test_policy_toml_round_trip_and_version(tmp_path: Path) -> None:
    policy = Policy(
        owners=2,
        reviewers=1,
        minimum_group=12,
        uses=UseRules(
            purposes=("churn", "credit risk"),
            analysts=("ana",),
            may_receive=("shop",),
            never_used=(Columns(block="block.one", columns=("birth_date",)),),
            allowed=(Columns(block="customers", columns=("income",), purpose="credit risk"),),
            require=(
                Requirement(computation="a.train", setting="views", exact=0),
                Requirement(computation="a.train", setting="blind", exact=True),
                Requirement(computation="a.train", setting="noise", least=0.5),
                Requirement(computation="b.train", setting="noise", least=0.5, most=2),
            ),
        ),
        processing=Processing(legal_basis='Art. 6(1)(f), "balanced"', retention="two years"),
    )
    write_private(tmp_path / "policy.toml", policy_text(policy))
    assert read_policy(tmp_path) == policy
    assert read_policy(tmp_path).version == policy.version != Policy().version


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("owners = 0", "owners must be"),
        ("owners = true", "whole number"),
        ('reviewers = "two"', "whole number"),
        ("minimum_group = 1", "minimum_group must be"),
        ("max_days = 400", "max_days must be"),
        ("max_psi_runs = -1", "max_psi_runs must be"),
        ("colour = 3", "colour is unknown"),
        ("purposes = 3", "purposes must be a list of texts"),
        ('purposes = ["churn", "churn"]', "purposes names something twice"),
        ('analysts = [""]', "analysts: expected text"),
        ("[never_used]\ncustomers = 3", "never_used.customers must be a list"),
        ("[allowed.churn]\ncustomers = 3", "allowed.churn.customers must be a list"),
        ("allowed = 3", "allowed must be a table"),
        ("[require.train]\nnoise = {}", "takes least and most only"),
        ("[require.train]\nnoise = { least = 1, about = 2 }", "takes least and most only"),
        ("[require.train]\nnoise = nan", "must be a number"),
        ("[require.train]\nnoise = { least = true }", "must be a number"),
        ('[processing]\ncolour = "red"', "processing.colour is unknown"),
        ("[processing]\npeople = 3", "processing.people must be text"),
        ("[agreements.shop]\nmax_psi_runs = 2", "the agreement with shop must have"),
        ("[agreements.shop]\nmax_psi_runs = 2\nmax_psi_keys = true", "max_psi_keys for shop must be"),
        ("agreements = 3", "must be tables"),
        ("", "is missing"),
    ],
)
def test_a_wrong_rule_is_named(tmp_path: Path, line: str, expected: str) -> None:
    name = line.split(" ")[0] or "owners"
    rules = policy_text(Policy()).partition("\n[processing]")[0]
    kept = [text for text in rules.splitlines() if not text.startswith(f"{name} ")]
    write_private(tmp_path / "policy.toml", "\n".join([*kept, line]))
    with pytest.raises(ConfigError, match=expected):
        read_policy(tmp_path)


def test_a_policy_of_an_earlier_release_is_refused_with_the_lines_that_mend_it(tmp_path: Path) -> None:
    path, new = tmp_path / "policy.toml", ("purposes", "analysts", "may_receive", "max_psi_runs")
    kept = [line for line in policy_text(Policy(owners=2)).splitlines() if not line.startswith(new)]
    write_private(path, "\n".join(kept))
    with pytest.raises(
        ConfigError, match="max_psi_runs, purposes, analysts, may_receive are missing"
    ) as error:
        read_policy(tmp_path)
    lines = error.value.remedy.partition("of your own: ")[2].partition("  (")[0].split("; ")
    assert lines == ["max_psi_runs = 100", "purposes = []", "analysts = []", "may_receive = []"]
    write_private(path, "\n".join([*lines, *kept]))
    assert read_policy(tmp_path) == Policy(owners=2)


def test_an_agreement_with_a_peer_can_only_be_stricter(tmp_path: Path) -> None:
    agreements = (
        Agreement(peer="shop", max_psi_runs=2, max_psi_keys=10_000),
        Agreement(peer="the.rest", max_psi_runs=99, max_psi_keys=5),
    )
    policy = Policy(max_psi_runs=7, max_psi_keys=500, agreements=agreements)
    write_private(tmp_path / "policy.toml", policy_text(policy))
    assert read_policy(tmp_path) == policy
    found = {peer: policy.agreement(peer) for peer in ("shop", "the.rest", "else")}
    assert {p: (a.max_psi_runs, a.max_psi_keys) for p, a in found.items()} == {
        "shop": (2, 500),
        "the.rest": (7, 5),
        "else": (7, 500),
    }
    assert policy.version != Policy(max_psi_runs=7, max_psi_keys=500).version


def test_a_request_laxer_than_the_policy_is_told_how(offices: Offices) -> None:
    policy = Policy(minimum_group=10, minimum_overlap=60, max_runs=1, max_days=5)
    request = offices.request(minimum_group=5, runs=2)
    found = violations(policy, request, "active", offices.clock())
    assert [text.split(" ")[0] for text in found] == ["minimum_group", "minimum_overlap", "runs", "it"]
    assert violations(Policy(), offices.request(), "active", offices.clock()) == ()
    assert (
        violations(Policy(max_days=8), offices.request(), "active", offices.clock() - timedelta(days=2)) != ()
    )


def test_what_is_missing_until_owner_and_reviewer_have_approved(offices: Offices) -> None:
    request = offices.request()
    policy = Policy(owners=1, reviewers=1)
    key = keys.generate_key()
    rev1 = Person(name="rev1", role="reviewer", organisation="Bank", key=keys.public_hex(key))
    people = (*read_people(offices.bank.folder), rev1)
    owner = parse_decision(offices.decision(offices.bank, request, Decision.APPROVE))
    reviewed = approve(offices, request, rev1, key, Decision.APPROVE)
    assert missing(policy, request, people, []) == (
        "1 more owner must approve",
        "1 more reviewer must approve",
    )
    assert missing(policy, request, people, [owner, owner]) == ("1 more reviewer must approve",)
    assert missing(policy, request, people, [owner, reviewed]) == ()
    denied = approve(offices, request, rev1, key, Decision.DENY)
    assert "rev1 decided to deny" in missing(policy, request, people, [owner, reviewed, denied])


def test_only_our_people_with_their_own_key_and_role_count(offices: Offices) -> None:
    request = offices.request()
    key = keys.generate_key()
    stranger = Person(name="owner", role="owner", organisation="Bank", key=keys.public_hex(key))
    decision = approve(offices, request, stranger, key, Decision.APPROVE)
    assert missing(Policy(), request, read_people(offices.bank.folder), [decision]) != ()
    promoted = Person(name="rev1", role="reviewer", organisation="Bank", key=keys.public_hex(key))
    claims = approve(
        offices,
        request,
        Person(name="rev1", role="owner", organisation="Bank", key=promoted.key),
        key,
        Decision.APPROVE,
    )
    assert missing(Policy(), request, (promoted,), [claims]) != ()


def test_the_analyst_never_counts_for_her_own_request(offices: Offices) -> None:
    request = offices.request()
    key = offices.ana.signing_key()
    herself = Person(name="ana", role="owner", organisation="Lab", key=keys.public_hex(key))
    decision = approve(offices, request, herself, key, Decision.APPROVE)
    assert missing(Policy(), request, (herself,), [decision]) == ("1 more owner must approve",)


def test_reviewers_of_two_organisations_over_all_parties(offices: Offices) -> None:
    request = offices.request()
    policy = Policy(joint_reviewers=2, joint_organisations=2)
    shop = offices.shop_signed(request)
    rev1, rev2 = keys.generate_key(), keys.generate_key()

    def bank(organisation: str) -> PartyApproval:
        owner = parse_decision(offices.decision(offices.bank, request, Decision.APPROVE))
        decisions = [owner]
        for name, key, of in (("rev1", rev1, "Bank"), ("rev2", rev2, organisation)):
            person = Person(name=name, role="reviewer", organisation=of, key=keys.public_hex(key))
            decisions.append(approve(offices, request, person, key, Decision.APPROVE))
        return countersign(request, "bank", decisions, "0" * 16, offices.clock(), offices.bank.signing_key())

    assert len(missing_jointly(policy, request, [shop])) == 2
    assert len(missing_jointly(policy, request, [shop, bank("Bank")])) == 1
    assert missing_jointly(policy, request, [shop, bank("Board")]) == ()


@pytest.mark.parametrize(
    ("computation", "setting", "told"),
    [
        ("vertical.fedcvt.train", "linear_veiws", "is linear_views meant?"),
        ("vertical.fedcvt.vote", "threshold_jont", "is threshold_joint meant?"),
        ("align.size", "bucket", "is size_bucket meant?"),
        ("describe.columns", "dominance", "is dominance_"),
        ("horizontal.train", "secure_agregation", "is secure_aggregation meant?"),
        ("vertical.fedcvt.train", "zzz", "there are: "),
    ],
)
def test_a_misspelt_setting_is_an_error_that_names_the_one_meant(
    tmp_path: Path, computation: str, setting: str, told: str
) -> None:
    """Else every request would be refused for a setting that none can have."""
    write_private(
        tmp_path / "policy.toml", policy_text(Policy()) + f'[require."{computation}"]\n{setting} = 1\n'
    )
    with pytest.raises(ConfigError, match=f"has no setting '{setting}'") as raised:
        read_policy(tmp_path)
    assert told in f"{raised.value} {raised.value.remedy}"


def test_a_setting_that_each_computation_has_may_be_required(tmp_path: Path) -> None:
    for name, computation in CATALOG.items():
        tables = f'[require."{name}"]\n' + "".join(
            f"{setting} = 1\n" for setting in computation.setting_names()
        )
        write_private(tmp_path / "policy.toml", policy_text(Policy()) + tables)
        assert len(read_policy(tmp_path).uses.require) == len(computation.setting_names()) > 0, name


def test_a_checklist_is_part_of_the_policy(tmp_path: Path) -> None:
    policy = Policy(checklist=(Question(item="columns", text='Is "every" column needed?'),))
    write_private(tmp_path / "policy.toml", policy_text(policy))
    assert read_policy(tmp_path) == policy
    assert changed_rules(Policy(), policy) == ("checklist",)
    assert policy.version != Policy().version
