"""FedOUI: the worked weights, the indicator, where it looks, and the fits that moments don't give."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import integrate, special
from torch import nn

from horizontal.average import Contribution, UpdateError
from horizontal.fedoui import (
    beta_fit,
    check_indicator,
    check_model,
    indicator,
    model_indicator,
    smoothed,
    typicality,
    weights,
)
from protocols.errors import ConfigError

VALUES = np.array([0.12646484375, 0.25732421875, 0.31005859375, 0.31787109375, 0.37158203125])


def test_the_worked_round() -> None:
    assert beta_fit(VALUES) == pytest.approx((6.095108, 15.935921), abs=1e-6)
    scores = typicality(VALUES)
    assert scores.tolist() == pytest.approx([0.074269, 0.894996, 0.682054, 0.626410, 0.316480], abs=1e-6)
    shares = weights(scores, (210, 226, 66, 40, 17))
    assert shares.tolist() == pytest.approx([0.053786, 0.689048, 0.153403, 0.085398, 0.018365], abs=1e-6)
    assert shares.sum() == pytest.approx(1.0)


def test_indicator_by_hand() -> None:
    # 4 rows: unit 1 on in 2 (balanced), unit 2 in 1, unit 3 always, unit 4 never (0 is off): (2 + 1 + 0 + 0)/4 / 2
    values = torch.tensor(
        [[1.0, 1.0, 1.0, 0.0], [1.0, -1.0, 2.0, 0.0], [-1.0, -1.0, 1.0, -3.0], [-1.0, -2.0, 1.0, 0.0]]
    )
    assert indicator(values) == 0.375


@pytest.mark.parametrize(
    ("rows", "value"),
    [
        ([[1.0]], 0.0),  # B < 2
        ([], 0.0),
        ([[1.0], [-1.0]], 1.0),
        ([[1.0], [-1.0], [-1.0]], 1.0),  # 1 of 3: min(1, 2)/floor(3/2)
        ([[1.0], [2.0], [3.0]], 0.0),
    ],
)
def test_indicator_of_few_rows(rows: list[list[float]], value: float) -> None:
    assert indicator(torch.tensor(rows).reshape(len(rows), 1)) == value


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(3, 6),
        nn.BatchNorm1d(6),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(6, 5),
        nn.ReLU(),
        nn.Linear(5, 2),
    )


def test_it_looks_at_the_penultimate_layer_before_its_activation_in_evaluation_mode() -> None:
    net, probe = model(), torch.randn(16, 3, generator=torch.Generator().manual_seed(1))
    net[1].running_mean += 0.3
    net.train()
    with torch.no_grad():
        hidden = net.eval()[1](net[0](probe))
        penultimate = net[4](torch.relu(hidden))
    assert model_indicator(net.train(), probe) == indicator(penultimate)
    # over all layers: the normalised values stand for the first one, since the activation function gets them
    both = (indicator(hidden) + indicator(penultimate)) / 2
    assert model_indicator(net, probe, all_layers=True) == pytest.approx(both)
    assert all(not module._forward_hooks for module in net.modules())


def test_every_unit_of_a_feature_map_counts() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 2))
    probe = torch.randn(8, 1, 6, 6, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        assert model_indicator(net, probe) == indicator(net[0](probe).reshape(8, 32))


def test_a_model_without_a_hidden_layer_is_refused() -> None:
    with pytest.raises(ConfigError, match="only one layer"):
        check_model(nn.Sequential(nn.Flatten(), nn.Linear(3, 2)))
    check_model(model())


def test_extremes_are_fitted_by_likelihood() -> None:
    # mean 1/2, variance .498 > 1/4: no Beta has these moments. The likelihood's maximum is symmetric.
    extremes = np.array([0.0, 1.0])
    a, b = beta_fit(extremes)
    assert a == pytest.approx(b, rel=1e-3)
    x = np.clip(extremes, 1e-3, 1 - 1e-3)
    grid = np.linspace(0.05, 2, 400)
    slow = [(np.log(x) * (g - 1) + np.log1p(-x) * (g - 1) - special.betaln(g, g)).sum() for g in grid]
    assert a == pytest.approx(grid[int(np.argmax(slow))], abs=0.01)


@pytest.mark.parametrize(("values", "ranks"), [([0.3], [1]), ([0.3] * 3, [2, 2, 2]), ([0.0] * 2, [1.5, 1.5])])
def test_where_no_beta_fits_ranks_stand_for_it(values: list[float], ranks: list[float]) -> None:
    assert beta_fit(np.array(values)) is None
    share = np.array(ranks) / (len(values) + 1)
    assert typicality(np.array(values)).tolist() == (2 * np.minimum(share, 1 - share)).tolist()


def test_the_score_is_twice_the_smaller_tail() -> None:
    a, b = beta_fit(VALUES)
    density = lambda x: x ** (a - 1) * (1 - x) ** (b - 1) / special.beta(a, b)  # noqa: E731
    tail = integrate.quad(density, 0, VALUES[0])[0]
    assert typicality(VALUES)[0] == pytest.approx(2 * tail, rel=1e-6)


def test_nobody_weighs_anything_without_rows() -> None:
    assert weights(np.array([0.5, 1.0]), (0, 0)).tolist() == [0.0, 0.0]
    assert weights(np.array([0.0, 0.0]), (3, 1)).tolist() == [0.75, 0.25]  # both atypical: by size


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_an_indicator_outside_its_range_names_the_client(value: float) -> None:
    def sent(oui: float) -> Contribution:
        return Contribution(client="client-2", examples=1, arrays={}, extras={"oui": np.array(oui)})

    with pytest.raises(UpdateError, match=r"client-2: expected an indicator in \[0, 1\]"):
        check_indicator(sent(value))
    check_indicator(sent(0.0))
    check_indicator(sent(1.0))


def test_moving_average() -> None:
    now = smoothed(np.array([np.nan, 0.5]), np.array([0.2, 0.1]), 0.75)
    assert now.tolist() == pytest.approx([0.2, 0.4])
