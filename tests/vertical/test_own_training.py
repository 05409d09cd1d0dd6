"""The active party's own network: its rows, what it says of people it hasn't seen, what a checkpoint keeps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from protocols.errors import ConfigError
from protocols.program import Progress, silent
from protocols.seeds import injected
from tests.vertical.runs import PUBLIC_SEED, SMALL, run, two_parties
from vertical.active_side import Labels
from vertical.config import FedCVTConfig
from vertical.messages import Choice
from vertical.model import ActivePart
from vertical.own_training import own_expert
from vertical.predict import Situation
from vertical.search import Search
from vertical.training import Features, Run

CONFIG = replace(
    SMALL, candidates="given,small", folds=3, steps=30, aligned_batch=64, learning_rate=0.05, cuts=0
)
WHOLE = Choice(0, 30)


def made(config: FedCVTConfig = CONFIG, *, flip: bool = False, missing: int = 0, observe=silent) -> Search:
    """60 aligned and 31 active-only people, whose class is the sign of the first of two features.

    `flip` turns the labels of those whom the first fold holds out, `missing` first labels are unknown.
    """
    draw = torch.Generator().manual_seed(5)
    rows = torch.randn(91, 2, generator=draw)
    codes = (rows[:, 0] > 0).long()
    codes[:missing] = -1
    features = Features(aligned=rows[:60], alone=rows[60:], test=rows[:0], rules=None)
    labels = Labels(aligned=codes[:60], alone=codes[60:], test=codes[:0], classes=("no", "yes"))
    search = Search.start(
        Run(config, PUBLIC_SEED, injected(0, "active"), observe), features, labels, resume=None
    )
    if flip and search.folds():
        fold, own = search.folds()[0]
        labels.aligned[fold.held] = 1 - labels.aligned[fold.held]
        labels.alone[own.held] = 1 - labels.alone[own.held]
    return search


def test_held_out_people_are_told_apart_and_only_they_have_logits():
    found = own_expert(made(), WHOLE, {})
    # three folds of 20 aligned people and of 10 others, of whom one is never held out
    assert found.held_out.shape == (60 + 30, 2)
    assert found.steps in (18, 24, 30)
    truth = made().truth(Situation.ACTIVE_ONLY)
    assert np.mean(found.held_out.argmax(axis=1) == truth) > 0.9
    new = torch.tensor([[2.0, 0.3], [-2.0, 0.3]])
    assert found.network.logits(new).argmax(axis=1).tolist() == [1, 0]


def test_nobodys_held_out_logits_know_their_label():
    config = replace(CONFIG, early_stopping=False)
    search = made(config)
    fold, own = search.folds()[0]
    place = np.concatenate([fold.held, 60 + np.searchsorted(search.own_held, own.held)])
    plain, flipped = (own_expert(made(config, flip=flip), WHOLE, {}).held_out for flip in (False, True))
    np.testing.assert_array_equal(plain[place], flipped[place])
    others = np.setdiff1d(np.arange(90), place)
    assert (plain[others] != flipped[others]).any(axis=1).all()


def test_the_chosen_configuration_is_trained():
    assert own_expert(made(), Choice(1, 30), {}).network.encoder.unique.layers[0].weight.shape == (32, 2)
    assert len(own_expert(made(), Choice(0, 30), {}).network.encoder.unique.layers) == 1


@pytest.mark.parametrize(("losses", "best"), [((3, 1, 2), 24), ((1, 1, 2), 24), ((1, 2, np.nan), 18)])
def test_the_number_of_steps_is_that_with_the_least_held_out_loss(monkeypatch, losses, best):
    """After 18, 24 and 30 steps; of equal ones the longest training."""
    left = list(losses)
    monkeypatch.setattr("vertical.own_training.calibrated_loss", lambda logits, truth: left.pop(0))
    assert own_expert(made(), WHOLE, {}).steps == best


def test_without_early_stopping_all_steps_are_taken():
    assert own_expert(made(replace(CONFIG, early_stopping=False)), WHOLE, {}).steps == 30


def test_a_checkpoint_holds_it_whole():
    seen: list[Progress] = []
    first = own_expert(made(observe=seen.append), WHOLE, {})
    phases = [f"active_alone, fold {number} of 3" for number in (1, 2, 3)]
    assert list(dict.fromkeys(p.phase for p in seen)) == [*phases, "active_alone"]
    seen.clear()
    again = own_expert(made(observe=seen.append), WHOLE, first.pack())
    assert not seen
    assert again.steps == first.steps
    np.testing.assert_array_equal(again.held_out, first.held_out)
    for name, array in first.pack().items():
        np.testing.assert_array_equal(again.pack()[name], array)


@pytest.mark.parametrize("changes", [{}, {"class_balance": True}], ids=str)
def test_people_without_a_label_are_no_lesson(changes):
    config = replace(CONFIG, **changes)
    found = own_expert(made(config, missing=85), WHOLE, {})
    assert np.isfinite(found.held_out).all()
    nobody = own_expert(made(config, missing=91), WHOLE, {})
    assert nobody.steps == 30
    assert np.isfinite(nobody.held_out).all()


def test_a_run_keeps_it_only_where_something_reads_it():
    parties = two_parties()
    plain, _ = run(*parties, SMALL)
    assert not [name for name in plain.artifacts if "own_network" in name]
    assert ActivePart.unpack(plain.artifacts).network is None
    told, _ = run(*parties, replace(SMALL, baselines=True))
    assert set(told.report["methods"]["active_alone_network"]) == {"active_only"}
    assert ActivePart.unpack(told.artifacts).network is not None
    weighed, _ = run(*parties, replace(SMALL, folds=2))
    assert weighed.report["search"]["own_network"] in ("6 of 7 steps", "7 of 7 steps")
    for situation in ("both", "active_only"):
        assert "active_network" in weighed.report["experts"][situation]["experts"]


def test_a_network_that_diverges_is_told_as_what_it_is():
    rows, codes = torch.full((4, 1), 1e38), torch.tensor([0, 1, 0, 1])
    features = Features(aligned=rows, alone=rows[:0], test=rows[:0], rules=None)
    labels = Labels(aligned=codes, alone=codes[:0], test=codes[:0], classes=("no", "yes"))
    wild = replace(SMALL, learning_rate=1.0, weight_decay=100.0, baselines=True)
    search = Search.start(Run(wild, PUBLIC_SEED, injected(0, "active"), silent), features, labels, None)
    with pytest.raises(ConfigError, match="active_alone: the training diverged"):
        own_expert(search, Choice(0, 7), {})
