"""Compares settings on held-out training people of the benchmark's data sets; the test people are never read.

    python -m benchmarks.choose_defaults [--data digits adult ...] [--seeds 2] [NAME ...]

A quarter of the training people, stratified, stands in the part of the test people; the others are dealt out as in the
benchmark, with as many aligned. Printed are, for each data set and number of aligned people, the mean metric over the
seeds of FedCVT with both views, of its joint head alone, and of the label holder's view alone, and what was chosen.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from benchmarks.fedcvt import ALIGNED, chosen, config_for, scores, train
from benchmarks.two_views import NAMES, Dealt, TwoViews, deal, load, stratified, training_and_test
from vertical.config import FedCVTConfig

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
"""Settings to compare, by name: what each changes of the defaults. They are the last ones of a search by hand."""


def fold(views: TwoViews, aligned: int, seed: int) -> Dealt:
    """The training people dealt out, a quarter of them held out as "test" people."""
    training, _ = training_and_test(views)
    kept, held_out = stratified(training, views.labels, HELD_OUT_SHARE, _FOLD_SEED + seed)
    return deal(kept, held_out, aligned=aligned, seed=seed)


def compare(name: str, aligned: int, seeds: int, variant: str) -> str:
    """One line: means over the seeds."""
    views = load(name)
    rows = []
    names: list[str] = []
    for seed in range(seeds):
        who = fold(views, aligned, seed)
        config: FedCVTConfig = replace(config_for(views, who), baselines=False, **VARIANTS[variant])  # type: ignore[arg-type]
        report = train(views, who, config)
        found = scores(report, views.metric)
        rows.append([found["both"], found["joint"], found["active_only"]])
        names.append(chosen(report))
    both, joint, active = np.mean(rows, axis=0)
    return (
        f"| {name} | {aligned} | {variant} | {both:.4f} | {joint:.4f} | {active:.4f} | {', '.join(names)} |"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", choices=NAMES, nargs="+", default=list(NAMES))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("names", nargs="*", default=list(VARIANTS), metavar="NAME")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    print("| data | aligned | settings | both views | joint head | A's view | chosen |")
    print("|---|---|---|---|---|---|---|")
    for name in given.data:
        for aligned in ALIGNED[name]:
            for variant in given.names:
                print(compare(name, aligned, given.seeds, variant), flush=True)


if __name__ == "__main__":
    main()
