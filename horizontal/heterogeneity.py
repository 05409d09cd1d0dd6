"""How clients differ in simulations: in classes, numbers of rows, features, wrong labels, and growth. numpy only.

Partitions give each client's rows as indices: disjoint, all rows used, sorted. Everything depends on its arguments and
the generator alone. Letters: n rows, k classes coded 0..k-1, labels (n,) of integers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from protocols.errors import ConfigError

Rows: TypeAlias = NDArray[np.int64]
Labels: TypeAlias = NDArray[np.int64]
Generator: TypeAlias = np.random.Generator

_TRIES = 200


def iid(n: int, clients: int, generator: Generator) -> list[Rows]:
    """Equal shares at random; sizes differ by at most 1."""
    return [np.sort(part) for part in np.array_split(generator.permutation(n), clients)]


def dirichlet(
    labels: Labels, clients: int, alpha: float, generator: Generator, *, at_least: int = 1
) -> list[Rows]:
    """Label skew: each class is split among the clients by shares from Dirichlet(alpha, ..., alpha).

    Small alpha: few clients have a class. Drawn again until everybody has `at_least` rows; ConfigError if that fails.
    """
    order = [generator.permutation(np.flatnonzero(labels == label)) for label in np.unique(labels)]
    for _ in range(_TRIES):
        shares = generator.dirichlet(np.full(clients, alpha), size=len(order))
        parts = [_split(rows, share) for rows, share in zip(order, shares, strict=True)]
        found = [np.sort(np.concatenate(own)) for own in zip(*parts, strict=True)]
        if min(map(len, found)) >= at_least:
            return found
    raise ConfigError(
        f"Dirichlet({alpha}): {_TRIES} draws left some of {clients} clients below {at_least} rows"
    )


def quantity_skew(
    n: int, clients: int, alpha: float, generator: Generator, *, at_least: int = 1
) -> list[Rows]:
    """Shares of the rows at random by Dirichlet(alpha, ..., alpha), of the same classes; raises as `dirichlet`."""
    return dirichlet(np.zeros(n, np.int64), clients, alpha, generator, at_least=at_least)


def _split(rows: Rows, share: NDArray[np.float64]) -> list[Rows]:
    return np.split(rows, (np.cumsum(share)[:-1] * len(rows)).astype(np.int64))


def dominant_class(
    labels: Labels, clients: int, generator: Generator, *, share: float = 0.8, skewed: float = 1.0
) -> list[Rows]:
    """Of a share `skewed` of the clients, `share` of the rows are of one class and the others of the other classes.

    The remaining clients get rows at random. All have equal sizes up to 1. Where a class runs out, its clients get
    rows of others: with few rows the shares hold only about.
    """
    sizes = [len(part) for part in np.array_split(labels, clients)]
    classes = generator.permutation(np.unique(labels))
    dominant = [int(classes[i % len(classes)]) for i in range(math.floor(skewed * clients + 0.5))]
    free = generator.permutation(len(labels))
    found: list[list[int]] = [[] for _ in range(clients)]
    for own, label, size in zip(found, dominant, sizes, strict=False):
        wanted = math.floor(share * size + 0.5)
        free = _take(own, free, labels[free] == label, wanted)
    for own, label, size in zip(found, dominant, sizes, strict=False):
        free = _take(own, free, labels[free] != label, size - len(own))
    for own, size in zip(found, sizes, strict=True):
        free = _take(own, free, np.ones(len(free), np.bool_), size - len(own))
    return [np.sort(np.array(own, np.int64)) for own in found]


def _take(own: list[int], free: Rows, fits: NDArray[np.bool_], wanted: int) -> Rows:
    """Moves at most `wanted` of the free rows that fit to `own`; what stays free."""
    at = np.flatnonzero(fits)[: max(0, wanted)]
    own.extend(free[at].tolist())
    return np.delete(free, at)


SETTINGS = ("iid", "dirichletA", "quantityA", "dominantP")
"""How `deal` can be told that clients differ: A is Dirichlet's alpha, P a percentage of one class."""


def deal(setting: str, labels: Labels, clients: int, generator: Generator) -> list[Rows]:
    """The rows of each client for a setting such as "dirichlet0.1" or "dominant80"; ConfigError for another."""
    found = re.fullmatch(r"(iid|dirichlet|quantity|dominant)(\d{1,3}(?:\.\d{1,4})?)?", setting)
    if found is None or (found[1] == "iid") is not (found[2] is None) or not 0 < clients <= len(labels):
        raise ConfigError(
            f"setting {setting[:40]!r} for {clients} clients and {len(labels)} rows",
            remedy=f"one of: {', '.join(SETTINGS)}, with at most as many clients as rows",
        )
    number = float(found[2] or 0)
    match found[1]:
        case "dirichlet" if number > 0:
            return dirichlet(labels, clients, number, generator)
        case "quantity" if number > 0:
            return quantity_skew(len(labels), clients, number, generator)
        case "dominant" if 0 < number <= 100:
            return dominant_class(labels, clients, generator, share=number / 100)
        case "iid":
            return iid(len(labels), clients, generator)
    raise ConfigError(f"setting {setting[:40]!r}: the number is out of its range")


def feature_skew(features: NDArray[np.float32], strength: float, generator: Generator) -> NDArray[np.float32]:
    """A client's features (n, ...) as its own instrument sees them: x exp(strength a) + strength b, a, b ~ N(0, 1)."""
    scale, shift = generator.standard_normal(2)
    seen = features.astype(np.float64) * math.exp(strength * scale) + strength * shift
    return np.asarray(seen, np.float32)


def noise_ratios(clients: int, a: float, b: float, generator: Generator) -> NDArray[np.float64]:
    """Each client's share of wrong labels, (clients,), from Beta(a, b)."""
    return generator.beta(a, b, size=clients)


def wrong_labels(labels: Labels, classes: int, ratio: float, generator: Generator) -> Labels:
    """The labels, of which a share `ratio`, halves up, is another class at random."""
    noisy = labels.copy()
    at = generator.permutation(len(labels))[: math.floor(ratio * len(labels) + 0.5)]
    noisy[at] = (labels[at] + generator.integers(1, classes, size=len(at))) % classes
    return noisy


def flipped_labels(labels: Labels, classes: int) -> Labels:
    """What a poisoning client claims: class c for class k - 1 - c, and the reverse."""
    return classes - 1 - labels


def visible_rows(n: int, number: int, *, start: float, steps: Sequence[int]) -> int:
    """How many of its n rows a client has in round `number`, when its data grow: a share `start` at first, and equal
    parts of the rest from each of the rounds `steps` on.
    """
    arrived = sum(number >= step for step in steps) / max(len(steps), 1)
    share = start + (1 - start) * (arrived if steps else 1.0)
    return math.floor(n * share + 0.5 + 1e-9)
