"""The linear experts of the active party on rows of which the truth is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vertical.experts import ExpertRows, LinearExperts, fit_linear_experts
from vertical.linear import mean_loss
from vertical.predict import Situation


def made(n: int, a: int, *, f: int = 3, w: int = 2, k: int = 2, seed: int = 0) -> ExpertRows:
    """Rows whose class depends on the first own feature and the first component alike."""
    rng = np.random.default_rng(seed)
    own, other = rng.normal(size=(n + a, f)), rng.normal(size=(n + a, w))
    score = 2.0 * own[:, :1] + 2.0 * other[:, :1] + rng.logistic(size=(n + a, 1))
    labels = np.digitize(score[:, 0], np.linspace(-2.0, 2.0, k + 1)[1:-1])
    return ExpertRows(
        active_aligned=own[:n],
        active_alone=own[n:],
        passive_aligned=other[:n],
        labels_aligned=labels[:n],
        labels_alone=labels[n:],
        folds_aligned=np.arange(n) % 3,
        folds_alone=np.arange(a) % 3,
        classes=k,
    )


@pytest.mark.parametrize("k", [2, 3])
def test_both_views_tell_more_than_one(k: int) -> None:
    rows, new = made(300, 300, k=k), made(500, 0, k=k, seed=1)
    experts, held_out = fit_linear_experts(rows)
    both = experts.logits(new.active_aligned, new.passive_aligned)
    loss = {name: mean_loss(logits, new.labels_aligned) for name, logits in both.items()}
    loss |= {
        name: mean_loss(logits, new.labels_aligned)
        for name, logits in experts.logits(None, new.passive_aligned).items()
    }
    assert max(loss["aligned_only"], loss["stack"]) < min(loss["active_alone"], loss["passive_alone"]) - 0.05
    for name, logits in held_out[Situation.BOTH].items():  # held-out rows foretell it
        assert mean_loss(logits, rows.labels_aligned) == pytest.approx(loss[name], abs=0.1)


def test_views_that_are_there_decide_which_experts_speak() -> None:
    rows = made(30, 20)
    experts, held_out = fit_linear_experts(rows)
    own, other = rows.active_aligned[:4], rows.passive_aligned[:4]
    for situation, views in (
        (Situation.BOTH, (own, other)),
        (Situation.ACTIVE_ONLY, (own, None)),
        (Situation.PASSIVE_ONLY, (None, other)),
    ):
        logits = experts.logits(*views)
        assert set(logits) == set(held_out[situation])
        assert all(value.shape == (4, 2) for value in logits.values())
    assert held_out[Situation.ACTIVE_ONLY]["active_alone"].shape == (50, 2)
    assert held_out[Situation.BOTH]["stack"].shape == (30, 2)


def test_no_held_out_logit_knows_its_own_label() -> None:
    rows = made(24, 12)
    flipped = rows.labels_aligned.copy()
    flipped[0] = 1 - flipped[0]
    other = replace(rows, labels_aligned=flipped)
    one, two = (fit_linear_experts(each)[1] for each in (rows, other))
    # the strengths and the stack's temperature are chosen on all held-out rows: they may differ, a little
    for name in ("aligned_only", "active_alone", "stack"):
        change = abs(one[Situation.BOTH][name][0] - two[Situation.BOTH][name][0]).max()
        assert change < 1.0


@pytest.mark.parametrize("n", [1, 2, 10])
@pytest.mark.parametrize("a", [0, 5])
@pytest.mark.parametrize("w", [0, 15])
def test_few_rows(n: int, a: int, w: int) -> None:
    rows = made(n, a, w=max(w, 1))
    rows = replace(rows, passive_aligned=rows.passive_aligned[:, :w])
    experts, held_out = fit_linear_experts(rows)
    for logits in experts.logits(rows.active_aligned, rows.passive_aligned).values():
        assert np.isfinite(logits).all()
    assert all(np.isfinite(logits).all() for by_name in held_out.values() for logits in by_name.values())


def test_packing_gives_the_same_experts_again() -> None:
    rows = made(30, 20, k=3)
    experts, _ = fit_linear_experts(rows)
    again = LinearExperts.unpack("experts", experts.pack("experts"), components=True)
    views = rows.active_aligned, rows.passive_aligned
    for name, logits in experts.logits(*views).items():
        np.testing.assert_array_equal(again.logits(*views)[name], logits)
