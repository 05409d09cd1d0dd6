"""Encoders: weights and every later draw come from the explicit generator only."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import Tensor

from vertical.choices import EncoderKind, Normalisation
from vertical.config import FedCVTConfig
from vertical.encoders import Encoder, ImageEncoder, Representation, encoder, view_encoder

MLP = FedCVTConfig(encoder=EncoderKind.MLP, d=4, hidden=8, dropout=0.5, input_noise=0.3)
CNN = replace(MLP, encoder=EncoderKind.CNN, channels=3, image_active="4x5")


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_linear_encoder_is_one_affine_map() -> None:
    made = encoder(FedCVTConfig(dropout=0.9), 3, 2, None, seeded(0))
    assert isinstance(made, Encoder)
    (layer,) = made.layers
    assert isinstance(layer, torch.nn.Linear)
    x = torch.tensor([[1.0, -2.0, 0.5]])
    torch.testing.assert_close(made(x, seeded(1)), x @ layer.weight.T + layer.bias)


@pytest.mark.parametrize("kind", Normalisation)
def test_mlp_encoder_is_linear_normalisation_relu_linear(kind: Normalisation) -> None:
    made = encoder(replace(MLP, dropout=0.0, normalisation=kind), 3, 2, None, seeded(0))
    assert isinstance(made, Encoder)
    first, second = made.layers
    assert isinstance(first, torch.nn.Linear)
    assert isinstance(second, torch.nn.Linear)
    x = torch.tensor([[1.0, -2.0, 0.5], [0.0, 1.0, 1.0]])
    hidden = x @ first.weight.T + first.bias  # (2, 8)
    if kind != Normalisation.NONE:
        over = 0 if kind == Normalisation.BATCH else 1
        deviation = (hidden.var(dim=over, keepdim=True, unbiased=False) + 1e-5).sqrt()
        hidden = (hidden - hidden.mean(dim=over, keepdim=True)) / deviation
    expected = hidden.clamp(min=0) @ second.weight.T + second.bias
    torch.testing.assert_close(made(x, seeded(1)), expected)


def slow_convolution(maps: Tensor, layer: torch.nn.Conv2d) -> Tensor:
    """3x3 convolution of one row's maps (c, h, w), zeros around them."""
    _, h, w = maps.shape
    out = torch.zeros(layer.out_channels, h, w)
    for y, x in product(range(h), range(w)):
        for dy, dx in product((-1, 0, 1), repeat=2):
            if 0 <= y + dy < h and 0 <= x + dx < w:
                out[:, y, x] += layer.weight[:, :, dy + 1, dx + 1] @ maps[:, y + dy, x + dx]
    return out + layer.bias[:, None, None]


def slow_maximum(maps: Tensor) -> Tensor:
    """The maximum over 2x2 pixels, less at an odd border."""
    _, h, w = maps.shape
    rows = [
        torch.stack([maps[:, y : y + 2, x : x + 2].amax((1, 2)) for x in range(0, w, 2)], 1)
        for y in range(0, h, 2)
    ]
    return torch.stack(rows, dim=1)


@pytest.mark.parametrize("image", [(5, 3), (4, 8), (1, 1)])
def test_image_encoder_equals_slow_loops_over_pixels(image: tuple[int, int]) -> None:
    config = replace(CNN, channels=2, dropout=0.0)
    made = encoder(config, image[0] * image[1], 3, image, seeded(0))
    assert isinstance(made, ImageEncoder)
    pixels = torch.randn(2, image[0] * image[1], generator=seeded(1))
    with torch.no_grad():
        for i in range(2):
            maps = pixels[i].reshape(1, *image)  # row by row
            for layer in made.layers:
                maps = slow_maximum(slow_convolution(maps, layer).clamp(min=0))
            torch.testing.assert_close(made(pixels)[i], made.last(maps.flatten()), atol=1e-5, rtol=1e-5)


def test_a_party_without_an_image_gets_an_mlp() -> None:
    made = view_encoder(CNN, CNN.passive_view, 3, seeded(0))
    assert isinstance(made.common, Encoder)
    assert len(made.common.layers) == 2
    assert isinstance(view_encoder(CNN, CNN.active_view, 20, seeded(0)).unique, ImageEncoder)


@pytest.mark.parametrize("kind", Normalisation)
@pytest.mark.parametrize("rows", [0, 1, 2])
def test_any_number_of_rows_passes_forth_and_back(kind: Normalisation, rows: int) -> None:
    for config, inputs in ((MLP, 3), (CNN, 20)):
        config = replace(config, normalisation=kind)
        made = view_encoder(config, config.active_view, inputs, seeded(0))
        for generator in (seeded(1), None):
            views = made(torch.randn(rows, inputs, generator=seeded(2)), generator).joined()
            assert views.shape == (rows, 8)
            assert bool(views.isfinite().all())
            views.square().sum().backward()
        assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in made.parameters())
        assert all(bool(buffer.isfinite().all()) for buffer in made.buffers())


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
