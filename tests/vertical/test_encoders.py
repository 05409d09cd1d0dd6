"""Encoders: weights and every later draw come from the explicit generator only."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from vertical.config import EncoderKind, FedCVTConfig
from vertical.encoders import Representation, add_noise, drop, encoder, linear, view_encoder

MLP = FedCVTConfig(encoder=EncoderKind.MLP, d=4, hidden=8, dropout=0.5, input_noise=0.3)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_linear_encoder_is_one_affine_map() -> None:
    made = encoder(EncoderKind.LINEAR, 3, 2, hidden=9, dropout=0.9, generator=seeded(0))
    (layer,) = made.layers
    assert isinstance(layer, torch.nn.Linear)
    x = torch.tensor([[1.0, -2.0, 0.5]])
    torch.testing.assert_close(made(x, seeded(1)), x @ layer.weight.T + layer.bias)


def test_mlp_encoder_is_linear_relu_linear() -> None:
    made = encoder(EncoderKind.MLP, 3, 2, hidden=5, dropout=0.0, generator=seeded(0))
    first, second = made.layers
    assert isinstance(first, torch.nn.Linear)
    assert isinstance(second, torch.nn.Linear)
    x = torch.tensor([[1.0, -2.0, 0.5]])
    hidden = (x @ first.weight.T + first.bias).clamp(min=0)
    torch.testing.assert_close(made(x), hidden @ second.weight.T + second.bias)


def test_initial_weights_fill_their_bound() -> None:
    weights = linear(4, 500, seeded(0)).weight.detach()
    assert bool((weights.abs() <= 0.5).all())
    assert float(weights.abs().max()) > 0.49
    assert abs(float(weights.mean())) < 0.03


def test_unique_and_common_encoders_differ() -> None:
    out = view_encoder(MLP, MLP.active_view, 3, seeded(0))(torch.ones(2, 3))
    assert out.unique.shape == out.common.shape == (2, 4)
    assert not torch.allclose(out.unique, out.common)


def test_widths_of_unique_and_common_come_from_the_partys_view() -> None:
    config = FedCVTConfig(d=4, unique_passive=6)
    out = view_encoder(config, config.passive_view, 3, seeded(0))(torch.ones(2, 3))
    assert (out.unique.shape, out.common.shape) == ((2, 6), (2, 4))
    back = Representation.split(out.joined(), 4)
    assert torch.equal(back.unique, out.unique)
    assert torch.equal(back.common, out.common)


def run(seed: int) -> tuple[Tensor, Tensor]:
    generator = seeded(seed)
    made = view_encoder(MLP, MLP.active_view, 3, generator)
    out = made(torch.linspace(-1, 1, 12).reshape(4, 3), generator).joined()
    return out, torch.cat([parameter.flatten() for parameter in made.parameters()])


def test_equal_generators_give_equal_bits_whatever_the_global_state() -> None:
    torch.manual_seed(1)
    first = run(5)
    torch.manual_seed(2)
    assert all(torch.equal(a, b) for a, b in zip(first, run(5), strict=True))
    assert not torch.equal(first[1], run(6)[1])


def test_global_random_state_is_left_alone() -> None:
    before = torch.get_rng_state()
    run(5)
    assert torch.equal(before, torch.get_rng_state())


def test_without_generator_nothing_is_drawn() -> None:
    made = view_encoder(MLP, MLP.active_view, 3, seeded(0))
    x = torch.ones(2, 3)
    assert torch.equal(made(x).joined(), made(x).joined())
    assert not torch.equal(made(x, seeded(1)).joined(), made(x, seeded(2)).joined())


def test_drop_scales_what_it_keeps() -> None:
    out = drop(torch.ones(10_000), 0.25, seeded(0))
    torch.testing.assert_close(out.unique(), torch.tensor([0.0, 1 / 0.75]))
    assert float(out.mean()) == pytest.approx(1.0, abs=0.02)
    x = torch.ones(3)
    assert drop(x, 0.25, None) is x
    assert drop(x, 0.0, seeded(0)) is x


def test_noise_has_the_stated_deviation() -> None:
    out = add_noise(torch.zeros(10_000), 0.3, seeded(0))
    assert float(out.std()) == pytest.approx(0.3, abs=0.01)
    x = torch.ones(3)
    assert add_noise(x, 0.3, None) is x
    assert add_noise(x, 0.0, seeded(0)) is x


def test_representation_joins_splits_stacks_and_takes() -> None:
    view = Representation(torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [4.0]]))
    assert view.joined().tolist() == [[1.0, 3.0], [2.0, 4.0]]
    back = Representation.split(view.joined(), 1)
    assert torch.equal(back.unique, view.unique)
    assert torch.equal(back.common, view.common)
    assert Representation.stack([view, view.take(slice(1, 2))]).joined().tolist()[2] == [2.0, 4.0]
    assert view.take(torch.tensor([1, 0])).common.tolist() == [[4.0], [3.0]]
    assert view.zeros(3).joined().tolist() == [[0.0, 0.0]] * 3


def test_detach_cuts_history() -> None:
    view = Representation(torch.ones(1, 1, requires_grad=True), torch.ones(1, 1, requires_grad=True))
    assert view.joined().requires_grad
    assert not view.detach().joined().requires_grad
