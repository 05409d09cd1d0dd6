"""Layers: draws from the explicit generator, dropout, noise, and normalisation of batches of any size."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from vertical.choices import Normalisation
from vertical.layers import (
    BatchNormalisation,
    LayerNormalisation,
    add_noise,
    convolution,
    drop,
    linear,
    normalisation,
)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_initial_weights_fill_their_bound() -> None:
    weights = linear(4, 500, seeded(0)).weight.detach()
    assert bool((weights.abs() <= 0.5).all())
    assert float(weights.abs().max()) > 0.49
    assert abs(float(weights.mean())) < 0.03


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


def test_a_convolution_draws_within_the_bound_of_its_nine_pixels() -> None:
    made = convolution(4, 60, seeded(0))
    bound = 1 / 6  # 1 / sqrt(9 * 4)
    assert bool((made.weight.detach().abs() <= bound).all())
    assert float(made.weight.detach().abs().max()) > 0.98 * bound
    assert made(torch.zeros(1, 4, 5, 2)).shape == (1, 60, 5, 2)


def slow_batch(values: Tensor) -> Tensor:
    """Each channel of values (n, c, h, w) over all rows and pixels."""
    out = torch.empty_like(values)
    for c in range(values.shape[1]):
        channel = values[:, c]
        out[:, c] = (channel - channel.mean()) / (channel.var(unbiased=False) + 1e-5).sqrt()
    return out


def test_batch_normalisation_of_a_batch_is_by_channel() -> None:
    made, values = BatchNormalisation(3), torch.randn(4, 3, 2, 5, generator=seeded(0)) * 3 + 1
    torch.testing.assert_close(made(values, True), slow_batch(values))
    # The running statistics move a tenth of the way, the variance as an unbiased estimate.
    over = (0, 2, 3)
    torch.testing.assert_close(made.mean, 0.1 * values.mean(dim=over))
    torch.testing.assert_close(made.variance, 0.9 + 0.1 * values.var(dim=over))


def test_one_row_is_normalised_by_the_running_statistics() -> None:
    made = BatchNormalisation(2)
    made.mean.copy_(torch.tensor([1.0, -1.0]))
    made.variance.copy_(torch.tensor([4.0, 0.25]))
    row = torch.tensor([[3.0, 0.0]])
    expected = torch.tensor([[1.0, 2.0]])  # (3 - 1) / 2 and (0 + 1) / .5
    for training in (True, False):
        torch.testing.assert_close(made(row, training), expected, atol=1e-4, rtol=0)
    assert made.mean.tolist() == [1.0, -1.0]
    assert made.variance.tolist() == [4.0, 0.25]


def test_evaluation_changes_nothing_and_takes_each_row_by_itself() -> None:
    made = BatchNormalisation(3)
    made(torch.randn(8, 3, generator=seeded(0)), True)
    before = made.mean.clone()
    values = torch.randn(5, 3, generator=seeded(1))
    whole = made(values, False)
    assert torch.equal(made.mean, before)
    torch.testing.assert_close(whole[2:3], made(values[2:3], False))


def test_layer_normalisation_takes_each_row_by_itself() -> None:
    made, values = LayerNormalisation(3), torch.randn(4, 3, 2, 2, generator=seeded(0)) * 3 + 1
    flat = values.flatten(1)
    centred = flat - flat.mean(dim=1, keepdim=True)
    expected = centred / (flat.var(dim=1, keepdim=True, unbiased=False) + 1e-5).sqrt()
    for training in (True, False):
        torch.testing.assert_close(made(values, training).flatten(1), expected)


@pytest.mark.parametrize("kind", Normalisation)
@pytest.mark.parametrize("rows", [0, 1, 2])
def test_any_number_of_rows_is_normalised(kind: Normalisation, rows: int) -> None:
    for shape in ((rows, 3), (rows, 3, 2, 2)):
        made = normalisation(kind, 3)
        values = torch.ones(shape, requires_grad=True)  # no variance at all
        for training in (True, False):
            out = made(values, training)
            assert out.shape == shape
            out.sum().backward()
            assert values.grad is not None
            assert bool(out.isfinite().all())
            assert bool(values.grad.isfinite().all())
