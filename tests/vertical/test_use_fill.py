"""The fill as a computation of its own: whom it fills, with what, and what the analyst gets."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from protocols.disclosure import releasable
from tests.vertical.uses import keys_of, parties, trained, use
from vertical.encoders import Representation
from vertical.use_fill import fill_in_parts, match, quality
from vertical.views import Memory, fill_active, fill_passive


def test_views_are_filled_for_all_who_lack_one():
    active, passive = parties()
    left, right = use("fill", (active, passive))
    alone = set(active.keys) - set(passive.keys)
    assert set(keys_of(active, left.artifacts["rows.active_only"])) == alone
    assert len(right.artifacts["rows.passive_only"]) == 26
    part, other = trained()
    own = part.views(active.table.take(left.artifacts["rows.active_only"]))
    memory = part.memory
    expected = fill_passive(own, memory, temperature=1.0)
    np.testing.assert_allclose(left.artifacts["filled.passive.unique"], expected.unique, atol=1e-6)
    np.testing.assert_allclose(left.artifacts["filled.passive.common"], expected.common, atol=1e-6)
    shown = part.shown(other.show(passive.table.take(right.artifacts["rows.passive_only"])), "views")
    expected = fill_active(shown, memory, temperature=1.0)
    np.testing.assert_allclose(left.artifacts["filled.active.unique"], expected.unique, atol=1e-6)
    np.testing.assert_allclose(left.artifacts["filled.active.common"], expected.common, atol=1e-6)


def test_the_analyst_gets_numbers_of_people_and_the_quality_on_aligned_people():
    left, right = use("fill")
    report = releasable(left.report, 10)
    assert report["filled"] == {"active_only": {"people": 30}, "passive_only": {"people": 26}}
    assert report["quality"]["people"] == 40
    assert set(report["quality"]) == {"people", "passive_view", "active_view"}
    assert -1 <= report["quality"]["passive_view"]["unique"]["cosine"] <= 1
    assert report["quality"]["active_view"]["common"]["r2"] <= 1
    assert right.report == {"shown": {"people": 26}, "left_out": {"people": 0}}
    assert releasable(left.report, 41)["quality"]["passive_view"]["unique"]["r2"] == {
        "suppressed": "metric",
        "reason": "stands on fewer than 41 people",
    }


@pytest.mark.parametrize(("active_only", "passive_only"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_groups_of_nobody_and_of_one_person(active_only, passive_only):
    left, right = use("fill", parties(active_only=active_only, passive_only=passive_only))
    assert left.artifacts["filled.passive.unique"].shape == (active_only, 3)
    assert left.artifacts["filled.active.common"].shape == (passive_only, 3)
    assert len(right.artifacts["rows.passive_only"]) == passive_only


def test_match_by_hand():
    true = torch.tensor([[0.0, 2.0], [2.0, 0.0]])  # mean (1, 1), spread 1 + 1 + 1 + 1 = 4
    filled = torch.tensor([[0.0, 1.0], [1.0, 1.0]])  # off by 0 + 1 + 1 + 1 = 3; cosines 1 and 1 / sqrt 2
    found = match(filled, true)
    assert found["r2"] == pytest.approx(1 - 3 / 4)
    assert found["cosine"] == pytest.approx((1 + 2**-0.5) / 2)
    assert match(true, true) == {"cosine": pytest.approx(1.0), "r2": 1.0}
    assert match(true[:0], true[:0]) == {"cosine": None, "r2": None}
    assert match(true[:1], true[:1])["r2"] is None


def test_quality_hides_each_person_from_itself():
    # Two people, far apart, with the same representations at both parties: with itself in sight each would be filled
    # perfectly; hidden, each gets the other one's.
    far = torch.tensor([[9.0, 0.0], [0.0, 9.0]])
    place = torch.arange(2)
    memory = Memory(
        active_unique=far,
        passive_unique=far,
        active_common=far,
        passive_common=far,
        active_position=place,
        passive_position=place,
    )
    found = quality(memory, 1.0, 1)
    for view in ("passive_view", "active_view"):
        assert found[view]["unique"] == {"cosine": pytest.approx(0.0), "r2": pytest.approx(1 - 324 / 81)}


def test_parts_change_nothing():
    part = trained()[0]
    views = part.views(parties()[0].table)
    whole = fill_passive(views, part.memory, temperature=1.0)
    for batch in (1, 7, 1000):
        parts = fill_in_parts(fill_passive, views, part.memory, 1.0, batch)
        torch.testing.assert_close(parts.joined(), whole.joined())
    empty = fill_in_parts(fill_passive, views.take(slice(0, 0)), part.memory, 1.0, 5)
    assert isinstance(empty, Representation)
    assert empty.rows == 0
