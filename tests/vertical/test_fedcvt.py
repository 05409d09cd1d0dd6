"""The objective: a slow oracle by groups, empty groups, pseudo labels (AC-08 to AC-10); AC-16 is in test_oracle."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from tests.vertical.tensors import D, random
from vertical.choices import EncoderKind, PseudoWeighting, Schedule
from vertical.config import FedCVTConfig
from vertical.encoders import Representation, view_encoder
from vertical.fedcvt import (
    Objective,
    StepLabels,
    StepViews,
    objective,
    pseudo_weight,
)
from vertical.heads import Heads
from vertical.losses import class_weights, cross_entropy, difference, similarity
from vertical.optimiser import adamw, learning_rate, take_step
from vertical.views import Memory, fill_active, fill_passive, with_live_rows

CONFIG = FedCVTConfig(
    d=2, pseudo_from=0, pseudo_ramp=0, threshold_joint=0.0, threshold_active=0.0, threshold_passive=0.0
)
SURE = 50  # a step at which pseudo labels have full weight


def view(rows: int, seed: int) -> Representation:
    return Representation(random(rows, 2, seed=seed), random(rows, 2, seed=seed + 100))


def two_encoders(config: FedCVTConfig, generator: torch.Generator) -> list[nn.Module]:
    """Encoders of an active party with 3 features and of a passive one with 2."""
    shapes = ((config.active_view, 3), (config.passive_view, 2))
    return [view_encoder(config, shape, inputs, generator) for shape, inputs in shapes]


def heads(classes: int = 3, seed: int = 33) -> Heads:
    """Heads whose vote accepts some rows of the views below and rejects others."""
    return Heads(CONFIG, classes, torch.Generator().manual_seed(seed)).double()


def memory(aligned: int, others: int = 3) -> Memory:
    """Every aligned person in both pools, at its own position, followed by some others."""
    at = torch.arange(aligned)
    return Memory(
        active_unique=random(aligned, 2, seed=1),
        passive_unique=random(aligned, 2, seed=2),
        active_common=random(aligned + others, 2, seed=3),
        passive_common=random(aligned + others, 2, seed=4),
        active_position=at,
        passive_position=at,
    )


def nobody() -> Memory:
    return memory(0, others=0)


def views(n: int, a: int, p: int, rows: Tensor | None = None) -> StepViews:
    return StepViews(
        active_aligned=view(n, seed=10),
        active_alone=view(a, seed=11),
        passive_aligned=view(n, seed=12),
        passive_alone=view(p, seed=13),
        rows=torch.arange(n) if rows is None else rows,
    )


def labels(aligned: list[int], alone: list[int]) -> StepLabels:
    return StepLabels(
        aligned=torch.tensor(aligned, dtype=torch.int64), alone=torch.tensor(alone, dtype=torch.int64)
    )


def certain(joint: int = 0, active: int = 0, passive: int = 0, classes: int = 2, top: float = 0.95) -> Heads:
    """Heads that answer one class with probability `top` whatever the row; the rest is spread evenly."""
    made = heads(classes)
    for head, code in ((made.joint, joint), (made.active, active), (made.passive, passive)):
        (layer,) = head.layers
        assert isinstance(layer, nn.Linear)
        probabilities = torch.full((classes,), (1 - top) / (classes - 1), dtype=D)
        probabilities[code] = top
        with torch.no_grad():
            layer.weight.zero_()
            layer.bias.copy_(probabilities.log())
    return made


def slow_total(config: FedCVTConfig, made: Heads, v: StepViews, m: Memory, y: StepLabels) -> Tensor:
    """The joint loss for fully labelled active rows, group by group and row by row of the vote."""
    if config.live_keys:
        m = with_live_rows(m, v.active_aligned, v.passive_aligned, v.rows)
    t = config.temperature
    filled_passive = fill_passive(v.active_alone, m, temperature=t)
    filled_active = fill_active(v.passive_alone, m, temperature=t)
    joint = torch.cat(
        [
            made.joint_logits(v.active_aligned, v.passive_aligned),
            made.joint_logits(v.active_alone, filled_passive),
        ]
    )
    true = torch.cat([y.aligned, y.alone])
    total = cross_entropy(joint, true)
    total = total + cross_entropy(
        torch.cat([made.active(v.active_aligned.joined()), made.active(v.active_alone.joined())]), true
    )
    total = total + cross_entropy(made.passive(v.passive_aligned.joined()), y.aligned)
    guesses = made.joint_logits(filled_active, v.passive_alone)
    others = made.active(filled_active.joined()), made.passive(v.passive_alone.joined())
    losses = []
    for i in range(v.passive_alone.rows):
        choices = {int(logits[i].argmax()) for logits in (guesses, *others)}
        if len(choices) == 1:
            losses.append(-torch.log_softmax(guesses[i], dim=0)[choices.pop()])
    if losses:
        total = total + torch.stack(losses).sum() / v.passive_alone.rows
    total = total + config.l1 * difference(v.active_aligned.common, v.passive_aligned.common)
    back_a = fill_active(v.passive_aligned, m, temperature=t, rows=v.rows)
    back_b = fill_passive(v.active_aligned, m, temperature=t, rows=v.rows)
    total = total + config.l2 * difference(back_a.joined(), v.active_aligned.joined())
    total = total + config.l3 * difference(back_b.joined(), v.passive_aligned.joined())
    a, p = (
        Representation.stack([v.active_aligned, v.active_alone]),
        Representation.stack([v.passive_aligned, v.passive_alone]),
    )
    return total + config.l4 * similarity(a.unique, a.common) + config.l5 * similarity(p.unique, p.common)


@pytest.mark.parametrize("live", [True, False])
def test_total_equals_the_slow_oracle(live: bool) -> None:
    config = replace(CONFIG, live_keys=live, l1=0.3, l2=0.7, l3=0.2, l4=0.5, l5=0.4)
    v, m, y = views(3, 4, 6, rows=torch.tensor([4, 0, 2])), memory(5), labels([0, 1, 2], [2, 2, 0, 1])
    got = objective(config, heads(), v, m, y, step=SURE)
    torch.testing.assert_close(got.total, slow_total(config, heads(), v, m, y))
    assert 0 < got.accepted < got.candidates == 6


def test_terms_and_weights_add_up_to_the_total() -> None:
    config = replace(CONFIG, l1=0.3, l2=0.7, l3=0.2, l4=0.5, l5=0.4)
    got = objective(config, heads(), views(3, 4, 6), memory(3), labels([0, 1, 2], [0] * 4), step=SURE)
    weights = config.term_weights
    assert set(weights) < set(got.terms)
    assert got.total.item() == pytest.approx(sum(weights.get(k, 1.0) * t for k, t in got.terms.items()))


def test_gradient_of_the_objective_is_right() -> None:
    def total(*tensors: Tensor) -> Tensor:
        pairs = [Representation(tensors[i], tensors[i + 1]) for i in range(0, 8, 2)]
        v = StepViews(
            active_aligned=pairs[0],
            active_alone=pairs[1],
            passive_aligned=pairs[2],
            passive_alone=pairs[3],
            rows=torch.tensor([1, 0]),
        )
        return objective(CONFIG, made, v, memory(3), labels([0, 2], [1, -1]), step=SURE).total

    made = heads()
    inputs = tuple(random(2, 2, seed=s).requires_grad_() for s in range(20, 28))
    assert torch.autograd.gradcheck(total, inputs, fast_mode=True)


def test_objective_is_pure() -> None:
    arguments = (CONFIG, heads(), views(3, 2, 2), memory(3), labels([0, 1, 2], [0, 1]))
    state = torch.get_rng_state()
    first, second = (objective(*arguments, step=SURE).total for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("weighting", list(PseudoWeighting))
@pytest.mark.parametrize(
    ("n", "a", "p"), [(0, 0, 0), (3, 0, 0), (0, 3, 0), (0, 0, 3), (3, 3, 0), (3, 0, 3), (0, 3, 3), (1, 1, 1)]
)
def test_any_group_may_be_empty(n: int, a: int, p: int, weighting: PseudoWeighting) -> None:
    config = replace(CONFIG, pseudo_weighting=weighting)
    made, v = heads(), views(n, a, p)
    m = memory(n) if n else nobody()
    leaves = [t.requires_grad_() for r in _all_views(v) for t in (r.unique, r.common)]
    got = objective(config, made, v, m, labels([0] * n, [1] * a), step=SURE)
    got.total.backward()
    assert math.isfinite(got.total.item())
    for leaf in [*leaves, *made.parameters()]:
        assert leaf.grad is None or bool(leaf.grad.isfinite().all())
    assert got.candidates == p


def _all_views(v: StepViews) -> list[Representation]:
    return [v.active_aligned, v.active_alone, v.passive_aligned, v.passive_alone]


def test_overlap_one_is_finite_everywhere() -> None:
    made, v = heads(), views(1, 3, 2)
    got = objective(CONFIG, made, v, memory(1), labels([1], [0, 1, 2]), step=SURE)
    got.total.backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in made.parameters())


def test_aligned_only_ignores_the_alone_rows_of_the_full_step() -> None:
    full = objective(CONFIG, heads(), views(3, 0, 0), memory(3), labels([0, 1, 2], []), step=SURE)
    expected = cross_entropy(
        heads().joint_logits(view(3, seed=10), view(3, seed=12)), torch.tensor([0, 1, 2])
    )
    assert full.terms["joint"] == pytest.approx(expected.item())
    assert (full.accepted, full.candidates, full.terms["pseudo"]) == (0, 0, 0.0)


def test_active_alone_trains_only_the_active_head_when_the_fill_is_off() -> None:
    config, made = replace(CONFIG, fill=False), heads()
    got = objective(config, made, views(0, 4, 0), nobody(), labels([], [0, 1, 2, 0]), step=SURE)
    got.total.backward()
    expected = cross_entropy(made.active(view(4, seed=11).joined()), torch.tensor([0, 1, 2, 0]))
    assert got.terms["active"] == pytest.approx(expected.item())
    assert got.terms["joint"] == got.terms["passive"] == 0.0
    trained = {name for name, p in made.named_parameters() if p.grad is not None and bool(p.grad.any())}
    assert trained == {name for name, _ in made.active.named_parameters("active")}


def test_fill_off_leaves_alone_rows_out_of_joint_head_and_vote() -> None:
    config = replace(CONFIG, fill=False)
    got = objective(config, heads(), views(2, 3, 4), memory(2), labels([0, 1], [0, 1, -1]), step=SURE)
    alone = objective(config, heads(), views(2, 0, 0), memory(2), labels([0, 1], []), step=SURE)
    assert got.terms["joint"] == pytest.approx(alone.terms["joint"], rel=1e-12)
    assert got.candidates == 0


# Pseudo labels


def test_no_pseudo_label_passes() -> None:
    zero = heads(2)
    with torch.no_grad():
        for parameter in zero.parameters():
            parameter.zero_()
    config = replace(CONFIG, threshold_joint=0.9, threshold_active=0.9, threshold_passive=0.9)
    v = views(2, 0, 5)
    leaf = v.passive_alone.unique.requires_grad_()
    got = objective(replace(config, l5=0.0), zero, v, memory(2), labels([0, 1], []), step=SURE)
    assert (got.terms["pseudo"], got.accepted, got.candidates) == (0.0, 0, 5)
    got.total.backward()
    assert leaf.grad is None or not bool(leaf.grad.any())
    without = objective(config, zero, views(2, 0, 0), memory(2), labels([0, 1], []), step=SURE)
    assert got.terms["joint"] == without.terms["joint"]


def test_an_agreed_row_is_accepted_with_its_class() -> None:
    config = replace(CONFIG, threshold_joint=0.9, threshold_active=0.9, threshold_passive=0.9)
    got = objective(config, certain(), views(1, 0, 1), memory(1), labels([0], []), step=SURE)
    assert (got.accepted, got.candidates) == (1, 1)
    assert (got.passive_vote.label.tolist(), got.passive_vote.accepted.tolist()) == ([0], [True])
    assert got.terms["pseudo"] == pytest.approx(-math.log(0.95))
    three = certain(joint=2, active=0, passive=1, classes=3)
    assert objective(config, three, views(1, 0, 1), memory(1), labels([0], []), step=SURE).accepted == 0


def pseudo(config: FedCVTConfig, made: Heads, p: int, step: int = SURE) -> Objective:
    return objective(config, made, views(2, 0, p), memory(2), labels([0, 0], []), step=step)


def test_share_weighting_multiplies_by_the_accepted_share() -> None:
    made = heads(3)
    got = pseudo(CONFIG, made, 8)
    assert 0 < got.accepted < 8
    v, m = views(2, 0, 8), memory(2)
    live = with_live_rows(m, v.active_aligned, v.passive_aligned, v.rows)
    filled = fill_active(v.passive_alone, live, temperature=1.0)
    logits = made.joint_logits(filled, v.passive_alone)[got.passive_vote.accepted]
    mean = cross_entropy(logits, got.passive_vote.label[got.passive_vote.accepted]).item()
    assert got.terms["pseudo"] == pytest.approx(mean * got.accepted / 8)


def test_union_weighting_is_one_mean_over_true_and_accepted_rows() -> None:
    # true rows are class 1: loss ln 20; accepted ones class 0: loss -ln .95; 2 and 3 of them
    config = replace(CONFIG, pseudo_weighting=PseudoWeighting.UNION)
    got = objective(config, certain(), views(2, 0, 3), memory(2), labels([1, 1], []), step=SURE)
    assert got.terms["joint"] + got.terms["pseudo"] == pytest.approx(
        (2 * math.log(20) + 3 * -math.log(0.95)) / 5
    )


def test_pseudo_labels_start_softly() -> None:
    config = replace(CONFIG, pseudo_from=10, pseudo_ramp=3)
    assert [pseudo_weight(config, step) for step in (0, 9, 10, 11, 12, 13, 99)] == [
        0.0, 0.0, 0.25, 0.5, 0.75, 1.0, 1.0
    ]  # fmt: skip
    assert pseudo_weight(replace(config, pseudo=False), 99) == 0.0
    before, half = pseudo(config, certain(), 2, step=9), pseudo(config, certain(), 2, step=11)
    assert (before.accepted, before.terms["pseudo"]) == (0, 0.0)
    assert half.terms["pseudo"] == pytest.approx(0.5 * -math.log(0.95))


def test_pseudo_passive_switch_trains_the_passive_head_on_real_views() -> None:
    off, on = pseudo(CONFIG, certain(), 2), pseudo(replace(CONFIG, pseudo_passive=True), certain(), 2)
    assert off.terms["pseudo_passive"] == 0.0
    assert on.terms["pseudo_passive"] == pytest.approx(-math.log(0.95))


def test_active_rows_without_a_label_are_candidates_not_labels() -> None:
    got = objective(CONFIG, certain(), views(2, 2, 1), memory(2), labels([1, -1], [-1, 1]), step=SURE)
    assert (got.candidates, got.accepted) == (3, 3)
    assert got.passive_vote.accepted.shape == (1,)
    assert got.terms["joint"] == pytest.approx(math.log(20))  # only the labelled rows
    nobody = objective(CONFIG, certain(), views(2, 2, 0), memory(2), labels([-1, -1], [-1, -1]), step=SURE)
    assert nobody.terms["joint"] == nobody.terms["active"] == nobody.terms["passive"] == 0.0


def test_each_situation_and_head_has_its_own_temperature_in_the_vote() -> None:
    """Of two classes at .95 the log-odds are 2.94; at temperature 3 they give .73: below a threshold of .8."""
    config = replace(CONFIG, threshold_joint=0.8, threshold_active=0.8, threshold_passive=0.8)
    made, v, y = certain(), views(2, 3, 4), labels([0, -1], [1, -1, -1])

    def candidates(temperatures: Tensor | None) -> int:
        done = objective(config, made, v, memory(2), y, step=SURE, temperatures=temperatures)
        return done.accepted

    assert candidates(None) == candidates(torch.ones(3, 3)) == 1 + 2 + 4
    for situation, rows in enumerate((1, 2, 4)):
        for head in range(3):
            hot = torch.ones(3, 3)
            hot[situation, head] = 3.0
            assert candidates(hot) == 7 - rows


def test_temperatures_change_no_loss_of_a_true_label() -> None:
    made, v, y = heads(), views(3, 2, 0), labels([0, 1, 2], [1, 0])
    plain = objective(CONFIG, made, v, memory(3), y, step=SURE)
    hot = objective(CONFIG, made, v, memory(3), y, step=SURE, temperatures=torch.full((3, 3), 7.0))
    assert torch.equal(plain.total, hot.total)


def test_alone_rows_train_though_no_pseudo_label_passes() -> None:
    config = replace(CONFIG, threshold_joint=1.0)
    some = objective(config, heads(), views(2, 3, 2), memory(2), labels([0, 1], [0, 1, 2]), step=SURE)
    none = objective(config, heads(), views(2, 0, 2), memory(2), labels([0, 1], []), step=SURE)
    assert some.accepted == 0
    assert some.terms["joint"] != none.terms["joint"]


# Classes (AC-10)


def test_a_class_outside_the_step_keeps_its_output() -> None:
    made = heads(3)
    weights = class_weights(torch.tensor([0, 0, 1]), 3).double()
    got = objective(
        CONFIG, made, views(3, 0, 2), memory(3), labels([0, 0, 1], []), step=SURE, class_weights=weights
    )
    assert math.isfinite(got.total.item())
    assert made.joint_logits(view(1, 0), view(1, 1)).shape == (1, 3)


def test_class_weights_make_the_rare_class_count_as_much() -> None:
    rows = [0] * 9 + [1]
    weights = class_weights(torch.tensor(rows), 2).double()
    got = objective(
        CONFIG, certain(top=0.9), views(10, 0, 0), memory(10), labels(rows, []), step=0, class_weights=weights
    )
    assert got.terms["joint"] == pytest.approx((-math.log(0.9) - math.log(0.1)) / 2)


def test_duplicated_candidates_do_not_change_the_classification_loss() -> None:
    v = views(2, 0, 3)
    twice = StepViews(
        active_aligned=v.active_aligned,
        active_alone=v.active_alone,
        passive_aligned=v.passive_aligned,
        passive_alone=Representation.stack([v.passive_alone, v.passive_alone]),
        rows=v.rows,
    )
    one = objective(CONFIG, heads(), v, memory(2), labels([0, 1], []), step=SURE)
    two = objective(CONFIG, heads(), twice, memory(2), labels([0, 1], []), step=SURE)
    assert two.accepted == 2 * one.accepted
    for name in ("joint", "active", "passive", "pseudo"):
        assert two.terms[name] == pytest.approx(one.terms[name])


# Optimiser


def test_cosine_learning_rate_falls_from_full_to_almost_nothing() -> None:
    config = FedCVTConfig(steps=4, learning_rate=0.1)
    assert [learning_rate(config, s) for s in range(4)] == pytest.approx(
        [0.1, 0.1 * (1 + math.sqrt(0.5)) / 2, 0.05, 0.1 * (1 - math.sqrt(0.5)) / 2]
    )
    assert learning_rate(replace(config, schedule=Schedule.CONSTANT), 3) == 0.1
    made = adamw(config, heads().parameters())
    take_step(made, config, 2)
    assert [group["lr"] for group in made.param_groups] == pytest.approx([0.05])


def test_joint_logits_equal_one_joined_linear_model() -> None:
    config = FedCVTConfig(encoder=EncoderKind.LINEAR, d=2)
    generator = torch.Generator().manual_seed(3)
    active, passive = two_encoders(config, generator)
    made = Heads(config, 2, generator)
    x = torch.eye(5)
    origin = torch.zeros(1, 5)

    def split(rows: Tensor) -> Tensor:
        return made.joint_logits(active(rows[:, :3]), passive(rows[:, 3:])).detach()

    slope, offset = split(x) - split(origin), split(origin)  # the joined table's affine map
    rows = random(6, 5, seed=5).float()
    torch.testing.assert_close(split(rows), rows @ slope + offset, atol=1e-5, rtol=1e-5)
