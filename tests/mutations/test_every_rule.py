"""Each rule stops its attempt, and without that rule the attempt passes: so it is the rule that stops it."""

import re
from pathlib import Path

import pytest

from parties.home.private_files import make_private_folder
from protocols.errors import FedaccordError
from tests.mutations import (
    approval_rules,
    difference_rules,
    disclosure_rules,
    gate_rules,
    link_rules,
    log_rules,
    row_rules,
    worker_rules,
)
from tests.mutations.rule import Place, Rule, Stopped, switched_off
from tests.parties.control.offices import Offices, make_offices

RULES = (
    *approval_rules.RULES,
    *link_rules.RULES,
    *worker_rules.RULES,
    *gate_rules.RULES,
    *log_rules.RULES,
    *disclosure_rules.RULES,
    *difference_rules.RULES,
    *row_rules.RULES,
)
EACH = pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.name) for rule in RULES])


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Offices:
    return make_offices(tmp_path_factory.mktemp("offices"))


@EACH
def test_a_rule_stops_the_attempt(rule: Rule, template: Offices, tmp_path: Path) -> None:
    with pytest.raises(rule.stopped) as stopped:
        rule.attempt(Place(folder=tmp_path, template=template))
    assert rule.saying in str(stopped.value)


@EACH
def test_the_attempt_passes_when_the_rule_is_switched_off(
    rule: Rule, template: Offices, tmp_path: Path
) -> None:
    with switched_off(*rule.off):
        rule.attempt(Place(folder=tmp_path, template=template))


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.name) for rule in RULES if len(rule.off) > 1])
def test_each_guard_of_a_rule_that_has_several_stops_the_attempt_alone(
    rule: Rule, template: Offices, tmp_path: Path
) -> None:
    for number, kept in enumerate(rule.off):
        place = Place(folder=make_private_folder(tmp_path / str(number)), template=template)
        with switched_off(*(cut for cut in rule.off if cut != kept)):
            assert stops(rule, place), f"{kept.guard!r} in {kept.function} stops nothing"


def stops(rule: Rule, place: Place) -> bool:
    """Whether the attempt is stopped, by whatever."""
    try:
        rule.attempt(place)
    except (FedaccordError, Stopped):
        return True
    return False


def test_the_document_lists_every_rule() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "review-rows.md").read_text(encoding="utf-8")
    listed = text.split("## Rules that are switched off in turn", 1)[1]
    assert re.findall(r"^- (.*)$", listed, flags=re.M) == [rule.name for rule in RULES]
