"""Clients whose labels are flipped, against aggregations that should bear them: a small measured table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TypeAlias

import torch

from benchmarks.horizontal.compare import Setting, Tell, measure
from benchmarks.horizontal.record_file import RecordFile
from benchmarks.horizontal.task import CLASSES, Task, task
from horizontal.client_data import ClientData
from horizontal.heterogeneity import flipped_labels
from horizontal.local import Examples

SHARES = (0.0, 0.1, 0.2, 0.3, 0.4)
Finals: TypeAlias = dict[str, dict[str, dict[str, float]]]
"""Accuracy by aggregation, share and seed; the keys of a JSON file."""
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
    setting: Setting,
    tell: Tell,
    *,
    shares: Sequence[float] = SHARES,
    names: Sequence[str] = AGGREGATIONS,
    record: RecordFile | None = None,
) -> dict[str, object]:
    """Final accuracy by aggregation, share of poisoned clients and seed.

    What `record` has already isn't repeated, and it is written after each new run.
    """
    known = {} if record is None else record.read(asdict(setting))
    found: Finals = known.get("poisoning", {})
    seeds = max(setting.seeds, known.get("setting", {}).get("seeds", 0))
    told = asdict(replace(setting, seeds=seeds))
    for seed in range(setting.seeds):
        for share in shares:
            made = poisoned(task(setting.setting, setting.clients, seed), share)
            for name in names:
                finals = found.setdefault(name, {}).setdefault(f"{share:g}", {})
                if str(seed) not in finals:
                    finals[str(seed)] = measure(name, setting, seed, made).final
                    if record is not None:
                        record.write({"setting": told, "poisoning": found})
                tell(f"  seed {seed} {name:<10} {share:.0%} flipped: accuracy {finals[str(seed)]:.3f}")
    return {"setting": told, "poisoning": found}
