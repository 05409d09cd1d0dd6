"""The three heads read the views they are meant to read."""

from __future__ import annotations

import pytest
import torch

from vertical.config import FedCVTConfig
from vertical.encoders import Representation
from vertical.heads import Heads


def view(seed: int, rows: int = 3, d: int = 2) -> Representation:
    generator = torch.Generator().manual_seed(seed)
    return Representation(
        torch.randn(rows, d, generator=generator), torch.randn(rows, d, generator=generator)
    )


@pytest.mark.parametrize("head_hidden", [0, 5])
def test_each_head_depends_on_its_own_views_only(head_hidden: int) -> None:
    heads = Heads(FedCVTConfig(d=2, head_hidden=head_hidden), 4, torch.Generator().manual_seed(0))
    one = heads(view(1), view(2))
    other_passive, other_active = heads(view(1), view(3)), heads(view(4), view(2))
    assert one.joint.shape == one.active.shape == one.passive.shape == (3, 4)
    assert torch.equal(one.active, other_passive.active)
    assert torch.equal(one.passive, other_active.passive)
    assert not torch.equal(one.joint, other_passive.joint)
    assert not torch.equal(one.joint, other_active.joint)


def test_the_joint_head_alone_agrees_with_the_call_on_all() -> None:
    heads = Heads(FedCVTConfig(d=2), 3, torch.Generator().manual_seed(0))
    assert torch.equal(heads(view(1), view(2)).joint, heads.joint_logits(view(1), view(2)))


def test_heads_emit_logits_not_probabilities() -> None:
    heads = Heads(FedCVTConfig(d=2), 3, torch.Generator().manual_seed(0))
    big = Representation(view(1).unique * 100, view(1).common * 100)
    logits = heads(big, view(2)).active.detach()
    assert float(logits.min()) < 0.0
    assert float(logits.max()) > 1.0


def test_linear_joint_head_is_an_affine_map_of_both_views() -> None:
    heads = Heads(FedCVTConfig(d=2), 3, torch.Generator().manual_seed(0))
    (layer,) = heads.joint.layers
    assert isinstance(layer, torch.nn.Linear)
    assert layer.weight.shape == (3, 8)
    both = torch.cat([view(1).unique, view(1).common, view(2).unique, view(2).common], dim=1)
    torch.testing.assert_close(heads.joint_logits(view(1), view(2)), both @ layer.weight.T + layer.bias)


def test_views_of_different_widths() -> None:
    config = FedCVTConfig(d=2, unique_active=5, unique_passive=1)
    heads = Heads(config, 3, torch.Generator().manual_seed(0))
    active = Representation(torch.ones(4, 5), torch.ones(4, 2))
    passive = Representation(torch.ones(4, 1), torch.ones(4, 2))
    assert [heads.active.layers[0].in_features, heads.passive.layers[0].in_features] == [7, 3]
    assert heads(active, passive).joint.shape == (4, 3)


def test_no_rows_give_no_logits() -> None:
    heads = Heads(FedCVTConfig(d=2), 3, torch.Generator().manual_seed(0))
    assert heads(view(1, rows=0), view(2, rows=0)).joint.shape == (0, 3)
