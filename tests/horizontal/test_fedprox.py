"""FedProx's penalty: AC-11's values, and what wrong implementations give."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from horizontal.fedprox import proximal


def vector(*values: float, grad: bool = False) -> torch.Tensor:
    return torch.tensor(values, requires_grad=grad)


def test_penalty_and_gradient_by_hand() -> None:
    # mu/2 (1^2 + 2^2) = .05 * 5 = .25; gradient mu (w - w_global) = (.1, .2); without the square it were .1118
    w = vector(1.0, 2.0, grad=True)
    penalty = proximal({"w": np.zeros(2, np.float32)}, 0.1)({"w": w})
    penalty.backward()
    assert penalty.item() == pytest.approx(0.25)
    torch.testing.assert_close(w.grad, vector(0.1, 0.2))


def test_all_parameters_count() -> None:
    penalty = proximal({"w": np.zeros(1), "b": np.ones(1), "count": np.array(7)}, 2.0)
    assert penalty({"w": vector(3.0), "b": vector(3.0)}).item() == 13.0  # 3^2 + 2^2


def test_the_received_weights_are_a_copy() -> None:
    # If it kept the model's own memory, the distance would always be 0.
    model = nn.Linear(2, 1, bias=False)
    penalty = proximal({"weight": model.weight.detach().numpy()}, 0.1)
    with torch.no_grad():
        model.weight += 2.0
    assert penalty(dict(model.named_parameters())).item() == pytest.approx(0.05 * 8)


def test_stacked_clients_give_the_sum_of_their_penalties() -> None:
    penalty = proximal({"w": np.zeros(2)}, 2.0)
    both = penalty({"w": torch.tensor([[1.0, 2.0], [3.0, 0.0]], dtype=torch.float64)})
    assert both.item() == 5.0 + 9.0


def test_mu_zero_is_no_penalty() -> None:
    assert proximal({"w": np.zeros(1)}, 0.0) is None
