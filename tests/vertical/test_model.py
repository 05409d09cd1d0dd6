"""A party's part of a trained model: the same predictions after a restart, and none without what they need."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from protocols.errors import ModelError, ProtocolError
from protocols.program import Outcome
from protocols.wire import pack_arrays, unpack_arrays
from tests.vertical.runs import SMALL, run, two_parties
from vertical.ensemble import Known
from vertical.model import ActivePart, PassivePart
from vertical.model_arrays import MEMORY, without_memory
from vertical.predict import Situation
from vertical.table import PartyData
from vertical.use_fill import quality
from vertical.views import Memory


@pytest.fixture(scope="module")
def data() -> tuple[PartyData, PartyData]:
    return two_parties(classes=("low", "middle", "high"))


@pytest.fixture(scope="module")
def trained(data) -> tuple[Outcome, Outcome]:
    return run(*data, SMALL)


@pytest.mark.parametrize(
    "changes",
    [
        {"encoder": "mlp", "normalisation": "batch", "scaling": "quantile", "unique_passive": 5},
        {"encoder": "cnn", "normalisation": "batch", "image_active": "3x1", "channels": 2},
        {"encoder": "cnn", "normalisation": "layer", "image_passive": "1x2", "channels": 2},
    ],
    ids=["batch", "image", "passive image"],
)
def test_any_encoder_is_and_votes_the_same_after_a_restart(data, changes):
    outcomes = run(*data, replace(SMALL, **changes))
    active, passive = parts(outcomes)
    for part, outcome in zip((active, passive), outcomes, strict=True):
        assert all(np.array_equal(outcome.artifacts[name], array) for name, array in part.pack().items())
    people = data[1].table.take(outcomes[1].artifacts["rows.passive_only"])
    votes = active.predictor(filling=True).vote(None, active.shown(passive.show(people), "views"))
    assert votes.label.tolist() == outcomes[0].artifacts["pseudo_label"].tolist()
    assert votes.accepted.tolist() == outcomes[0].artifacts["pseudo_accepted"].tolist()


def parts(trained) -> tuple[ActivePart, PassivePart]:
    """Both parts as a new process reads them: from the bytes on the disk."""
    active, passive = (unpack_arrays(pack_arrays(outcome.artifacts)) for outcome in trained)
    return ActivePart.unpack(active), PassivePart.unpack(passive)


def views(data, active: ActivePart, passive: PassivePart) -> tuple[Known, Known]:
    """Views of the first five rows of each; who they are doesn't matter here."""
    rows = np.arange(5)
    shown = passive.show_all(data[1].table.take(rows))
    return active.known(data[0].table.take(rows)), active.told(shown, "views")


def test_a_part_packs_to_what_it_was_unpacked_from(trained):
    for part, outcome in zip(parts(trained), trained, strict=True):
        packed = part.pack()
        assert all(np.array_equal(outcome.artifacts[name], array) for name, array in packed.items())
    assert parts(trained)[0].classes == ("low", "middle", "high")
    assert parts(trained)[0].tag == parts(trained)[1].tag
    assert parts(trained)[0].config == SMALL


def test_probabilities_of_the_three_situations(trained, data):
    active, passive = parts(trained)
    own, other = views(data, active, passive)
    for a, p, situation in (
        (own, other, Situation.BOTH),
        (own, None, Situation.ACTIVE_ONLY),
        (None, other, Situation.PASSIVE_ONLY),
    ):
        made = active.predict(a, p)
        assert made.situation is situation
        assert made.probabilities.shape == (5, 3)
        np.testing.assert_allclose(made.probabilities.sum(axis=1), 1.0, atol=1e-6)
        assert sum(made.weights.values()) == 1.0


def test_one_row_is_predicted_as_among_others(trained, data):
    active, passive = parts(trained)
    own, other = views(data, active, passive)
    together = active.predict(own, None).probabilities
    single = active.predict(own.take(slice(2, 3)), None).probabilities
    np.testing.assert_allclose(single, together[2:3], atol=1e-6)
    assert active.predict(own.take(slice(0, 0)), other.take(slice(0, 0))).probabilities.shape == (0, 3)


