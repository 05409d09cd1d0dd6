"""Horizontal methods on the same splits, with honest spreads; and the simulator's speed against Flower's.

    python -m benchmarks.horizontal --json FILE [--setting dirichlet0.1] [--rounds 60] [--clients 20] [--per-round 5]
                                    [--seeds 5] [--methods fedavg,fedbss,...] [--model mlp]
    python -m benchmarks.horizontal --json FILE --poisoning
    python -m benchmarks.horizontal --json FILE --against flower --flower-python PATH [--rounds 30] [--repeats 3]

Accuracy (final, best, area under the curve), drift, rounds to the target, bytes and seconds a round are given for
every method, mean and standard deviation over the seeds, and the difference to FedAvg with the same seeds and splits,
with its standard error. FILE is written after each run, and runs that are in it aren't repeated: a benchmark that was
killed goes on. `benchmarks.horizontal.report` makes tables and pictures of the files, `docs.horizontal_benchmark` the
tables of docs/horizontal.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from benchmarks.horizontal.compare import Setting, compare
from benchmarks.horizontal.flower import against_flower
from benchmarks.horizontal.poisoning import measure_poisoning
from benchmarks.horizontal.record_file import RecordFile
from benchmarks.horizontal.task import SETTINGS
from horizontal.methods import METHODS
from protocols.errors import FedaccordError


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints and writes; the exit code."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(1)
    record = RecordFile(options.json) if options.json else None
    try:
        found = _measure(options, record)
    except FedaccordError as problem:
        print(f"error: {problem}" + (f"\n  {problem.remedy}" if problem.remedy else ""), file=sys.stderr)
        return 2
    if record is not None:
        record.write(found)
    return 0


def _measure(options: argparse.Namespace, record: RecordFile | None) -> dict[str, object]:
    if options.against:
        found = against_flower(
            options.flower_python, rounds=options.rounds or 30, repeats=options.repeats, tell=_tell
        )
        for name in ("seconds_per_round", "seconds_per_round_flower", "speedup"):
            print(f"{name}: {found[name]}")
        return found
    setting = Setting(
        setting=options.setting,
        model=options.model,
        clients=options.clients,
        per_round=options.per_round,
        seeds=options.seeds,
    )
    setting = replace(setting, rounds=options.rounds or setting.rounds)
    if options.poisoning:
        return measure_poisoning(setting, _tell, record=record)
    return compare(options.methods.split(","), setting, _tell, record=record)


def _tell(text: str) -> None:
    print(text, flush=True)


def _parser() -> argparse.ArgumentParser:
    text, _, _ = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(prog="python -m benchmarks.horizontal", description=text)
    default = Setting()
    parser.add_argument(
        "--json", type=Path, help="where the numbers go; what is there already isn't measured again"
    )
    parser.add_argument("--setting", choices=SETTINGS, default=default.setting, help="how clients differ")
    parser.add_argument("--model", choices=("mlp", "cnn"), default=default.model)
    parser.add_argument("--rounds", type=int, help=f"default {default.rounds}; 30 against Flower")
    parser.add_argument("--clients", type=int, default=default.clients)
    parser.add_argument(
        "--per-round", type=int, default=default.per_round, help="clients that train in a round"
    )
    parser.add_argument(
        "--seeds", type=int, default=default.seeds, help="repetitions with other splits and weights"
    )
    parser.add_argument("--methods", default=",".join(METHODS), help="by name, with commas between")
    parser.add_argument("--poisoning", action="store_true", help="flipped labels against robust aggregations")
    parser.add_argument("--against", choices=("flower",), help="compare the speed of simulation")
    parser.add_argument(
        "--flower-python", default=sys.executable, help="a Python that has flwr[simulation] and torch"
    )
    parser.add_argument("--repeats", type=int, default=3, help="pairs of runs against Flower")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
