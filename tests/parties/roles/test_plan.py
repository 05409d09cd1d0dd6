"""From a plan in TOML to a complete request; every wrong field is named."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parties import catalog
from parties.blocks.schema import check_entry
from parties.roles import plan as plan_module
from parties.roles.plan import PlanParty, build_request, read_offer, read_plan
from parties.roles.review import review_text
from protocols.errors import BlockError, ConfigError, RequestError, SubjectKeyError
from protocols.request import AnalystEntry
from tests.parties.commands.town import PLAN
from tests.parties.roles.published import PARAMETERS, offers, plan, publication

NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
ANA = AnalystEntry(name="ana", organisation="Lab", key="a" * 64)


def _build(**changes: object):
    return build_request(plan(**changes), offers(), ANA, now=NOW, nonce="1" * 32)


def test_a_plan_is_completed_from_offers_and_catalog() -> None:
    made = _build(days=3, public_seed=5)
    bank, shop = made.blocks
    assert (bank.block, bank.version, bank.rows, bank.label) == ("customers", 1, 60, "churned")
    assert shop.columns == ("amount", "town")
    assert [(p.name, p.role, p.address) for p in made.parties] == [
        ("bank", "active", "127.0.0.1:7400-7403"),
        ("shop", "passive", ""),
    ]
    assert made.expires == "2026-01-05T03:04:05.000678Z"
    assert dict(made.parameters)["minimum_overlap"] == made.minimum_overlap == 20
    assert made.manifest == catalog.CATALOG[made.computation].manifest(
        made.parameters, {"active": 60, "passive": 60}
    )
    assert made.code_digest == catalog.code_digest()


def test_columns_may_be_chosen() -> None:
    one = PlanParty(name="shop", role="passive", block="customers", columns=("town",))
    assert _build(parties=(plan().parties[0], one)).blocks[1].columns == ("town",)


BANK = PlanParty(name="bank", role="active", block="customers")


@pytest.mark.parametrize(
    ("changes", "error", "told"),
    [
        ({"computation": "vertical.magic"}, RequestError, "'vertical.magic' is not in the catalog"),
        ({"parties": (BANK,)}, RequestError, "the plan has active"),
        ({"parties": (BANK, BANK)}, RequestError, "the plan has active, active"),
        (
            {"parties": (BANK, PlanParty(name="sho", role="passive", block="customers"))},
            RequestError,
            "party 'sho': no datasite of that name; known: bank, shop",
        ),
        (
            {"parties": (BANK, PlanParty(name="shop", role="passive", block="x"))},
            RequestError,
            "shop publishes no block 'x'",
        ),
        (
            {
                "parties": (
                    BANK,
                    PlanParty(name="shop", role="passive", block="customers", columns=("x", "town")),
                )
            },
            RequestError,
            "shop/customers has no column x",
        ),
        ({"parameters": {"steeps": 3}}, ConfigError, "unknown parameters: steeps"),
        ({"parameters": {"steps": "many"}}, ConfigError, "steps"),
        ({"parameters": {"steps": [1]}}, ConfigError, "steps"),
        ({"parameters": {"minimum_overlap": 3}}, ConfigError, "minimum_overlap belongs beside"),
        ({"minimum_overlap": 31}, ConfigError, "minimum_overlap 31"),
    ],
)
def test_what_a_plan_cannot_ask_for_is_named(
    changes: dict[str, object], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        _build(**changes)


def test_keys_that_cannot_match_are_refused_before_anybody_is_asked() -> None:
    with pytest.raises(SubjectKeyError, match="different key rules"):
        build_request(plan(), offers(bank="digits:8"), ANA, now=NOW, nonce="1" * 32)


def test_more_common_people_than_a_block_has_are_refused_before_anybody_is_asked() -> None:
    wide = PARAMETERS | {"max_common": 90, "max_aligned_train": 80}
    with pytest.raises(RequestError, match="at most 60 people, the plan wants 61 common ones"):
        _build(minimum_overlap=61, parameters=wide)


def test_the_request_says_what_the_blocks_say_of_their_keys() -> None:
    made = _build()
    for entry, offer in zip(made.blocks, offers().values(), strict=True):
        schema = offer.blocks["customers"].schema
        check_entry(entry, schema)
        assert (entry.key_rule, entry.duplicates) == ("text@1", "error")
        assert "unknown" in entry.key_missing
    page = review_text(made)
    assert "at most 60 people can be common; a party that has no other people than common ones" in page


def test_a_request_may_leave_a_label_unread_but_not_name_another_one() -> None:
    entry, schema = _build().blocks[0], offers()["bank"].blocks["customers"].schema
    check_entry(replace(entry, label=""), schema)
    with pytest.raises(BlockError, match="the request says label 'income', the block has 'churned'"):
        check_entry(replace(entry, label="income"), schema)


def test_a_datasite_must_show_its_own_card_and_a_block() -> None:
    assert read_offer("bank", (publication("bank"),)).publication("customers").schema.version == 1
    with pytest.raises(RequestError, match="the datasite of shop shows the card of bank"):
        read_offer("shop", (publication("bank"),))
    with pytest.raises(RequestError, match="publishes no block"):
        read_offer("bank", ())


def _file(folder: Path, text: str | bytes) -> Path:
    (folder / "plan.toml").write_bytes(text.encode() if isinstance(text, str) else text)
    return folder / "plan.toml"


def test_a_plan_is_read(tmp_path: Path) -> None:
    read = read_plan(_file(tmp_path, PLAN))
    assert [party.name for party in read.parties] == ["bank", "shop"]
    assert read.parameters == PARAMETERS
    assert (read.minimum_group, read.minimum_overlap, read.runs, read.days) == (10, 20, 1, 7)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('purpose = "churn"', "", "purpose is missing"),
        ('computation = "vertical.fedcvt.train"', "", "computation is missing"),
        ('purpose = "churn"', 'purpose = "churn"\nporpoise = 1', "unknown field 'porpoise'"),
        ("minimum_overlap = 20", 'minimum_overlap = "20"', "minimum_overlap must be int, got str"),
        ("minimum_overlap = 20", "minimum_overlap = true", "minimum_overlap must be int, got bool"),
        ('role = "active"', "", "parties.bank.role is missing"),
        ('role = "active"', 'role = "active"\ncolumns = [1]', "parties.bank.columns must be a list"),
        ('role = "active"', 'role = "active"\ncolumns = "a"', "parties.bank: columns must be list"),
        ("[parties.shop]", "[parties]\nshop = 1\n[other]", "unknown|must be a table|not TOML"),
        ("[parameters]", "[parameters", "is not TOML"),
    ],
)
def test_a_wrong_field_is_named_with_its_place(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert old in PLAN
    with pytest.raises(ConfigError, match=told) as caught:
        read_plan(_file(tmp_path, PLAN.replace(old, new, 1)))
    assert "plan.toml" in str(caught.value)


@pytest.mark.parametrize("content", ["", "purpose = 'x'", b"\xff\xfe"])
def test_what_is_no_plan_is_refused(tmp_path: Path, content: str | bytes) -> None:
    with pytest.raises(ConfigError, match=r"plan\.toml"):
        read_plan(_file(tmp_path, content))


def test_a_missing_plan_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_plan(tmp_path / "plan.toml")
    with pytest.raises(ConfigError, match="Is a directory"):
        read_plan(tmp_path)


@pytest.mark.parametrize("days", [0, -1, 367, 10**12])
def test_days_outside_their_bounds_are_refused(tmp_path: Path, days: int) -> None:
    with pytest.raises(ConfigError, match="days must be between 1 and 366"):
        read_plan(_file(tmp_path, f"days = {days}\n{PLAN}"))


def test_what_may_be_empty_in_a_plan() -> None:
    made = _build(
        purpose_text="",
        parameters={**PARAMETERS, "max_aligned_test": 0},
        parties=(BANK, PlanParty(name="shop", role="passive", block="customers", columns=())),
    )
    assert made.blocks[1].columns == ("amount", "town")
    assert dict(made.parameters)["max_aligned_test"] == 0


def test_every_field_has_an_example() -> None:
    assert {*plan_module._FIELDS, *plan_module._PARTY_FIELDS} == set(plan_module._EXAMPLES)


@pytest.mark.parametrize(
    ("change", "told", "example"),
    [
        (('purpose = "churn"', "purpose = 3"), "purpose must be str, got int", 'such as purpose = "churn"'),
        (('purpose = "churn"', ""), "purpose is missing", 'such as purpose = "churn"'),
        (('role = "passive"', ""), "parties.shop.role is missing", 'such as role = "active"'),
        (('block = "visitors"', 'block = "visitors"\ncolumns = "town"'), "columns", '["age", "town"]'),
    ],
)
def test_a_wrong_field_comes_with_an_example(
    change: tuple[str, str], told: str, example: str, tmp_path: Path
) -> None:
    (tmp_path / "plan.toml").write_text(PLAN.replace(*change))
    with pytest.raises(ConfigError, match=told) as caught:
        read_plan(tmp_path / "plan.toml")
    assert example in caught.value.remedy
