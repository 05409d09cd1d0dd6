"""FLASH's robust loss, pseudo labels and signals by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from horizontal.local import Examples, cross_entropy
from horizontal.robust_loss import label_entropy, pseudo_labels, robust_loss, signals
from protocols.errors import ConfigError


def logits(*rows: tuple[float, ...]) -> torch.Tensor:
    return torch.log(torch.tensor(rows, dtype=torch.float64))


def test_loss_by_hand() -> None:
    # p_y = .5: CE ln 2, RCE 4 (1 - .5) = 2; p_y = .25: ln 4, 3
    outputs, labels = logits((0.5, 0.25, 0.25), (0.5, 0.25, 0.25)), torch.tensor([0, 1])
    losses = robust_loss(0.1, 2.0)(outputs, labels)
    assert losses.tolist() == pytest.approx([0.1 * math.log(2) + 4, 0.1 * math.log(4) + 6])
    assert torch.equal(robust_loss(1.0, 0.0)(outputs, labels), cross_entropy(outputs, labels))


def test_reverse_cross_entropy_is_bounded_and_so_is_its_pull() -> None:
    outputs = torch.tensor([[50.0, 0.0]], dtype=torch.float64, requires_grad=True)
    loss = robust_loss(0.0, 1.0)(outputs, torch.tensor([1])).sum()
    loss.backward()
    assert loss.item() == pytest.approx(4.0)
    assert outputs.grad.abs().max() < 1e-9  # cross-entropy would pull with 1
    assert torch.autograd.gradcheck(
        lambda z: robust_loss(0.3, 0.7)(z, torch.tensor([1, 0])),
        torch.tensor([[0.3, -0.2, 0.1], [1.0, 2.0, -1.0]], dtype=torch.float64, requires_grad=True),
    )


def test_pseudo_labels_are_the_models_answers() -> None:
    assert pseudo_labels(logits((0.5, 0.3, 0.2), (0.1, 0.2, 0.7))).tolist() == [0, 2]


@pytest.mark.parametrize(
    ("labels", "classes", "entropy"),
    [
        ([1, 1, 1], 2, 0.0),
        ([0, 1], 2, 1.0),
        ([0, 1], 4, 0.5),
        ([0, 1, 2, 3], 4, 1.0),
        ([], 3, 0.0),
        ([0, 0], 1, 0.0),
    ],
)
def test_label_entropy(labels: list[int], classes: int, entropy: float) -> None:
    assert label_entropy(torch.tensor(labels, dtype=torch.int64), classes) == pytest.approx(entropy)


class Echo(nn.Module):
    """Takes its input for probabilities."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log(x)


def rows(*probabilities: tuple[float, ...], labels: list[int]) -> Examples:
    return Examples(
        torch.tensor(probabilities, dtype=torch.float64).reshape(-1, 2),
        torch.tensor(labels, dtype=torch.int64),
    )


TRAINING = rows((0.9, 0.1), (0.2, 0.8), (0.6, 0.4), (0.7, 0.3), labels=[0, 1, 1, 1])
NONE = rows(labels=[])


def test_signals_by_hand() -> None:
    # labels 1:3, entropy of (.25, .75) in bits; validation losses -ln .5 and -ln .1, with pseudo labels -ln .5, -ln .9;
    # rows 3 and 4 are answered 0
    validation = rows((0.5, 0.5), (0.9, 0.1), labels=[0, 1])
    entropy = -(0.25 * math.log2(0.25) + 0.75 * math.log2(0.75))
    given, pseudo = -(math.log(0.5) + math.log(0.1)) / 2, -(math.log(0.5) + math.log(0.9)) / 2
    assert signals(Echo(), TRAINING, validation, 7.0).tolist() == pytest.approx(
        [entropy, given, pseudo, 0.5, 7.0]
    )


def test_without_validation_rows_the_training_rows_stand_for_them() -> None:
    assert signals(Echo(), TRAINING, NONE, 0.0).tolist() == signals(Echo(), TRAINING, TRAINING, 0.0).tolist()
    assert signals(Echo(), NONE, NONE, 3.0).tolist() == [0, 0, 0, 0, 3.0]


def test_other_rows_than_a_classification_are_refused() -> None:
    images = Examples(torch.rand(2, 3, 4), torch.zeros(2, dtype=torch.int64))
    with pytest.raises(ConfigError, match=r"came \(2, 3, 4\) and \(2,\)"):
        signals(Echo(), images, NONE, 0.0)
