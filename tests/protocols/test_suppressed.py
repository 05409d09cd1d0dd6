"""How many places of a report are suppressed, for the log."""

import pytest

from protocols.audit_entry import DETAIL_ITEMS
from protocols.disclosure import Hidden, overlap_report, releasable
from protocols.suppressed import REASONS, suppressions


def test_every_suppressed_place_counts_under_its_reason_and_no_number_is_told() -> None:
    report = {
        "people": 3,  # 1: fewer than 10
        "score": {"people": 100, "value": 0.5},
        "auc": {"people": 9, "value": 0.987654},  # 2: the people, and the value that stands on them
        "classes of": {
            "people": 40,
            "classes": {"ill": 4, "well": 36},
        },  # 2: the small one, and its complement
        "unknown": {"value": 0.1},  # 1: of the 3 people above
    }
    released = releasable(report, 10)
    found = suppressions(released)
    assert found == {
        "fewer than 10 people": 3,
        "stands on fewer than 10 people": 2,
        "the total would tell the size of a class below the limit": 1,
    }
    assert suppressions(releasable({"people": 100, "value": 0.5}, 10)) == {}


@pytest.mark.parametrize(
    ("why", "reason"),
    [
        (Hidden.SMALL, "fewer than 10 people"),
        (Hidden.COMPLEMENT, "of one of the sets perhaps fewer than 10 people are not common"),
    ],
)
def test_a_hidden_overlap_counts_whoever_hid_it(why: Hidden, reason: str) -> None:
    report = {"common people": overlap_report(0, why, 10)}
    assert suppressions(releasable(report, 10)) == {reason[:60].strip(): 1}
    assert suppressions(releasable({"common people": overlap_report(40, Hidden.NOT, 10)}, 10)) == {}


def test_many_and_strange_reasons_still_make_an_entry() -> None:
    report = {str(i): {"suppressed": "x", "reason": f"reason {i}"} for i in range(200)}
    found = suppressions({**report, "list": [{"suppressed": "x", "reason": "\u202e\nodd\x00" + "y" * 500}]})
    assert sum(found.values()) == 201
    assert len(found) == REASONS + 1 < DETAIL_ITEMS
    (odd,) = suppressions({"a": {"suppressed": "x", "reason": "\u202e\nodd\x00" + "y" * 500}})
    assert odd.startswith("odd y")
    assert len(odd) == 60
    assert suppressions({"a": {"suppressed": "x", "reason": "\n"}}) == {"none given": 1}
