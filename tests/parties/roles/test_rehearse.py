"""The rehearsal of a request on mocks: it fills the manifest, and refuses one that is too wide or too narrow."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parties import catalog
from parties.roles.plan import build_request
from parties.roles.rehearse import LEAST_FILL, rehearse
from parties.roles.requesting import MOCK, offers_text, rehearsal_text
from protocols.errors import GateError, RequestError
from protocols.program import Progress
from protocols.request import AnalystEntry, ComputationRequest
from tests.parties.roles.published import PARAMETERS, offers, plan

ANA = AnalystEntry(name="ana", organisation="Lab", key="a" * 64)
OFFERS = offers()


def _request(**parameters: object) -> ComputationRequest:
    asked = plan(parameters=PARAMETERS | parameters)
    return build_request(asked, OFFERS, ANA, now=datetime(2026, 1, 2, tzinfo=UTC), nonce="1" * 32)


def test_a_rehearsal_fills_every_line_of_the_manifest() -> None:
    request, told = _request(early_stopping=False), []  # else fewer steps than allowed may be taken
    done = rehearse(request, OFFERS, told.append)
    lines = {f"{r.kind} {r.sender} -> {r.receiver}" for r in request.manifest}
    assert set(done.fill) == lines
    assert all(LEAST_FILL <= share <= 1 for share in done.fill.values())
    assert done.messages == sum(r.repetitions for r in request.manifest)
    assert {p.phase for p in told if isinstance(p, Progress)} >= {"align", "fedcvt"}
    document, text = rehearsal_text(request, done)
    assert text.startswith(MOCK)
    assert document["mock"] is True


@pytest.mark.parametrize("bucket", [0, 25])
@pytest.mark.parametrize("name", [catalog.ALIGN_SIZE, catalog.ALIGN_PAIRS])
def test_an_alignment_is_rehearsed_without_columns_and_fills_its_manifest(name: str, bucket: int) -> None:
    asked = plan(computation=name, parameters={"size_bucket": bucket})
    request = build_request(asked, OFFERS, ANA, now=datetime(2026, 1, 2, tzinfo=UTC), nonce="1" * 32)
    assert [(block.columns, block.label) for block in request.blocks] == [((), ""), ((), "")]
    done = rehearse(request, OFFERS, lambda p: None)
    assert all(LEAST_FILL <= share <= 1 for share in done.fill.values())
    # of 60 mock people 30 are common in the one; in the other all 60 are, which the rules hide
    shown = {"people": 30, "settings": {"rounded_down_to_a_multiple_of": 10}}
    hidden = {
        "suppressed": "complement",
        "reason": "of one of the sets perhaps fewer than 10 people are not common",
    }
    expected = {"common": shown if name == catalog.ALIGN_SIZE else hidden}
    assert done.reports == {role: {"mock": True, **expected} for role in ("active", "passive")}
    bytes_of_points = {r.max_bytes for r in request.manifest if r.kind == "PsiRequest"}
    assert len(bytes_of_points) == 1
    assert (60 if not bucket else 75) * 33 < bytes_of_points.pop() < (60 if not bucket else 75) * 33 + 120


def test_a_rehearsal_gives_the_same_numbers_again_and_says_so_of_another_seed() -> None:
    request = _request()
    first, again = (rehearse(request, OFFERS, lambda p: None) for _ in range(2))
    assert first == again
    assert rehearse(request, OFFERS, lambda p: None, seed=1).reports != first.reports


def test_bounds_wider_than_the_blocks_allow_are_named() -> None:
    with pytest.raises(
        RequestError,
        match=r"wider than .* needs between blocks of at most 60 .* and 60 .*: AloneViews .* 19%",
    ) as caught:
        rehearse(_request(max_common=60, max_aligned_train=60), OFFERS, lambda p: None)
    assert "leave max_common" in caught.value.remedy
    assert '"A plan of your own"' in caught.value.remedy
    assert "## A plan of your own" in (catalog.ROOT / "README.md").read_text(encoding="utf-8")


def test_a_plan_that_gives_no_bounds_is_rehearsed_with_those_that_the_blocks_allow() -> None:
    """All 60 may be common or 30 alone: not with the same people, so it takes two rehearsals to reach both."""
    small = {name: value for name, value in PARAMETERS.items() if not name.startswith("max_")}
    asked = plan(parameters=small | {"early_stopping": False})
    request = build_request(asked, OFFERS, ANA, now=datetime(2026, 1, 2, tzinfo=UTC), nonce="1" * 32)
    assert {name: value for name, value in request.parameters if name.startswith("max_")} == {
        "max_common": 60,
        "max_aligned_train": 30,
        "max_aligned_test": 30,
        "max_passive_only": 30,
    }
    told: list[Progress] = []
    done = rehearse(request, OFFERS, told.append)
    assert all(share >= LEAST_FILL for share in done.fill.values())
    assert {progress.phase.split(": ")[0] for progress in told} == {"1 of 2", "2 of 2"}


@given(
    active=st.integers(1, 40_000),
    passive=st.integers(1, 40_000),
    least=st.integers(1, 300),
    given_bounds=st.dictionaries(
        st.sampled_from(catalog.CATALOG[catalog.DEFAULT].row_bounds), st.integers(1, 20_000)
    ),
)
def test_bounds_that_are_left_out_can_be_reached(
    active: int, passive: int, least: int, given_bounds: dict[str, int]
) -> None:
    train, rows = catalog.CATALOG[catalog.DEFAULT], {"active": active, "passive": passive}
    least = min(least, active, passive)
    bounds = dict(train.bounds(given_bounds, rows, least))
    assert bounds["max_common"] <= min(active, passive)
    if not given_bounds:
        parameters = train.parameters(bounds, least)
        cases = train.mock_people(parameters, rows, least)
        assert (cases[0].common, cases[0].train) == (bounds["max_common"], bounds["max_aligned_train"])
        assert cases[0].test == bounds["max_aligned_test"]
        assert all(
            case.train == bounds["max_aligned_train"] for case in cases
        )  # with the memory's other half
        assert max(passive - case.common for case in cases) >= bounds["max_passive_only"]


def test_a_manifest_that_is_too_narrow_is_refused() -> None:
    request = _request()
    narrow = tuple(replace(release, max_bytes=release.max_bytes // 2) for release in request.manifest)
    with pytest.raises(GateError):
        rehearse(replace(request, manifest=narrow), OFFERS, lambda p: None)
    with pytest.raises(GateError):
        rehearse(replace(request, manifest=request.manifest[:-1]), OFFERS, lambda p: None)


def test_offers_are_shown_with_mock_rows() -> None:
    document, text = offers_text(OFFERS)
    assert "bank: block customers version 1, 60 rows (rounded up)" in text
    assert text.count("MOCK rows (nobody's)") == 2
    assert document["bank/customers"] == {
        "version": 1,
        "rows": 60,
        "columns": ["amount", "town"],
        "label": "churned",
        "subject_key": "person",
        "key_rule": "text@1",
    }
