"""Compares settings on held-out training people of the benchmark's data sets; the test people are never read.

    python -m benchmarks.choose_defaults --json docs/fedcvt-defaults.json
    python -m benchmarks.choose_defaults --json out/x.json --data digits adult --seeds 5 --variants defaults "no fill"

A quarter of the training people, stratified, stands in the part of the test people; the others are dealt out as in the
benchmark, with as many aligned. Without --variants those in `COMPARED` are run. In the file stand
`variants[data][n][name]`: means over the seeds of FedCVT with both views, of its joint head alone and of the label
holder's view alone, and the paired difference to the defaults with both views.

The file is written after every training, and a comparison that was killed goes on where it stood. A table of it:
`python -m docs.fedcvt_defaults`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from benchmarks.fedcvt import ALIGNED, chosen, config_for, scores, train
from benchmarks.results_file import ResultsFile, Scores, Seeds, paired
from benchmarks.two_views import NAMES, Dealt, TwoViews, deal, load, stratified, training_and_test
from benchmarks.units import work_off

HELD_OUT_SHARE = 0.25
_FOLD_SEED = 1000

VARIANTS: Mapping[str, Mapping[str, str | int | float | bool]] = {
    "defaults": {},
    "linear": {"candidates": "linear"},
    "small": {"candidates": "small"},
    "wide": {"candidates": "wide"},
    "no cuts": {"cuts": 0},
    "width 16": {"d": 16},
    "alone batch 256": {"alone_batch": 256, "memory_pool": 512},
    "no pseudo labels": {"pseudo": False},
    "pseudo labels of f^B": {"pseudo_passive": True},
    "thresholds 0.6": {"threshold_joint": 0.6, "threshold_active": 0.6, "threshold_passive": 0.6},
    "no fill": {"fill": False},
    "8 components": {"linear_views": 8},
}
"""Settings to compare, by name: what each changes of the defaults."""
_EVERYWHERE = ("defaults", "linear", "wide", "no fill", "no pseudo labels", "thresholds 0.6")
COMPARED: Mapping[str, tuple[str, ...]] = {
    "digits": _EVERYWHERE,
    "adult": (*_EVERYWHERE, "no cuts"),
    "caravan": (*_EVERYWHERE, "no cuts"),
    "breast": (*_EVERYWHERE, "no cuts"),
    "mnist": ("defaults", "wide", "no fill", "no pseudo labels", "thresholds 0.6"),
}
"""What is compared on each data set: pixels have no cuts, and linear encoders of MNIST's halves are far behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """FedCVT trained with one variant's settings on one seed of one cell."""

    data: str
    aligned: int
    seed: int
    variant: str

    @property
    def place(self) -> tuple[str, int, int, str]:
        """Where its scores stand in the file."""
        return self.data, self.aligned, self.seed, self.variant

    def run(self) -> tuple[Scores, str]:
        """Its scores on the held-out people, and the configuration that its search chose."""
        torch.set_num_threads(1)
        views = load(self.data)
        who = fold(views, self.aligned, self.seed)
        changed = VARIANTS[self.variant]
        report = train(views, who, replace(config_for(views, who), baselines=False, **changed))  # type: ignore[arg-type]  # checked as any setting
        return scores(report, views.metric), chosen(report)


def fold(views: TwoViews, aligned: int, seed: int) -> Dealt:
    """The training people dealt out, a quarter of them held out as "test" people."""
    training, _ = training_and_test(views)
    kept, held_out = stratified(training, views.labels, HELD_OUT_SHARE, _FOLD_SEED + seed)
    return deal(kept, held_out, aligned=aligned, seed=seed)


def summary(scores: Mapping[str, Mapping[str, Seeds]], metrics: Mapping[str, str]) -> dict[str, object]:
    """`variants[data][n][name]`: means over the seeds, and with both views the difference to the defaults."""
    found: dict[str, dict[str, dict[str, object]]] = {}
    for data, cells in scores.items():
        for n, seeds in cells.items():
            defaults = _both(seeds, "defaults")
            found.setdefault(data, {})[n] = {
                variant: {
                    "metric": metrics[data],
                    **_means([parts[variant] for parts in seeds.values() if variant in parts]),
                    "to_defaults": paired(_both(seeds, variant), defaults),
                }
                for variant in VARIANTS
                if _both(seeds, variant)
            }
    return {"variants": found}


def _both(seeds: Seeds, variant: str) -> dict[str, float]:
    return {seed: parts[variant]["both"] for seed, parts in seeds.items() if variant in parts}


def _means(found: Sequence[Scores]) -> dict[str, float]:
    means = {
        name: float(np.mean([scores[name] for scores in found])) for name in ("both", "joint", "active_only")
    }
    return {"n_seeds": len(found), **means}


def run(given: argparse.Namespace, tell: Callable[[str], None], clock: Callable[[], float]) -> None:
    """All trainings that the file lacks, first seeds first."""
    file = ResultsFile(given.json, summary)
    for data in given.data:
        file.metrics[data] = load(data).metric
    waiting = [
        Training(data=data, aligned=aligned, seed=seed, variant=variant)
        for seed in range(given.seeds)
        for data in given.data
        for aligned in ALIGNED[data]
        for variant in given.variants or COMPARED[data]
        if not file.has(data, aligned, seed, variant)
    ]
    work_off(waiting, file, jobs=given.jobs, tell=tell, clock=clock)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", choices=NAMES, nargs="+", default=list(NAMES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=1, help="processes; each uses one thread")
    parser.add_argument("--variants", choices=list(VARIANTS), nargs="+", default=[])
    run(parser.parse_args(arguments), lambda line: print(line, flush=True), time.monotonic)


if __name__ == "__main__":
    main()
