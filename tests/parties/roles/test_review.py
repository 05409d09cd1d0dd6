"""What a reviewer reads, and the choice of one request by its first characters."""

from dataclasses import replace

import pytest

from parties.catalog.alignment import PAIRS, SIZE
from parties.roles.facts import Change, Fact, Group, Message, Note, Values, facts_text, section
from parties.roles.review import listing_text, readable_bytes, review_text
from parties.roles.reviewing import chosen, listing
from protocols.errors import RequestError
from protocols.request import digest
from tests.parties.roles.samples import sample_request

REQUEST = sample_request(purpose_text="Who leaves, and why, and when. " * 12 + "End.")


def test_the_page_holds_all_that_is_decided_on() -> None:
    text = review_text(REQUEST)
    for part in (
        digest(REQUEST),
        "ana, Lab",
        "vertical.test",
        "listens on 127.0.0.1:7400-7403",
        "columns income, age; label churned",
        "rows that share a key: none (refused); no key: blank, 999",
        "shop -> bank  Views: up to 4 messages of 300 B (aligned 30 x 2)",
        "in all from shop: up to 1.2 kB",
        "in all from bank: up to 0 B",
        "representations of aligned people",
        "runs 1; expires 2030-01-01T00:00:00Z",
        "each run may be taken up again up to 10 times",
        "d=2, steps=4",
        "nothing was approved before",
        "THREATS.md",
    ):
        assert part in text, part
    assert max(map(len, text.splitlines())) <= 120


def test_every_kind_of_fact_is_told_whole() -> None:
    contents = (
        Fact(name="analyst", text="ana"),
        Group(title="bank", items=("one", "two")),
        Message(
            sender="shop", receiver="bank", kind="Views", repetitions=4, size="300 B", shapes="aligned 30"
        ),
        Change(field="runs", old="1", new="2"),
        Values(pairs=(("d", "2"), ("steps", "4"))),
        Note(text="word " * 40 + "end"),
    )
    text = facts_text([section("First", contents[:3]), section("Second", contents[3:])])
    assert text.splitlines()[:10] == [
        "FIRST",
        "analyst      ana",
        "bank:",
        "    - one",
        "    - two",
        "shop -> bank  Views: up to 4 messages of 300 B (aligned 30)",
        "",
        "SECOND",
        "    runs: 1 -> 2",
        "d=2, steps=4",
    ]
    assert text.split()[-41:] == ["word"] * 40 + ["end"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"runs": 2}, "runs: 1 -> 2"),
        ({"nonce": "1" * 32, "expires": "2031-01-01T00:00:00Z"}, "none but expiry and nonce"),
        ({"parameters": (("d", 2),)}, "parameters[steps]: 4 -> (not there)"),
        ({"parameters": (("d", 2), ("l1", 0.5), ("steps", 4))}, "parameters[l1]: (not there) -> 0.5"),
        ({"manifest": (replace(REQUEST.manifest[0], repetitions=9),)}, ".repetitions: 4 -> 9"),
    ],
)
def test_differences_to_the_last_approved_request_stand_out(changes: dict[str, object], told: str) -> None:
    assert told in review_text(replace(REQUEST, **changes), REQUEST)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (3_200_000, "3.2 MB"), (7e12, "7000.0 GB")],
)
def test_bytes_for_people(count: float, text: str) -> None:
    assert readable_bytes(count) == text


ROW = {
    "digest": "abc" + "0" * 61,
    "state": "PENDING",
    "analyst": "ana",
    "computation": "vertical.test",
    "purpose": "churn",
    "used": 0,
    "allowed": 1,
    "expires": "2030-01-01T00:00:00Z",
    "missing": ["1 more owner must approve"],
}


def test_a_listing_shows_what_is_missing_and_warns_of_foreign_code() -> None:
    foreign = {
        "number": 1,
        "name": "steal",
        "email": "x@y",
        "reasons": "text differs from the shim's",
        "warnings": ["line 2: rows: head"],
    }
    lines = listing({"requests": [ROW], "foreign": [foreign]}).splitlines()
    assert lines[0].startswith("abc000000000  PENDING")
    assert lines[1].strip() == "missing: 1 more owner must approve"
    assert lines[2].startswith("FOREIGN CODE 1: steal from x@y: not approvable here")
    assert lines[3].strip() == "line 2: rows: head"
    assert listing_text([]) == "no requests"


def test_one_request_is_chosen_by_its_first_characters() -> None:
    known = ["aa" + "0" * 62, "ab" + "0" * 62]
    assert chosen(known, "AA", "bank") == known[0]
    for start, told in (
        ("a", "2 requests of bank begin"),
        ("c", "no request of bank begins"),
        ("", "no request"),
    ):
        with pytest.raises(RequestError, match=told) as caught:
            chosen(known, start, "bank")
        assert "aa0000000000" in caught.value.remedy
    with pytest.raises(RequestError) as caught:
        chosen([], "a", "bank")
    assert "none" in caught.value.remedy


def test_a_size_only_alignment_is_not_said_to_show_who_is_common() -> None:
    rows = {"active": 30, "passive": 40}
    sizes = replace(REQUEST, manifest=SIZE.manifest(SIZE.parameters({}, 20), rows))
    text = " ".join(review_text(sizes).split())
    assert "nobody learns who they are" in text
    assert f"not even that below {sizes.minimum_group}" in text
    assert "whole list" not in text
    assert "smallest overlap" not in text
    pairs = " ".join(
        review_text(replace(REQUEST, manifest=PAIRS.manifest(PAIRS.parameters({}, 20), rows))).split()
    )
    assert "shows its whole list to the other party" in pairs
    assert f"smallest overlap {REQUEST.minimum_overlap}" in pairs
