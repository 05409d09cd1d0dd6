"""Which organisation may have which role: refused when a request comes in, and again before a run."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from parties import catalog
from protocols.errors import RequestError
from protocols.request import ComputationRequest, PartyEntry
from tests.parties.control.offices import CALLER, EMAIL, Offices, make_offices, running


def star(offices: Offices, *, secure: bool) -> dict[str, object]:
    """What makes a horizontal request of the offices' own: the shop aggregates, the bank is a client."""
    cards = (("aggregator", offices.shop.card()), ("client-1", offices.bank.card()))
    entries = tuple(
        PartyEntry(
            name=card.name,
            role=role,
            signing_key=card.signing_key,
            link_certificate=card.link_certificate,
            address=card.address,
        )
        for role, card in cards
    )
    return {
        "parties": entries,
        "blocks": (),
        "computation": "horizontal.train",
        "parameters": (("secure_aggregation", secure),),
    }


@pytest.mark.parametrize(
    ("analysts", "secure", "error"),
    [
        ("Example Shop", False, "request"),
        (" example  SHOP".strip(), False, "request"),
        ("Example Shop", True, ""),
        ("Example Lab", False, ""),
    ],
)
def test_an_aggregator_at_the_analysts_organisation_needs_secure_aggregation(
    tmp_path: Path, analysts: str, secure: bool, error: str
) -> None:
    offices = make_offices(tmp_path, analysts)
    with running(offices, check_seats=catalog.check_seats):
        request = offices.request(**star(offices, secure=secure))
        answer = offices.ask("ingest", signed=offices.signed(request), caller=CALLER, email=EMAIL)
    assert answer.get("error", "") == error, answer
    if error:
        assert "the aggregator would be of the analyst's organisation" in str(answer)


def test_it_is_looked_at_again_before_a_run(tmp_path: Path) -> None:
    offices = make_offices(tmp_path)
    seen: list[Mapping[str, str]] = []

    def check(request: ComputationRequest, organisations: Mapping[str, str]) -> None:
        seen.append(organisations)
        if len(seen) > 1:
            raise RequestError("not in this seat any more")

    with running(offices, check_seats=check):
        request = offices.approved()
        answer = offices.start(request)
    assert answer["error"] == "request"
    assert seen == [{"bank": "Example Bank", "shop": "Example Shop"}] * 2
