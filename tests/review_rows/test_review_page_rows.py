"""Rows R2, R5, R7, R14, R15, R17, R18, R25 of the review list: what a reviewer reads, from a real supervisor."""

import re
from pathlib import Path

import pytest

from parties.home.policy import Policy, policy_text
from parties.home.private_files import write_private
from parties.home.processing import OPEN, Processing
from parties.home.use_rules import Columns, UseRules
from parties.roles.impact import impact_text
from parties.roles.reviewing import page
from protocols.request import digest
from tests.parties.control.offices import Offices, running
from tests.parties.roles.samples import VIEWS

SAID = Processing(
    contact="dpo@bank.example.org",
    legal_basis="Art. 6(1)(f)",
    people="retail customers of age",
    data="account turnover",
    retention="two years",
    transfer="none",
    security="encrypted disks",
    necessity="the bank's own columns rank worse",
)


@pytest.fixture
def shown(offices: Offices) -> str:
    return _shown(offices, Policy(processing=SAID))


def _shown(offices: Offices, policy: Policy) -> str:
    write_private(offices.bank.folder / "policy.toml", policy_text(policy))
    with running(offices):
        request = offices.submitted(manifest=(VIEWS,), analyst_receives=("scores",), runs=3)
        return page(offices.bank, digest(request)).text()


@pytest.mark.parametrize("text", [
    "contact: dpo@bank.example.org", "Example Bank", "shop (passive)", "Art. 6(1)(f)", "retail customers of age",
    "account turnover", "customers version 1: income, churned (label)", "bank: representations of aligned people",
    "ana, Example Lab (analyst): scores", "transfer out of the region none", "two years", "encrypted disks", "a test",
])  # fmt: skip
def test_R2_each_field_of_Art_30_is_on_the_page(offices: Offices, shown: str, text: str) -> None:
    assert text in " ".join(shown.split())


def test_R2_what_the_controller_has_not_said_is_visibly_open(offices: Offices) -> None:
    flat = " ".join(_shown(offices, Policy()).split())
    for field in (
        "contact:",
        "legal basis",
        "c people",
        "data",
        "region",
        "retention of results",
        "measures",
    ):
        assert f"{field} {OPEN}" in flat, field


def test_R5_what_each_learns_is_shown_by_party(shown: str) -> None:
    learns = shown.split("WHAT EACH LEARNS")[1].split("\n\n")[0]
    assert "bank:" in learns
    assert "representations of aligned people" in learns
    assert "ana (analyst):" in learns


def test_R7_the_stricter_k_and_the_rules_in_force_are_shown(offices: Offices) -> None:
    rules = UseRules(purposes=("a test",), never_used=(Columns(block="customers", columns=("birth_date",)),))
    flat = " ".join(_shown(offices, Policy(minimum_group=25, uses=rules)).split())
    assert "group asked 10, at least 25" in flat
    assert "never used birth_date of customers" in flat
    assert "- minimum_group is 10, our policy asks for at least 25" in flat


def test_R14_the_page_shows_what_is_left(offices: Offices) -> None:
    with running(offices):
        request = offices.approved(runs=2)
        assert "2 of 2 left" in page(offices.bank, digest(request)).text()
        offices.start(request)
        offices.wait(request, "DONE", "APPROVED")
        text = page(offices.bank, digest(request)).text()
    assert "1 of 2 left" in text
    assert f"{request.expires} (UTC)" in text


def test_R15_the_page_says_what_revoking_does(shown: str) -> None:
    flat = " ".join(shown.split())
    for part in (
        "no new start",
        "a running run stops within a step",
        "the analyst is told",
        "can't be called back",
    ):
        assert part in flat


def test_R17_the_draft_has_the_four_parts_and_shows_what_is_open(offices: Offices, tmp_path: Path) -> None:
    for processing in (SAID, Processing()):
        policy = Policy(processing=processing)
        write_private(offices.bank.folder / "policy.toml", policy_text(policy))
        with running(offices):
            request = offices.submitted(
                manifest=(VIEWS,),
                analyst_receives=("scores",),
                purpose_text="<script> `x`",
                nonce=f"{len(processing.data):032x}",
            )
            draft = impact_text(offices.bank, request, policy, page(offices.bank, digest(request)))
        titles = re.findall(r"^## \d\. (\w+)", draft, re.MULTILINE)
        assert titles == ["Description", "Necessity", "Risks", "Measures"]
        assert "<script>" not in draft
        necessity = draft.split("## 2.")[1].split("## 3.")[0]
        assert (SAID.necessity in necessity) is (processing is SAID)
        assert (f"**{OPEN}**" in necessity) is (processing is not SAID)
        assert "**not tested**" in draft.split("## 3.")[1]
        assert f"Advice of the data protection officer: **{OPEN}**" in draft


def test_R18_nothing_is_called_anonymous(shown: str) -> None:
    assert "anonym" not in shown.lower()
    assert "personal data in every form" in " ".join(shown.split())
    texts = [
        path for path in Path("parties").rglob("*.py") if "anonym" in path.read_text(encoding="utf-8").lower()
    ]
    assert texts == []


def test_R25_times_have_their_zone(shown: str) -> None:
    times = re.findall(r"\d{4}-\d\d-\d\dT[0-9:.]+\S*", shown)
    assert times
    assert all(time.rstrip(";,)").endswith("Z") for time in times)
