"""FedCVT against its rivals on five real data sets, cut in two views: `results[data][n][method]` in a JSON file.

    python -m benchmarks.fedcvt --data digits --aligned 50,100,200 --seeds 5 --json out/fedcvt.json
    python -m benchmarks.fedcvt --seeds 5 --json docs/fedcvt-benchmark.json

Without --data all data sets run, without --aligned the numbers of aligned people in `ALIGNED`. Data and who is dealt
what: `benchmarks.two_views`. Rivals and oracles: `benchmarks.rivals`; `aligned_only` and `active_alone` are the better
of theirs and of the networks that a run trains for its report. The settings are FedCVT's defaults for every data set;
what describes the data (bounds, the size of an image) is all that differs. A seed deals out the training people and
draws initial weights; the test people are always the same, and are read here and nowhere else.

The ablations `fedcvt_no_pseudo` and `fedcvt_no_fill` train the configuration that the full run of the same seed chose.

The file is written after every part, and a benchmark that was killed goes on where it stood. `--forget PART ...` first
drops what older code left of these parts (not when it goes on). A table and a plot of it:
`python -m docs.fedcvt_benchmark`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import cast

import torch

from benchmarks.results_file import ResultsFile, Scores
from benchmarks.rivals import oracles, rivals
from benchmarks.two_views import NAMES, Dealt, TwoViews, deal, load, party_data, training_and_test
from benchmarks.units import work_off
from protocols.program import Json
from protocols.seeds import injected
from vertical import one_process
from vertical.config import FedCVTConfig

ALIGNED: Mapping[str, tuple[int, ...]] = {
    "digits": (50, 100, 200),
    "adult": (200, 500),
    "caravan": (200, 1000),
    "breast": (30, 100),
    "mnist": (100, 300),
}
"""Numbers of aligned training people of each data set."""
PARTS = ("rivals", "oracles", "fedcvt", "fedcvt_no_pseudo", "fedcvt_no_fill")
"""What is run for each cell and seed; the ablations need the choice of "fedcvt"."""
ABLATIONS: Mapping[str, dict[str, bool]] = {
    "fedcvt_no_pseudo": {"pseudo": False},
    "fedcvt_no_fill": {"fill": False},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One part of one seed of one cell; `chosen` is the configuration that an ablation trains."""

    data: str
    aligned: int
    seed: int
    part: str
    settings: Mapping[str, str | int | float | bool]
    chosen: str = ""

    @property
    def place(self) -> tuple[str, int, int, str]:
        """Where its scores stand in the results."""
        return self.data, self.aligned, self.seed, self.part

    def run(self) -> tuple[Scores, str]:
        """Its scores by name, and the configuration that a run chose ("" for other parts)."""
        torch.set_num_threads(1)
        views = load(self.data)
        training, test = training_and_test(views)
        who = deal(training, test, aligned=self.aligned, seed=self.seed)
        if self.part == "oracles":
            return _oracles(self.data), ""
        if self.part == "rivals":
            return rivals(views, who), ""
        config = replace(config_for(views, who), **self.settings)  # type: ignore[arg-type]  # checked as any setting
        if self.part in ABLATIONS:
            config = replace(config, candidates=self.chosen, baselines=False, **ABLATIONS[self.part])
        report = train(views, who, config)
        return scores(report, views.metric), chosen(report)


@cache
def _oracles(data: str) -> Scores:
    """Of a data set: all seeds and numbers of aligned people pool the same ones."""
    views = load(data)
    return oracles(views, *training_and_test(views))


def config_for(views: TwoViews, who: Dealt) -> FedCVTConfig:
    """The defaults, with what describes the data: bounds, and the size of an image."""
    image = "" if views.image is None else f"{views.image[0]}x{views.image[1]}"
    return FedCVTConfig(
        max_aligned_train=len(who.aligned),
        max_aligned_test=max(len(who.test), 1),
        max_common=len(who.aligned) + len(who.test),
        max_passive_only=len(who.passive_only),
        image_active=image,
        image_passive=image,
    )


def train(views: TwoViews, who: Dealt, config: FedCVTConfig) -> Mapping[str, Json]:
    """The active party's report of a run by the two programs in one process."""
    seeds = {role: injected(who.seed, role) for role in ("active", "passive")}
    outcomes = one_process.train(party_data(views, who), config, who.seed, seeds)
    return outcomes["active"].report


def scores(report: Mapping[str, Json], metric: str) -> Scores:
    """From a report: FedCVT's three situations, the joint head alone, and the networks without the other party."""
    methods = cast(Mapping[str, Mapping[str, Mapping[str, float]]], report["methods"])
    found = {situation: entry[metric] for situation, entry in methods["fedcvt"].items()}
    found["joint"] = methods["joint"]["both"][metric]
    for network, situation in (("aligned_only_network", "both"), ("active_alone_network", "active_only")):
        if network in methods:
            found[network] = methods[network][situation][metric]
    return found


def chosen(report: Mapping[str, Json]) -> str:
    """The name of the configuration that the run's search chose."""
    search = cast(Mapping[str, str], report["search"])
    return search["chosen"].split(",")[0]


def units(given: argparse.Namespace, file: ResultsFile) -> list[Unit]:
    """What isn't finished, first seeds first; ablations whose choice isn't known yet are left out."""
    settings = dict(_setting(text) for text in given.set)
    found = []
    for seed in range(given.seeds):
        for data in given.data:
            for aligned in given.aligned or ALIGNED[data]:
                for part in given.parts:
                    unit = Unit(data=data, aligned=aligned, seed=seed, part=part, settings=settings)
                    if part in ABLATIONS:
                        unit = replace(unit, chosen=file.note(data, aligned, seed, "fedcvt"))
                        if not unit.chosen:
                            continue
                    if not file.has(*unit.place):
                        found.append(unit)
    return found


def run(given: argparse.Namespace, tell: Callable[[str], None], clock: Callable[[], float]) -> None:
    """All parts, in two rounds: the ablations follow from what the runs chose."""
    file = ResultsFile(given.json)
    if given.forget:
        file.forget(given.forget)
    for path in given.adopt:
        file.adopt(ResultsFile(path))
    for data in given.data:
        file.metrics[data] = load(data).metric
    for _ in range(2):
        work_off(units(given, file), file, jobs=given.jobs, tell=tell, clock=clock)


def _setting(text: str) -> tuple[str, str | int | float | bool]:
    """NAME=VALUE with the value in the type of the setting."""
    name, _, value = text.partition("=")
    default = getattr(FedCVTConfig(), name)
    return name, value == "True" if isinstance(default, bool) else type(default)(value)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", choices=NAMES, nargs="+", default=list(NAMES))
    parser.add_argument(
        "--aligned", type=lambda text: tuple(int(part) for part in text.split(",")), default=()
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument(
        "--adopt",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="take finished parts from other such files",
    )
    parser.add_argument(
        "--forget", choices=PARTS, nargs="+", default=[], help="drop these finished parts first, e.g. fedcvt"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes; each uses one thread")
    parser.add_argument("--parts", choices=PARTS, nargs="+", default=list(PARTS))
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="another setting, for trials only"
    )
    run(parser.parse_args(arguments), lambda line: print(line, flush=True), time.monotonic)


if __name__ == "__main__":
    main()
