"""Joint inference: three situations, to the party that asked and to nobody else."""

from __future__ import annotations

import json

import numpy as np
import pytest

from protocols.errors import ModelError
from tests.vertical.uses import CLASSES, keys_of, parties, trained, use
from vertical.model import ActivePart
from vertical.model_arrays import without_memory
from vertical.use_messages import EXPERTS
from vertical.use_predict import columns_of

NAMES = json.dumps(CLASSES)


def expected(active, passive, own, other):
    """Probabilities by the parts themselves, of the active party's rows `own`, the passive one's `other`, or both."""
    part, peer = trained()
    mine = None if own is None else part.known(active.table.take(own))
    shown = None if other is None else part.told(peer.show_all(passive.table.take(other)), "views")
    return part.predict(mine, shown).probabilities


def rows_at(data, keys):
    places = {key: row for row, key in enumerate(data.keys)}
    return np.array([places[key] for key in keys], np.int64)


def text(array):
    return json.loads(array.tobytes())


def test_the_active_party_gets_its_own_people_s_probabilities():
    active, passive = parties()
    left, right = use("predict", (active, passive))
    found = left.artifacts
    both, single = found["rows.both"], found["rows.active_only"]
    assert set(keys_of(active, both)) == set(active.keys) & set(passive.keys)
    assert set(keys_of(active, single)) == set(active.keys) - set(passive.keys)
    partner = rows_at(passive, keys_of(active, both))
    np.testing.assert_allclose(
        found["probabilities.both"], expected(active, passive, both, partner), atol=1e-6
    )
    np.testing.assert_allclose(
        found["probabilities.active_only"], expected(active, passive, single, None), atol=1e-6
    )
    weights = dict(zip(EXPERTS, found["weights.both"].tolist(), strict=True))
    assert sum(weights.values()) == pytest.approx(1.0)
    assert {name for name, weight in weights.items() if weight} == {
        "joint",
        "active_network",
        "aligned_only",
        "stack",
        "active_alone",
        "passive_alone",
    }
    assert text(found["experts"]) == list(EXPERTS)
    assert right.artifacts == {}
    assert right.report == {}


def test_the_passive_party_gets_its_own_people_s_probabilities():
    active, passive = parties()
    left, right = use("predict", (active, passive), receiver="passive", class_names=NAMES)
    found = right.artifacts
    both, single = found["rows.both"], found["rows.passive_only"]
    assert set(keys_of(passive, both)) == set(active.keys) & set(passive.keys)
    assert set(keys_of(passive, single)) == set(passive.keys) - set(active.keys)
    partner = rows_at(active, keys_of(passive, both))
    np.testing.assert_allclose(
        found["probabilities.both"], expected(active, passive, partner, both), atol=1e-6
    )
    np.testing.assert_allclose(
        found["probabilities.passive_only"], expected(active, passive, None, single), atol=1e-6
    )
    assert text(found["classes"]) == list(CLASSES)
    assert left.artifacts == {}


@pytest.mark.parametrize("receiver", ["active", "passive"])
def test_the_analyst_gets_numbers_of_people_only(receiver):
    left, right = use("predict", receiver=receiver)
    other = {"active": "active_only", "passive": "passive_only"}[receiver]
    people = {"active": 30, "passive": 26}[receiver]
    assert left.report == {"predicted": {"both": {"people": 52}, other: {"people": people}}}
    shown = {"shown": {"people": 26}, "left_out": {"people": 0}} if receiver == "passive" else {}
    assert right.report == shown


def test_only_what_the_receiver_needs_is_shown():
    def kinds(**changes):
        seen = set()
        use("predict", observe=lambda sender, to, message: seen.add(type(message).__name__), **changes)
        return {kind for kind in seen if not kind.startswith("Psi") and kind != "SameModel"}

    assert kinds() == {"CommonShown"}
    assert kinds(receiver="passive") == {"CommonShown", "AloneShown", "Probabilities", "ExpertWeights"}
    assert kinds(receiver="passive", only_common=True) == {"CommonShown", "Probabilities", "ExpertWeights"}


@pytest.mark.parametrize("receiver", ["active", "passive"])
def test_common_people_are_predicted_without_a_memory(receiver):
    whole, passive = trained()
    forgetful = ActivePart.unpack(without_memory(whole.pack()))
    with_memory = use("predict", receiver=receiver)
    without = use("predict", parts=(forgetful, passive), receiver=receiver, only_common=True)
    side = 0 if receiver == "active" else 1
    assert np.array_equal(
        with_memory[side].artifacts["probabilities.both"], without[side].artifacts["probabilities.both"]
    )
    assert not any("only" in name for name in without[side].artifacts)


@pytest.mark.parametrize("receiver", ["active", "passive"])
@pytest.mark.parametrize(
    "sizes",
    [
        {"aligned": 1, "test": 0, "active_only": 0, "passive_only": 0},
        {"aligned": 2, "test": 0, "active_only": 1, "passive_only": 1},
        {"aligned": 1, "test": 0, "active_only": 1, "passive_only": 0},
    ],
    ids=str,
)
def test_nobody_and_one_person(receiver, sizes):
    data = parties(**sizes)
    outcomes = use("predict", data, receiver=receiver)
    side = 0 if receiver == "active" else 1
    found = outcomes[side].artifacts
    common = sizes["aligned"]
    assert found["probabilities.both"].shape == (common, 3)
    alone = found[f"probabilities.{receiver}_only"]
    assert alone.shape == (data[side].table.rows - common, 3)
    np.testing.assert_allclose(alone.sum(axis=1), 1.0, atol=1e-6)


def test_batches_change_nothing():
    one, many = (use("predict", receiver="passive", evaluation_batch=size) for size in (1, 1000))
    for name, array in one[1].artifacts.items():
        np.testing.assert_allclose(array, many[1].artifacts[name], atol=1e-6)


def test_names_of_classes_that_are_not_the_model_s_are_refused():
    with pytest.raises(ModelError, match="class_names: the request says others"):
        use("predict", class_names='["a", "b", "c"]')


def test_own_rows_are_read_back_with_views_probabilities_and_weights():
    found = use("predict", receiver="passive", class_names=NAMES)[1].artifacts
    rows, columns = columns_of(found)
    both = len(found["rows.both"])
    assert rows == [*found["rows.both"].tolist(), *found["rows.passive_only"].tolist()]
    assert columns["active_view"] == ["real"] * both + ["filled"] * (len(rows) - both)
    assert columns["passive_view"] == ["real"] * len(rows)
    assert columns["situation"] == ["both"] * both + ["passive_only"] * (len(rows) - both)
    table = np.array([columns[f"p({name})"] for name in CLASSES]).T
    np.testing.assert_array_equal(table[:both], found["probabilities.both"])
    assert columns["prediction"] == [CLASSES[at] for at in table.argmax(axis=1)]
    assert {tuple(columns[f"weight({name})"]) for name in EXPERTS}
    assert columns_of(use("predict", receiver="passive")[0].artifacts) is None
