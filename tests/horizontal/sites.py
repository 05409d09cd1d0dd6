"""Small models and clients for tests of whole runs."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from horizontal.local import Examples


def drawn(n: int, seed: int, shift: float = 0.0) -> Examples:
    """Rows whose class is the sign of a fixed direction, with a little noise; `shift` moves the features."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(n, 4, generator=generator) + shift
    score = features @ torch.tensor([1.0, -2.0, 0.5, 0.0]) + 0.3 * torch.randn(n, generator=generator)
    return Examples(features, (score > 0).long())


CLIENTS = {"client-1": drawn(60, 1), "client-2": drawn(33, 2, 0.5), "client-3": drawn(5, 3, -0.5)}


def linear() -> nn.Module:
    model = nn.Linear(4, 2)
    with torch.no_grad():
        model.weight.copy_(torch.linspace(-0.5, 0.5, 8).reshape(2, 4))
        model.bias.zero_()
    return model


def hidden() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def deep() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))


def central(model: nn.Module, data: Examples, steps: int, lr: float) -> nn.Module:
    """Plain full-batch gradient descent."""
    model = copy.deepcopy(model)
    sgd = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(steps):
        sgd.zero_grad()
        nn.functional.cross_entropy(model(data.features), data.labels).backward()
        sgd.step()
    return model


def accuracy(model: nn.Module, data: Examples) -> float:
    with torch.no_grad():
        return float((model(data.features).argmax(dim=1) == data.labels).float().mean())


def flat(model: nn.Module) -> Tensor:
    return torch.cat([value.flatten().double() for value in model.state_dict().values()])
