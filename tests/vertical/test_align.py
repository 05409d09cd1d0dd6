"""Alignment as a computation: its reports and artifacts, and what each rule makes of the same two sets."""

from dataclasses import replace

import numpy as np
import pytest

from protocols.disclosure import Hidden, coarse_overlap, releasable
from protocols.errors import ConfigError, OverlapError
from protocols.program import Outcome, simulate
from protocols.psi import PsiTerms
from protocols.seeds import injected
from tests.protocols.psi.sets import people
from vertical.align import (
    PAIRS_SETTINGS,
    SIZE_SETTINGS,
    align_terms,
    complete,
    most_told,
    pairs_program,
    size_program,
    useful_bucket,
)

SETS = {"active": tuple(people(60)), "passive": tuple(people(80, start=23))}  # 37 common


def outcomes(program, sets=SETS, **settings: object) -> dict[str, Outcome]:
    made = {
        role: program(role, keys, injected(1, role), PsiTerms(), **settings) for role, keys in sets.items()
    }
    return {role: out for role, out in simulate(made).items() if isinstance(out, Outcome)}


def test_a_size_is_released_rounded_and_leaves_nothing_at_a_party():
    for outcome in outcomes(size_program, group=10).values():
        assert outcome.artifacts == {}
        assert releasable(outcome.report, 10) == {
            "common": {"people": 30, "settings": {"rounded_down_to_a_multiple_of": 10}}
        }


def test_a_pairing_leaves_the_rows_at_both_and_releases_the_rounded_number():
    both = outcomes(pairs_program, group=10, least=20)
    rows = {role: outcome.artifacts["rows.common"] for role, outcome in both.items()}
    paired = zip(*([SETS[role][row] for row in rows[role]] for role in SETS), strict=True)
    assert len(rows["active"]) == 37
    assert all(one == other for one, other in paired)
    assert (
        both["active"].artifacts["alignment_tag"].tobytes()
        == both["passive"].artifacts["alignment_tag"].tobytes()
    )
    assert {len(outcome.artifacts["alignment_tag"]) for outcome in both.values()} == {64}
    shown = {"people": 30, "settings": {"rounded_down_to_a_multiple_of": 10}}
    assert [releasable(outcome.report, 10) for outcome in both.values()] == [{"common": shown}] * 2


@pytest.mark.parametrize("common", [0, 7, 9])
def test_a_small_overlap_is_a_bound_in_a_size_and_an_error_in_a_pairing(common):
    sets = {"active": tuple(people(40)), "passive": tuple(people(40, start=40 - common))}
    small = {"suppressed": "<10", "reason": "fewer than 10 people"}
    for outcome in outcomes(size_program, sets, group=10).values():
        assert releasable(outcome.report, 10) == {"common": small}
    with pytest.raises(OverlapError, match=f"overlap {common}: .* at least 10"):
        outcomes(pairs_program, sets, group=10, least=1)
    with pytest.raises(OverlapError, match="at least 20"):
        outcomes(pairs_program, group=10, sets=sets, least=20)


def test_one_side_inside_the_other_is_paired_and_its_number_hidden():
    sets = {"active": tuple(people(40)), "passive": tuple(people(400))}
    both = outcomes(pairs_program, sets, group=10, least=20)
    assert {len(outcome.artifacts["rows.common"]) for outcome in both.values()} == {40}
    for outcome in (*both.values(), *outcomes(size_program, sets, group=10).values()):
        assert releasable(outcome.report, 10)["common"]["suppressed"] == "complement"


def test_a_padded_pairing_is_the_plain_one():
    terms = PsiTerms(bucket=50)
    made = {
        role: pairs_program(role, keys, injected(1, role), terms, group=10, least=20)
        for role, keys in SETS.items()
    }
    padded, plain = simulate(made), outcomes(pairs_program, group=10, least=20)
    for role, outcome in plain.items():
        np.testing.assert_array_equal(padded[role].artifacts["rows.common"], outcome.artifacts["rows.common"])


@pytest.mark.parametrize("bucket", [0, 1, 7, 21, 22, 30, 41, 60, 100])
def test_the_largest_number_that_can_be_told_is_that_of_some_real_sets(bucket):
    """Of all sizes and overlaps within 60 and 40 people the largest number that the client tells, by trying them."""
    terms = PsiTerms(client_rows=60, server_rows=40, bucket=bucket)
    told = [
        size
        for client in range(61)
        for server in range(41)
        for common in range(min(client, server) + 1)
        for size, hidden in [coarse_overlap(common, (client, terms.least_rows(terms.padded(server))), 10)]
        if hidden is Hidden.NOT
    ]
    assert max(told, default=0) == max(0, most_told(terms, 10))
    useful = useful_bucket(terms, 10)
    assert (most_told(replace(terms, bucket=useful), 10) >= 10) is True


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"size_bucket": -1}, "size_bucket"),
        ({"size_bucket": True}, "size_bucket"),
        ({"max_common": 0}, "max_common"),
        ({"steps": 3}, "steps"),
    ],
)
def test_a_setting_that_is_wrong_or_unknown_is_named(given, named):
    with pytest.raises(ConfigError, match=named):
        complete(PAIRS_SETTINGS, given)


def test_settings_are_completed_and_become_terms_with_the_published_rows():
    assert complete(SIZE_SETTINGS, {}) == (("size_bucket", 0),)
    parameters = complete(PAIRS_SETTINGS, {"max_common": 50, "size_bucket": 100})
    assert parameters == (("max_common", 50), ("size_bucket", 100))
    terms = align_terms(parameters, {"active": 70, "passive": 900})
    assert terms == PsiTerms(client_rows=70, server_rows=900, bucket=100, most=50)
    with pytest.raises(ConfigError, match="max_common"):
        complete(SIZE_SETTINGS, {"max_common": 5})
