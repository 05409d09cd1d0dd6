"""Metrics of a classifier by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from horizontal.evaluation import metrics
from horizontal.local import Examples


class Echo(nn.Module):
    """Takes its input for probabilities."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log(x)


def test_by_hand() -> None:
    # right: rows 1, 2, 3; wrong: row 4 (class 1 answered 0). Class 2 doesn't occur.
    rows = torch.tensor(
        [[0.8, 0.1, 0.1], [0.7, 0.2, 0.1], [0.2, 0.7, 0.1], [0.5, 0.4, 0.1]], dtype=torch.float64
    )
    found = metrics(Echo(), Examples(rows, torch.tensor([0, 0, 1, 1])))
    loss = -(math.log(0.8) + math.log(0.7) + math.log(0.7) + math.log(0.4)) / 4
    assert found == pytest.approx(
        {"loss": loss, "accuracy": 0.75, "balanced_accuracy": 0.75, "majority_rate": 0.5}
    )


def test_a_constant_answer_is_found_out_by_balanced_accuracy() -> None:
    labels = torch.tensor([0] * 99 + [1])
    constant = torch.tensor([[0.9, 0.1]]).expand(100, 2)
    found = metrics(Echo(), Examples(constant, labels))
    assert (found["accuracy"], found["balanced_accuracy"], found["majority_rate"]) == pytest.approx(
        (0.99, 0.5, 0.99)
    )


def test_one_class_and_no_rows() -> None:
    one = metrics(Echo(), Examples(torch.tensor([[0.9, 0.1]]), torch.tensor([0])))
    assert (one["accuracy"], one["balanced_accuracy"], one["majority_rate"]) == (1.0, 1.0, 1.0)
    assert metrics(Echo(), Examples(torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64))) == {}


def test_of_no_classification_there_is_only_the_mean_objective() -> None:
    def squared(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return (outputs[:, 0] - labels).square()

    rows = Examples(torch.tensor([[1.0], [3.0]]), torch.tensor([1.0, 1.0]))
    assert metrics(nn.Identity(), rows, squared) == {"loss": 2.0}
