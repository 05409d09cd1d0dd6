"""Models as named arrays: there and back, and what doesn't fit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from horizontal.average import UpdateError
from horizontal.local import Examples, plan, train
from horizontal.weights import model_arrays, parameter_names, set_model
from protocols.errors import ConfigError


def net(*layers: nn.Module) -> nn.Module:
    model, drawn = nn.Sequential(*layers), torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=drawn))
    return model


def fit(model: nn.Module) -> None:
    drawn = torch.Generator().manual_seed(0)
    data = Examples(torch.randn(8, 3, generator=drawn), torch.zeros(8, dtype=torch.int64))
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, sgd, data, plan(8, epochs=1, batch=4, generator=drawn), seed=0)


def test_a_model_as_arrays_and_back_with_buffers() -> None:
    model, other = (net(nn.Linear(3, 4), nn.BatchNorm1d(4)) for _ in range(2))
    fit(model)
    arrays = model_arrays(model)
    assert arrays["1.num_batches_tracked"].dtype == np.int64
    set_model(other, arrays, "aggregator")
    again = model_arrays(other)
    for name, value in arrays.items():
        np.testing.assert_array_equal(again[name], value)
    fit(model)
    assert int(arrays["1.num_batches_tracked"]) == 2  # a copy


def test_arrays_of_another_model_are_refused_and_change_nothing() -> None:
    model = net(nn.Linear(3, 2))
    before = model_arrays(model)
    with pytest.raises(UpdateError, match=r"aggregator: '0.weight': expected shape \(2, 3\), came \(4, 3\)"):
        set_model(model, model_arrays(net(nn.Linear(3, 4))), "aggregator")
    for name, value in model_arrays(model).items():
        np.testing.assert_array_equal(value, before[name])


def test_a_dtype_that_does_not_travel_is_named() -> None:
    with pytest.raises(ConfigError, match="'weight' is of bfloat16"):
        model_arrays(nn.Linear(2, 2).bfloat16())


def test_names_of_what_trains() -> None:
    model = net(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 1))
    model[2].requires_grad_(False)
    assert parameter_names(model) == ("0.weight", "0.bias", "1.weight", "1.bias")