def test_without_its_memory_a_model_predicts_for_both_views_only(trained, data):
    whole, passive = parts(trained)
    own, other = views(data, whole, passive)
    kept = without_memory(trained[0].artifacts)
    assert set(trained[0].artifacts) - set(kept) == {MEMORY + field.name for field in fields(Memory)}
    part = ActivePart.unpack(kept)
    assert np.array_equal(part.predict(own, other).probabilities, whole.predict(own, other).probabilities)
    for missing in ((own, None), (None, other)):
        with pytest.raises(ModelError, match="memory of the other party was deleted") as caught:
            part.predict(*missing)
        assert "both views" in caught.value.remedy


def test_a_part_is_the_same_whatever_torch_draws(trained):
    torch.manual_seed(1)
    first = parts(trained)[0].pack()
    torch.manual_seed(2)
    assert all(np.array_equal(first[name], array) for name, array in parts(trained)[0].pack().items())


@pytest.mark.parametrize("side", [0, 1])
def test_a_half_model_is_refused_and_names_what_is_missing(trained, side):
    kind = (ActivePart, PassivePart)[side]
    whole = dict(trained[side].artifacts)
    needed = kind.unpack(whole).pack()
    for name in needed:
        half = {other: array for other, array in whole.items() if other != name}
        with pytest.raises(ModelError, match="model part"):
            kind.unpack(half)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("config", b"{}"),
        ("config", b"[1]"),
        ("config", b"\x7b"),
        ("preprocessing", b"[{}]"),
        ("preprocessing", b"7"),
        ("classes", b'["one"]'),
        ("classes", b"[1, 2]"),
    ],
)
def test_a_damaged_text_is_refused(trained, name, value):
    arrays = {**trained[0].artifacts, name: np.frombuffer(value, np.uint8)}
    with pytest.raises(ModelError, match="model part"):
        ActivePart.unpack(arrays)


def test_an_array_of_another_shape_is_refused(trained):
    name = "fedcvt.encoder.unique.layers.0.weight"
    arrays = {**trained[1].artifacts, name: np.zeros((1, 1), np.float32)}
    with pytest.raises(ModelError, match=r"expected fedcvt.encoder.unique.layers.0.weight \(3, 16\)"):
        PassivePart.unpack(arrays)


def damages(array: np.ndarray) -> dict[str, np.ndarray]:
    """What a disk, or a mistake, may have made of an array."""
    whole = array if array.ndim else array.reshape(1)
    return {
        "cut short": whole[:-1],
        "one number": np.array(1.0),
        "one dimension more": array[None],
        "twice as wide": array.astype(np.float64),
        "no number": np.full(array.shape, np.nan, np.float32),
        "below 0": -np.ones(array.shape, array.dtype if array.dtype.kind in "fi" else np.float32),
        "far outside": np.full(array.shape, 10**9, np.int64),
        "text": np.array("x"),
        "bytes that are no text": np.frombuffer(b"\xff\xfe", np.uint8),
    }


@pytest.mark.slow
@pytest.mark.parametrize("side", [0, 1])
def test_a_damaged_part_is_refused_with_a_remedy_or_predicts(data, side):
    """Whatever happened to one of its arrays: no error of numpy or torch, and nothing that is no number."""
    outcomes = run(*data, replace(SMALL, folds=2, linear_views=2, steps=2))
    kind, whole = (ActivePart, PassivePart)[side], dict(outcomes[side].artifacts)
    passive = PassivePart.unpack(outcomes[1].artifacts)
    errors = []
    for name in kind.unpack(whole).pack():
        for damage in damages(whole[name]).values():
            try:
                part = kind.unpack({**whole, name: damage})
            except ModelError as error:
                errors.append(error)
                continue
            if isinstance(part, PassivePart):
                assert np.isfinite(part.show_all(data[1].table)).all()
                continue
            own = part.known(data[0].table).take(slice(5))
            other = part.told(passive.show_all(data[1].table)[:5], "views")
            for known in ((own, other), (own, None), (None, other)):
                assert np.isfinite(part.predict(*known).probabilities).all()
            part.predictor(filling=True).vote(None, other.view)
            quality(part.memory, 1.0, 64)
    assert len(errors) > 50
    assert all(str(error).startswith("model part") and "train again" in error.remedy for error in errors)


@pytest.mark.parametrize("shown", [np.zeros((2, 5), np.float32), np.full((2, 6), np.nan, np.float32)])
def test_what_the_passive_party_shows_is_checked(trained, shown):
    with pytest.raises(ProtocolError, match="views"):
        parts(trained)[0].shown(shown, "views")
