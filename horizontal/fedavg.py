"""FedAvg: McMahan et al., "Communication-efficient learning of deep networks from decentralized data",
arXiv 1602.05629, algorithm 1. In each round the server

1. chooses a fraction C of the clients at random, and sends them the model w;
2. each trains it by local SGD, E epochs in batches of B rows (`local.train`), and sends back w_k;
3. the server takes the mean `w = sum_k (n_k / n) w_k` by numbers of rows.

A client's weights travel whole, not as a change, so that the mean of one client is that client's model bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from horizontal.average import Array, Contribution, weighted_mean
from protocols.seeds import numpy_generator

Choose: TypeAlias = Callable[[int, Sequence[str]], list[str]]
"""(round from 1, clients that can be asked) -> those that train, in the given order."""


def clients_per_round(clients: int, fraction: float, at_least: int) -> int:
    """The fraction of so many clients, halves up, but `at_least` so many."""
    return min(clients, max(at_least, math.floor(fraction * clients + 0.5 + 1e-9)))


def choose_uniformly(clients: Sequence[str], fraction: float, at_least: int, public_seed: int) -> Choose:
    """A choice of `fraction` of the clients, halves up, but of `at_least` so many; fewer only if no more can be asked.

    It depends on these values, the round and who can be asked alone.
    """
    size = clients_per_round(len(clients), fraction, at_least)

    def choose(number: int, present: Sequence[str]) -> list[str]:
        can = set(present)
        order = numpy_generator(public_seed, f"clients of round {number}").permutation(len(clients))
        chosen = [i for i in order if clients[i] in can][:size]
        return [clients[i] for i in sorted(chosen)]

    return choose


def size_weighted_mean(contributions: Sequence[Contribution]) -> dict[str, Array]:
    """`w = sum_k (n_k / n) w_k`.

    Raises UpdateError as `check_contribution`, with the first contribution's layout as the expected one, and
    NoExamplesError if all sizes are 0.
    """
    return weighted_mean(contributions, [contribution.examples for contribution in contributions])


def uniform_mean(contributions: Sequence[Contribution]) -> dict[str, Array]:
    """The mean in which all clients that have examples weigh the same; raises as `size_weighted_mean`."""
    return weighted_mean(contributions, [int(contribution.examples > 0) for contribution in contributions])
