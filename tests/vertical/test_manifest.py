"""The manifest is an upper bound of every run, and tight for the largest one."""

from dataclasses import replace

import pytest

from protocols.chunks import chunk_length, chunks
from protocols.errors import GateError
from protocols.gate import Trace
from tests.vertical.runs import SMALL, run, two_parties
from vertical.manifest import manifest
from vertical.messages import KINDS

EXACT = replace(
    SMALL,
    baselines=True,
    candidates="linear,given",
    folds=2,
    linear_views=6,
    max_aligned_train=40,
    max_aligned_test=12,
    max_common=52,
    max_passive_only=26,
)


def trace_of(config, **sizes) -> Trace:
    trace = Trace()
    run(*two_parties(**sizes), config, observe=trace.observe)
    return trace


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"baselines": False, "final_vote": False},
        {"aligned_batch": 512, "alone_batch": 512, "memory_pool": 512},
        {"evaluation_batch": 1},
        {"evaluation_batch": 25},
        {"memory_every": 1, "steps": 12},
        {"memory_every": 50},
        {"alone_batch": 0, "memory_pool": 0},
        {"unique_active": 9, "unique_passive": 5},
        {"size_bucket": 1000},
        {"d": 11, "steps": 101, "baseline_steps": 11},
    ],
    ids=str,
)
def test_a_run_with_the_largest_overlap_fills_every_bound(changes):
    config = replace(EXACT, **changes)
    releases = manifest(config, 82, 78)
    trace = trace_of(config)
    trace.fits(releases)
    fill = trace.fill(releases)
    assert {line.key for line in trace.lines} == set(fill)
    assert min(fill.values()) >= 0.9, fill


@pytest.mark.parametrize(
    "sizes",
    [
        {"aligned": 2, "test": 0, "passive_only": 0, "active_only": 0},
        {"aligned": 1, "test": 1, "passive_only": 76, "active_only": 1},
        {"aligned": 20, "test": 32, "passive_only": 26, "active_only": 30},
        {"aligned": 52, "test": 0, "passive_only": 26, "active_only": 2},
        {"aligned": 39, "test": 11, "passive_only": 25, "active_only": 29},
    ],
    ids=str,
)
def test_every_smaller_run_fits(sizes):
    trace, releases = trace_of(EXACT, **sizes), manifest(EXACT, 82, 78)
    trace.fits(releases)
    assert 0 < max(trace.fill(releases).values()) <= 1


def test_rounded_up_row_counts_stay_tight():
    releases = manifest(EXACT, 82 + 5, 78 + 5)
    trace = trace_of(EXACT)
    trace.fits(releases)
    assert min(trace.fill(releases).values()) >= 0.9


def test_a_longer_training_than_approved_does_not_fit():
    releases = manifest(EXACT, 82, 78)
    for change in ({"steps": 8}, {"d": 4}, {"alone_batch": 11}, {"memory_every": 2}, {"baseline_steps": 5}):
        with pytest.raises(GateError):
            trace_of(replace(EXACT, **change)).fits(releases)


def test_every_release_says_what_is_learned_and_every_kind_is_decodable():
    releases = manifest(EXACT, 82, 78)
    assert {release.kind for release in releases} == {kind.__name__ for kind in KINDS}
    assert all(release.learns for release in releases)
    assert {(release.sender, release.receiver) for release in releases} == {
        ("active", "passive"),
        ("passive", "active"),
    }


def test_no_test_people_need_no_release():
    kinds = {release.kind for release in manifest(replace(EXACT, max_aligned_test=0), 82, 78)}
    assert not {"TestViews", "BaselineTestViews"} & kinds


@pytest.mark.parametrize(
    ("size", "bound", "batch", "lengths"),
    [
        (0, 10, 4, []),
        (10, 10, 4, [4, 4, 2]),
        (9, 9, 4, [3, 3, 3]),  # 3 messages either way, so of equal length
        (5, 9, 4, [3, 2]),
        (1025, 1025, 1024, [513, 512]),
        (3, 3, 100, [3]),
        (3, 0, 5, [1, 1, 1]),
    ],
)
def test_parts_are_of_equal_length(size, bound, batch, lengths):
    parts = chunks(size, bound, batch)
    assert [part.stop - part.start for part in parts] == lengths
    assert [part.start for part in parts] == [sum(lengths[:i]) for i in range(len(lengths))]
    assert chunk_length(bound, batch) >= 1
