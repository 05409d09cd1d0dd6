"""The manifests of fill, vote and predict are upper bounds, and tight for the largest run."""

from __future__ import annotations

import pytest

from protocols.errors import GateError
from protocols.gate import Trace
from tests.vertical.uses import USES, parties, settings, use
from vertical.use_manifest import fill_manifest, predict_manifest, vote_manifest
from vertical.use_messages import FILL_KINDS, PREDICT_KINDS, VOTE_KINDS

MANIFESTS = {
    "fill": (fill_manifest, FILL_KINDS),
    "vote": (vote_manifest, VOTE_KINDS),
    "predict": (predict_manifest, PREDICT_KINDS),
}
VARIANTS = [
    ("fill", {}),
    ("fill", {"evaluation_batch": 1}),
    ("vote", {}),
    ("vote", {"unlabelled": True}),
    ("predict", {}),
    ("predict", {"receiver": "passive"}),
    ("predict", {"receiver": "passive", "only_common": True}),
    ("predict", {"receiver": "passive", "evaluation_batch": 25}),
]


def lines(what, rows=(82, 78), **changes):
    make, _ = MANIFESTS[what]
    return make(settings(what, **changes), *rows)


def traced(what, data=None, **changes) -> Trace:
    trace = Trace()
    use(what, data, observe=trace.observe, **changes)
    return trace


@pytest.mark.parametrize(("what", "changes"), VARIANTS, ids=str)
def test_the_largest_run_fills_every_bound(what, changes):
    trace, releases = traced(what, **changes), lines(what, **changes)
    trace.fits(releases)
    fill = trace.fill(releases)
    assert {line.key for line in trace.lines} == set(fill)
    assert min(fill.values()) >= 0.9, fill


@pytest.mark.parametrize(("what", "changes"), VARIANTS, ids=str)
@pytest.mark.parametrize(
    "sizes",
    [
        {"aligned": 1, "test": 0, "passive_only": 0},
        {"aligned": 1, "test": 0, "passive_only": 1},
        {"aligned": 39, "test": 12, "passive_only": 25},
    ],
    ids=str,
)
def test_every_smaller_run_fits(what, changes, sizes):
    trace, releases = traced(what, parties(**sizes), **changes), lines(what, **changes)
    trace.fits(releases)
    assert 0 < max(trace.fill(releases).values()) <= 1


@pytest.mark.parametrize(
    ("what", "changes"), [("fill", {}), ("vote", {}), ("predict", {"receiver": "passive"})]
)
def test_a_larger_run_than_approved_does_not_fit(what, changes):
    trace = traced(what, **changes)
    for narrow in ({"d": 2}, {"max_common": 40}, {"max_passive_only": 20}):
        with pytest.raises(GateError):
            trace.fits(lines(what, **(changes | narrow)))


@pytest.mark.parametrize("what", sorted(USES))
def test_every_release_says_what_is_learned_and_is_decodable(what):
    everything = {"vote": {"unlabelled": True}, "predict": {"receiver": "passive"}, "fill": {}}[what]
    releases = lines(what, **everything)
    assert {release.kind for release in releases} == {kind.__name__ for kind in MANIFESTS[what][1]}
    assert all(release.learns for release in releases)
