"""FedBSS: every worked value, the cut, the admission, warm-up, and what a curriculum does to a training."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from horizontal.config import Gate
from horizontal.fedbss import Curriculum, Stage, alpha, curriculum, cut, round_half_up, uncertainty
from horizontal.local import Examples, cross_entropy, plan, train
from protocols.errors import ConfigError


def logits(*rows: tuple[float, ...]) -> torch.Tensor:
    """Logits whose softmax is `rows`."""
    return torch.log(torch.tensor(rows, dtype=torch.float64))


def truly(p_true: float, spread: float = 0.0) -> tuple[float, float, float]:
    """Three probabilities, the true class first."""
    rest = 1 - p_true
    return p_true, rest / 2 + spread, rest / 2 - spread


LABELS = torch.zeros(6, dtype=torch.int64)


@pytest.mark.parametrize(("p_true", "loss"), [(0.92, 0.0834), (0.35, 1.0498)])
def test_losses(p_true: float, loss: float) -> None:
    assert cross_entropy(logits(truly(p_true)), LABELS[:1]).item() == pytest.approx(loss, abs=5e-5)


def test_spread_and_uncertainty() -> None:
    assert uncertainty(logits((0.92, 0.05, 0.03))).item() == pytest.approx(0.11)  # s = .89


def test_confident_and_wrong_is_red_although_its_uncertainty_is_low() -> None:
    # true class first: losses .0834, .9163 (u = 1 - .1), 3.5066 (u = .11): the cut is at rank 2
    cut = curriculum(logits((0.03, 0.92, 0.05), (0.92, 0.05, 0.03), (0.4, 0.3, 0.3)), LABELS[:3])
    assert cut.losses[2].item() == pytest.approx(3.5066, abs=5e-5)
    assert cut.uncertainties[2].item() == pytest.approx(0.11)
    assert (cut.order.tolist(), cut.green, cut.red) == ([1, 2, 0], 2, 1)


def test_ranks_are_by_loss_and_keep_ids() -> None:
    # X_7 is the easiest (S_1), X_8 the hardest (S_8); X_i is row i - 1
    p_true = [0.5, 0.6, 0.3, 0.7, 0.2, 0.4, 0.9, 0.1]
    cut = curriculum(logits(*map(truly, p_true)), torch.zeros(8, dtype=torch.int64))
    assert [row + 1 for row in cut.order.tolist()] == [7, 4, 2, 1, 6, 3, 5, 8]


def test_losses_that_are_sorted_stay_as_they_stand() -> None:
    losses = (0.08, 0.16, 0.36, 1.05, 1.30, 3.00)
    cut = curriculum(logits(*(truly(math.exp(-loss)) for loss in losses)), LABELS)
    assert cut.order.tolist() == [0, 1, 2, 3, 4, 5]
    assert cut.losses.tolist() == pytest.approx(losses)


def test_equal_losses_are_ranked_by_id() -> None:
    assert curriculum(logits(*[truly(0.5)] * 6), LABELS).order.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("by_rank", "green"),
    [
        ((0.11, 0.28, 0.60, 0.95, 0.72, 0.40), 4),
        ((0.3, 0.9, 0.5, 0.4, 0.3, 0.2), 2),  # another client, its own peak
        ((0.1, 0.2, 0.3), 3),  # red is empty
        ((0.9, 0.2, 0.3), 1),
        ((0.1, 0.7, 0.2, 0.7), 2),  # the first of equal ones
        ((0.5,) * 40, 1),
        ((), 0),
    ],
)
def test_the_cut_is_at_the_clients_own_peak(by_rank: tuple[float, ...], green: int) -> None:
    assert cut(torch.tensor(by_rank)) == green


def test_with_two_classes_the_peak_is_the_decision_boundary() -> None:
    p_true = [0.05, 0.95, 0.3, 0.52, 0.7, 0.46]
    made = curriculum(logits(*((p, 1 - p) for p in p_true)), LABELS)
    assert made.order[: made.green].tolist() == [
        1,
        4,
        3,
    ]  # .95, .7, .52: all that is right, up to the least certain
    assert made.red == 3


def test_alpha() -> None:
    values = [alpha(e, 10) for e in range(1, 11)]
    assert values == pytest.approx(
        [0.0245, 0.0955, 0.2061, 0.3455, 0.5, 0.6545, 0.7939, 0.9045, 0.9755, 1], abs=5e-5
    )
    assert [alpha(e, 4, Gate.LINEAR) for e in range(1, 5)] == [0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize(
    ("red", "epochs", "admitted"),
    [
        (3, 10, (0, 0, 1, 1, 2, 2, 2, 3, 3, 3)),  # 3 * .5 = 1.5 is rounded up to 2
        (2, 10, (0, 0, 0, 1, 1, 1, 2, 2, 2, 2)),
        (3, 3, (1, 2, 3)),  # nothing is lost when E is small, only late
        (6, 10, (0, 1, 1, 2, 3, 4, 5, 5, 6, 6)),  # 6 * .9045 = 5.43: five of six in epoch 8
        (5, 2, (3, 5)),  # 5 * .5 = 2.5 is 3; banker's rounding would give 2
        (4, 1, (4,)),
        (0, 3, (0, 0, 0)),
    ],
)
def test_admitted_counts(red: int, epochs: int, admitted: tuple[int, ...]) -> None:
    assert ranked(red + 1, green=1).admitted(epochs) == admitted


@pytest.mark.parametrize(("x", "whole"), [(0.0, 0), (0.49, 0), (0.5, 1), (2.5, 3), (0.5 - 1e-12, 1)])
def test_halves_are_rounded_up(x: float, whole: int) -> None:
    assert round_half_up(x) == whole


def ranked(m: int, green: int) -> Curriculum:
    """Rows m-1, ..., 0 by rank."""
    order = torch.arange(m).flip(0)
    return Curriculum(order=order, losses=order.double(), uncertainties=order.double(), green=green)


@given(st.integers(0, 60), st.integers(1, 30), st.sampled_from(Gate), st.data())
def test_rows_are_only_added_and_all_are_in_at_the_end(m: int, epochs: int, gate: Gate, data) -> None:
    made = ranked(m, data.draw(st.integers(min(m, 1), m)))
    admit = made.admission(epochs, gate)
    seen = [admit(epoch, torch.Generator()).tolist() for epoch in range(1, epochs + 1)]
    for earlier, later in pairwise(seen):
        assert later[: len(earlier)] == earlier
    assert [len(rows) - made.green for rows in seen] == list(made.admitted(epochs, gate))
    assert seen[0][: made.green] == made.order[: made.green].tolist()
    assert seen[-1] == made.order.tolist()


def test_shuffling_stays_within_the_admitted_rows() -> None:
    made, generator = ranked(40, green=10), torch.Generator().manual_seed(1)
    rows = made.admission(3, shuffle=True)(1, generator).tolist()  # 30 * .25 = 7.5: 8 red ones
    assert sorted(rows) == sorted(made.order[:18].tolist())
    assert rows != made.order[:18].tolist()


def test_other_shapes_than_a_classification_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"logits \(m, k\) and labels \(m,\), came \(2, 3, 4\) and \(2,\)"):
        curriculum(torch.zeros(2, 3, 4), torch.zeros(2, dtype=torch.int64))
    assert curriculum(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)).order.tolist() == []


def test_warm_up_is_the_first_rounds_and_starts_again_when_rows_grew() -> None:
    stage = Stage()
    assert [stage.at(r, 8, 3).warm(r, 2) for r in (1, 2, 3)] == [True, True, False]
    stage = stage.at(4, 8, 3)
    assert not stage.warm(4, 2)
    stage = stage.at(9, 12, 3)  # grew between its rounds 4 and 9
    assert [stage.at(r, 12, 3).warm(r, 2) for r in (9, 10, 11, 12)] == [True, True, True, False]
    assert not stage.at(12, 5, 3).warm(12, 2)  # fewer rows aren't growth
    assert Stage(rows=12, warm_until=11).at(10, 13, 3) == Stage(rows=13, warm_until=12)


def start() -> nn.Linear:
    """A model that decides by the second feature; the classes differ in the first."""
    model = nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[0.0, -1.5], [0.0, 1.5]]))
    return model


FEATURES = torch.tensor([[0.9, -1.0], [2.0, 0.3], [1.8, 0.2], [-2.0, -0.3], [-1.9, -0.25]])
DATA = Examples(FEATURES, (FEATURES[:, 0] > 0).long())


def distance_moved_by_row_0(orders: list[list[int]]) -> float:
    """How far the steps with row 0 move the weights, in a training of one row a step, one list an epoch."""
    model, moved = start(), 0.0
    sgd = torch.optim.SGD(model.parameters(), lr=0.5)
    for row in (row for order in orders for row in order):
        before = model.weight.detach().clone()
        train(model, sgd, DATA, ((torch.tensor([row]),),), seed=0)
        moved += float((model.weight.detach() - before).norm()) if row == 0 else 0.0
    return moved


def test_the_same_red_row_moves_the_weights_less_when_it_is_admitted_late() -> None:
    made = curriculum(start()(FEATURES).detach(), DATA.labels)
    assert made.order[made.green :].tolist() == [0]  # right under the rule, wrong under the received model
    late = [made.admission(10)(epoch, torch.Generator()).tolist() for epoch in range(1, 11)]
    assert [0 in order for order in late] == [False] * 4 + [True] * 6  # alpha .3455 rounds to 0, .5 to 1
    green = [row for row in made.order.tolist() if row != 0]
    first = [[0, *green]] * 6 + [green] * 4  # as many steps with row 0, each before the others of its epoch
    assert distance_moved_by_row_0(late) < 0.9 * distance_moved_by_row_0(first)


def test_one_epoch_or_no_red_row_is_an_ordinary_epoch_over_rows_sorted_by_loss() -> None:
    scores = start()(FEATURES).detach()
    order = torch.argsort(cross_entropy(scores, DATA.labels), stable=True)
    in_order = (tuple(order.split(2)),)
    made = curriculum(scores, DATA.labels)
    no_red = Curriculum(order=made.order, losses=made.losses, uncertainties=made.uncertainties, green=5)
    for one, epochs in ((made, 1), (no_red, 3)):
        steps = plan(5, epochs=epochs, batch=2, generator=torch.Generator(), admission=one.admission(epochs))
        weights = []
        for rows in (steps, in_order * epochs):
            model = start()
            train(model, torch.optim.SGD(model.parameters(), lr=0.5), DATA, rows, seed=0)
            weights.append(model.weight)
        assert torch.equal(*weights)
