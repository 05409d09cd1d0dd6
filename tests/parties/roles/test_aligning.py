"""An alignment for an analyst: what is asked for, how long it waits, and what is said of the number."""

import pytest

from parties.catalog import alignment
from parties.roles.aligning import Wish, await_approvals, result_text
from parties.roles.plan import PlanParty, build_request
from protocols.errors import ConfigError, DatasiteError, NotApprovedError, RequestError
from protocols.records import parse_utc
from protocols.request import AnalystEntry
from tests.parties.roles.published import offers
from tests.parties.roles.samples import sample_request, sites, state

REQUEST = sample_request()
PENDING = {"ok": False, "error": "not_approved", "standing": "pending"}


def wish(**changes: object) -> Wish:
    values: dict[str, object] = {
        "blocks": ("bank/customers", "shop/customers"),
        "full": False,
        "purpose": "feasibility check",
        "purpose_text": "",
        "minimum_group": 10,
        "minimum_overlap": 80,
        "bucket": 0,
        "max_common": None,
        "days": 7,
    }
    return Wish(**(values | changes))  # type: ignore[arg-type]


def test_a_wish_is_a_plan_over_two_blocks() -> None:
    plan = wish(bucket=100).plan()
    assert plan.computation == alignment.SIZE.name
    assert plan.parties == (
        PlanParty(name="bank", role="active", block="customers"),
        PlanParty(name="shop", role="passive", block="customers"),
    )
    assert plan.parameters == {"size_bucket": 100}
    full = wish(full=True, max_common=40).plan()
    assert full.computation == alignment.PAIRS.name
    assert full.parameters == {"size_bucket": 0, "max_common": 40}


def test_a_size_may_be_asked_of_blocks_with_fewer_people_than_a_training_needs() -> None:
    analyst = AnalystEntry(name="ana", organisation="Lab", key="a" * 64)
    now = parse_utc("2026-01-02T00:00:00Z", "now", ConfigError)
    request = build_request(wish().plan(), offers(), analyst, now=now, nonce="1" * 32)
    assert request.minimum_overlap == 80 > max(request.rows.values())


def _asked(**changes: object) -> None:
    analyst = AnalystEntry(name="ana", organisation="Lab", key="a" * 64)
    now = parse_utc("2026-01-02T00:00:00Z", "now", ConfigError)
    build_request(wish(**changes).plan(), offers(), analyst, now=now, nonce="1" * 32)


def test_a_size_that_could_never_be_told_is_not_asked_for() -> None:
    """Both blocks have at most 60 people: a set filled up to 1000 could hold a single one."""
    with pytest.raises(
        RequestError, match=r"size_bucket 1000 would hide every number .* 60 \(active\)"
    ) as told:
        _asked(bucket=1000)
    assert "--bucket 41 or less" in told.value.remedy
    _asked(bucket=41)
    with pytest.raises(RequestError, match="smallest group of 31 no number of common people could be told"):
        _asked(minimum_group=31)
    _asked(minimum_group=30)
    _asked(
        bucket=1000, full=True, minimum_overlap=20
    )  # a pairing pairs people even where their number is hidden


@pytest.mark.parametrize("block", ["bank", "/customers", "bank/", ""])
def test_a_block_is_named_with_its_party(block: str) -> None:
    with pytest.raises(ConfigError, match="expected PARTY/BLOCK"):
        wish(blocks=(block, "shop/customers")).plan()


def test_a_bound_on_pairs_is_refused_for_a_size() -> None:
    with pytest.raises(ConfigError, match="a size pairs nobody"):
        wish(max_common=40).plan()


class Watched:
    """A clock that moves with each pause, and what was told meanwhile."""

    def __init__(self) -> None:
        self.at = 0.0
        self.pauses: list[float] = []
        self.told: list[str] = []

    def wait(self, both: object, seconds: float) -> None:
        def sleep(pause: float) -> None:
            self.pauses.append(pause)
            self.at += pause

        await_approvals(
            REQUEST,
            both,  # type: ignore[arg-type]
            self.told.append,
            until=seconds,
            sleep=sleep,
            now=lambda: self.at,
        )


def _after(looks: int, then: dict[str, object]) -> object:
    left = [PENDING] * looks + [then]
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def test_it_waits_for_both_approvals_and_asks_more_and_more_seldom() -> None:
    both = sites(
        bank={"status": _after(9, state("APPROVED"))},  # type: ignore[dict-item]
        shop={"status": _after(2, state("APPROVED"))},  # type: ignore[dict-item]
    )
    watched = Watched()
    watched.wait(both, 1e6)
    assert watched.told == ["waiting for the approval of bank and shop", "waiting for the approval of bank"]
    assert watched.pauses == sorted(watched.pauses)
    assert watched.pauses[0] < 2 < watched.pauses[-1] <= 30


def test_a_datasite_that_cannot_be_asked_for_a_moment_is_asked_again() -> None:
    looks = 0

    def status() -> dict[str, object]:
        nonlocal looks
        looks += 1
        if looks == 2:
            raise DatasiteError("shop: gone for a moment")
        return state("APPROVED") if looks > 2 else PENDING

    watched = Watched()
    watched.wait(sites(bank={"status": state("APPROVED")}, shop={"status": status}), 1e6)
    assert looks == 3
    assert "shop (shop: gone for a moment" in watched.told[1]


def test_it_ends_with_what_to_do_when_the_time_is_over() -> None:
    both = sites(bank={"status": state("APPROVED")}, shop={"status": PENDING})
    with pytest.raises(NotApprovedError, match="waits for the approval of shop") as caught:
        Watched().wait(both, 100.0)
    assert "fedaccord request start" in caught.value.remedy


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (PENDING | {"standing": "denied", "reason": "no"}, "shop: denied: no"),
        ({"ok": False, "error": "internal"}, "shop: refused: an internal error"),
    ],
)
def test_it_does_not_wait_for_what_will_not_come(answer: dict[str, object], said: str) -> None:
    watched = Watched()
    with pytest.raises(NotApprovedError, match=said):
        watched.wait(sites(bank={"status": PENDING}, shop={"status": answer}), 100.0)
    assert watched.pauses == []


def test_the_number_is_told_as_each_party_released_it() -> None:
    results = {
        "bank": {"report": {"common": {"people": 1230, "settings": {}}}},
        "shop": {"report": {"common": {"suppressed": "<10", "reason": "fewer than 10 people"}}},
        "odd": ["no", "report"],
    }
    document, text = result_text("d" * 64, results)
    assert text.splitlines()[:3] == [
        "bank: common people 1230",
        "shop: common people <10: fewer than 10 people",
        "odd: common people None: None",
    ]
    assert document["digest"] == "d" * 64
