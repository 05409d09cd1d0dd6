"""What a FedCVT step costs against the same mathematics in one autograd graph, in one process and one thread.

    python -m benchmarks.step_time [--json FILE] [--steps 80] [--repeats 5] [--limit 1.15]
                                   [--d 96] [--aligned 256] [--alone 512] [--pool 5000]

The product is both parties' programs under `simulate`, refreshes of the memory included; `plain` is
`benchmarks.plain_fedcvt` with the same people, seeds and losses. They take turns. `ratio` compares the quickest
interval of 20 steps of each over all repeats (the first interval left out), in processor time: what a machine without
other work would show. `median_ratio` compares the medians. The exit status is 1 when `ratio` is above the limit.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.overhead import REFERENCE, Setting, machine
from benchmarks.plain_fedcvt import Joined, PlainFedCVT
from benchmarks.two_sites import WIDTHS
from protocols.errors import ProtocolError
from protocols.program import Outcome, Progress
from protocols.seeds import injected
from vertical.config import FedCVTConfig
from vertical.messages import FEDCVT
from vertical.one_process import train
from vertical.table import NumericColumn, PartyData, Split, Table
from vertical.training import PROGRESS_EVERY

PUBLIC_SEED = 7
ROLES = ("active", "passive")
SEEDS = {role: injected(1, role) for role in ROLES}


@dataclass(slots=True)
class Meter:
    """Milliseconds of processor time per step of each interval, but for the first of every run."""

    per_step: list[float]
    since: tuple[int, float] = (0, 0.0)

    def told(self, step: int) -> None:
        """Notes an interval's end after `step` steps; a run starts at step 1."""
        now = time.process_time()
        before, then = self.since
        if before >= PROGRESS_EVERY and step > before:
            self.per_step.append(1000 * (now - then) / (step - before))
        self.since = step, now

    def progress(self, progress: Progress) -> None:
        """An observer of the product."""
        if progress.phase == FEDCVT.name:
            self.told(progress.step)


def measure(config: FedCVTConfig, people: int, repeats: int) -> dict[str, float]:
    """Milliseconds per step of both ways and their ratios; `people` alone rows of each party."""
    data = made_up(config.max_aligned_train, people)
    product, plain = Meter([]), Meter([])
    for _ in range(repeats):
        outcomes = train(data, config, PUBLIC_SEED, SEEDS, product.progress)
        _train_plain(data, outcomes, config, plain)
    quickest = min(product.per_step), min(plain.per_step)
    middle = statistics.median(product.per_step), statistics.median(plain.per_step)
    return {
        "ms_per_step": round(quickest[0], 3),
        "ms_per_step_plain": round(quickest[1], 3),
        "ratio": round(quickest[0] / quickest[1], 4),
        "median_ratio": round(middle[0] / middle[1], 4),
    }


def _train_plain(
    data: Mapping[str, PartyData], outcomes: Mapping[str, Outcome], config: FedCVTConfig, meter: Meter
) -> None:
    """Trains the reference; ProtocolError if its losses aren't the product's: that would compare different things."""
    joined = Joined.of(data, {role: outcome.artifacts for role, outcome in outcomes.items()})
    plain = PlainFedCVT(joined, config, PUBLIC_SEED, (SEEDS["active"], SEEDS["passive"]))

    def tick(step: int, loss: float) -> None:
        if step == 0 or (step + 1) % PROGRESS_EVERY == 0:
            meter.told(step + 1)

    losses = plain.train(tick)
    curves = outcomes["active"].report["loss"]
    assert isinstance(curves, dict)
    difference = float(np.abs(np.subtract(losses, curves[FEDCVT.name]["values"])).max())
    if difference > 1e-4:
        raise ProtocolError(f"the plain reference's losses differ by {difference:.2g}")


def made_up(aligned: int, alone: int) -> dict[str, PartyData]:
    """Two parties with so many common people and `alone` of their own, all for training; both classes are frequent."""
    draw = np.random.default_rng(0)
    both = np.arange(aligned)
    people = {"active": np.arange(aligned, aligned + alone)}
    people["passive"] = people["active"] + alone
    features = {
        role: draw.normal(size=(aligned + alone, width))
        for role, width in zip(ROLES, WIDTHS.values(), strict=True)
    }
    labels = (features["active"][:, 0] > 0).astype(np.int64)
    return {
        role: _party(
            np.concatenate([both, people[role]]), features[role], labels if role == "active" else None
        )
        for role in ROLES
    }


def _party(
    people: NDArray[np.int64], features: NDArray[np.float64], labels: NDArray[np.int64] | None
) -> PartyData:
    columns = tuple(
        NumericColumn(name=f"x{i}", values=np.ascontiguousarray(values))
        for i, values in enumerate(features.T)
    )
    return PartyData(
        keys=tuple(b"%08d" % person for person in people),
        table=Table(columns),
        split=np.full(len(people), Split.TRAIN, np.uint8),
        labels=labels,
        classes=() if labels is None else ("no", "yes"),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="time of a FedCVT step against one plain autograd graph")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    parser.add_argument("--limit", type=float, default=1.15)
    parser.add_argument("--repeats", type=int, default=5)
    for name in ("steps", "d", "aligned", "alone", "pool"):
        parser.add_argument(f"--{name}", type=int, default=getattr(REFERENCE, name))
    given = vars(parser.parse_args(arguments))
    path, limit, repeats = given.pop("json"), given.pop("limit"), given.pop("repeats")
    torch.set_num_threads(1)
    setting = Setting(**given)
    result = measure(replace(setting.config(), checkpoint_every=setting.steps), setting.people, repeats)
    print("\n".join(f"{name:<20}{value}" for name, value in result.items()))
    if path is not None:
        document = {**result, "limit": limit, "setting": given, "machine": machine()}
        path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return int(result["ratio"] > limit)


if __name__ == "__main__":
    sys.exit(main())
