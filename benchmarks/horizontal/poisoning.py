"""Clients whose labels are flipped, against aggregations that should bear them: a small measured table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from benchmarks.horizontal.compare import Setting, Tell, measure, spread
from benchmarks.horizontal.task import CLASSES, Task, task
from horizontal.client_data import ClientData
from horizontal.heterogeneity import flipped_labels
from horizontal.local import Examples

SHARES = (0.0, 0.1, 0.2, 0.3, 0.4)
AGGREGATIONS = ("fedavg", "median", "trimmed", "clipped")


def poisoned(made: Task, share: float) -> Task:
    """The task with the labels of the first `share` of the clients flipped, class c to 9 - c."""
    names = list(made.clients)[: round(share * len(made.clients))]
    return replace(made, clients={n: _flip(d) if n in names else d for n, d in made.clients.items()})


def _flip(data: ClientData) -> ClientData:
    rows = data.rows(1)
    labels = torch.from_numpy(flipped_labels(rows.labels.numpy(), CLASSES))
    return replace(data, training=Examples(rows.features, labels))


def measure_poisoning(
    setting: Setting, tell: Tell, *, shares: Sequence[float] = SHARES, names: Sequence[str] = AGGREGATIONS
) -> dict[str, dict[str, dict[str, float]]]:
    """Final accuracy by aggregation and share of poisoned clients, mean and spread over seeds."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in names:
        found[name] = {}
        for share in shares:
            tasks = (
                poisoned(task(setting.setting, setting.clients, seed), share) for seed in range(setting.seeds)
            )
            finals = [measure(name, setting, seed, made).final for seed, made in enumerate(tasks)]
            found[name][f"{share:g}"] = spread(finals)
            tell(f"  {name:<10} {share:.0%} flipped: accuracy {found[name][f'{share:g}']['mean']:.3f}")
    return found
