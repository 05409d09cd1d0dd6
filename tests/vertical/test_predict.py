"""Prediction in the three situations, against a row-by-row loop."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from protocols.errors import ConfigError
from tests.vertical.runs import SMALL, run, two_parties
from vertical.encoders import Representation
from vertical.heads import Heads
from vertical.predict import Predictor, Situation
from vertical.preprocess import Preprocessor
from vertical.views import Memory


def draw(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def representation(rows: int, seed: int, d: int = SMALL.d) -> Representation:
    return Representation(draw(rows, d, seed=seed), draw(rows, d, seed=seed + 1))


def predictor(n: int = 6) -> Predictor:
    memory = Memory(
        active_unique=draw(n, SMALL.d, seed=1),
        passive_unique=draw(n, SMALL.d, seed=2),
        active_common=draw(n + 3, SMALL.d, seed=3),
        passive_common=draw(n + 2, SMALL.d, seed=4),
        active_position=torch.arange(n),
        passive_position=torch.arange(n),
    )
    heads = Heads(SMALL, 2, torch.Generator().manual_seed(5))
    return Predictor(config=SMALL, heads=heads, memory=memory)


def attend(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """One query (d,) by hand: softmax of the scaled products, then the weighted mean."""
    weights = torch.exp(torch.stack([(query * key).sum() / SMALL.d**0.5 for key in keys]))
    return sum(w * v for w, v in zip(weights / weights.sum(), values, strict=True))


def test_a_missing_view_is_filled_row_by_row():
    model, known = predictor(), representation(5, 10)
    memory = model.memory
    for i in range(5):
        unique, common = known.unique[i], known.common[i]
        filled = torch.cat(
            [
                attend(unique, memory.active_unique, memory.passive_unique),
                attend(common, memory.passive_common, memory.passive_common),
            ]
        )
        expected = model.heads.joint(torch.cat([unique, common, filled])[None])
        assert torch.allclose(model.logits(known, None)[i], expected[0], atol=1e-6)
        filled = torch.cat(
            [
                attend(unique, memory.passive_unique, memory.active_unique),
                attend(common, memory.active_common, memory.active_common),
            ]
        )
        expected = model.heads.joint(torch.cat([filled, unique, common])[None])
        assert torch.allclose(model.logits(None, known)[i], expected[0], atol=1e-6)


def test_both_views_need_no_memory():
    model, active, passive = predictor(), representation(4, 20), representation(4, 30)
    bare = replace(model, memory=Memory.blank(SMALL, 0))
    expected = model.heads.joint_logits(active, passive)
    assert torch.equal(model.logits(active, passive), expected)
    assert torch.equal(bare.logits(active, passive), expected)


def test_hiding_a_view_never_looks_at_it():
    model, active, passive = predictor(), representation(4, 20), representation(4, 30)
    other = representation(4, 40)
    shown = {situation: model.hide(situation, active, passive).stacked() for situation in Situation}
    assert torch.equal(
        shown[Situation.ACTIVE_ONLY], model.hide(Situation.ACTIVE_ONLY, active, other).stacked()
    )
    assert torch.equal(
        shown[Situation.PASSIVE_ONLY], model.hide(Situation.PASSIVE_ONLY, other, passive).stacked()
    )
    assert not torch.equal(shown[Situation.BOTH], model.hide(Situation.BOTH, active, other).stacked())


@pytest.mark.parametrize("rows", [0, 1, 2048, 2049])
def test_any_number_of_people(rows):
    model = predictor()
    known = representation(rows, 50)
    logits = model.logits(None, known)
    assert logits.shape == (rows, 2)
    votes = model.vote(None, known)
    assert votes.label.shape == votes.accepted.shape == (rows,)
    if rows:
        assert torch.allclose(logits[-1], model.logits(None, known.take(slice(rows - 1, rows)))[0], atol=1e-6)


def test_somebody_without_any_view_cannot_be_predicted():
    with pytest.raises(ConfigError, match="at least one party"):
        predictor().logits(None, None)


def test_without_memory_a_fill_is_zero_and_finite():
    model = replace(predictor(), memory=Memory.blank(SMALL, 0))
    known = representation(3, 60)
    zeros = Representation(torch.zeros(3, SMALL.d), torch.zeros(3, SMALL.d))
    assert torch.equal(model.logits(known, None), model.heads.joint_logits(known, zeros))


def test_the_votes_of_a_run_are_those_of_its_artifacts():
    """Rebuilt from what the two parties keep, the model gives the released pseudo labels again."""
    active, passive = two_parties()
    left, right = run(active, passive, SMALL)
    heads = Heads(SMALL, 2, torch.Generator())
    _load(heads, "fedcvt.heads.", left)
    memory = {
        name.removeprefix("fedcvt.memory."): torch.tensor(value)
        for name, value in left.artifacts.items()
        if name.startswith("fedcvt.memory.")
    }
    model = Predictor(config=SMALL, heads=heads, memory=Memory(**memory))
    rules = Preprocessor.from_text(right.artifacts["preprocessing"].tobytes().decode())
    features = torch.tensor(rules.transform(passive.table))[right.artifacts["rows.passive_only"]]
    weights = {k: torch.tensor(v) for k, v in right.artifacts.items() if k.startswith("fedcvt.encoder.")}
    views = [
        features @ weights[f"fedcvt.encoder.{kind}.layers.0.weight"].T
        + weights[f"fedcvt.encoder.{kind}.layers.0.bias"]
        for kind in ("unique", "common")
    ]
    votes = model.vote(None, Representation(*views))
    assert votes.label.tolist() == left.artifacts["pseudo_label"].tolist()
    assert votes.accepted.tolist() == left.artifacts["pseudo_accepted"].tolist()


def _load(module: torch.nn.Module, prefix: str, outcome) -> None:
    for name, parameter in module.named_parameters():
        with torch.no_grad():
            parameter.copy_(torch.tensor(outcome.artifacts[prefix + name]))
