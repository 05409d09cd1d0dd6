"""Tables and pictures of the benchmark's files.

    python -m benchmarks.horizontal.report FILE... [--pictures FOLDER]

Each file of `python -m benchmarks.horizontal` becomes a Markdown table on the standard output; with `--pictures` its
accuracy and drift by round, and one client's curriculum (uncertainty by rank with the cut, admitted rows by epoch),
become PNG files.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

from benchmarks.horizontal.compare import spread
from benchmarks.horizontal.task import model, task
from horizontal.fedbss import Curriculum, curriculum
from horizontal.local import outputs
from horizontal.methods import method
from horizontal.simulation import simulate

Found = Mapping[str, Any]


def comparison_table(found: Found) -> str:
    """A row per method: accuracies, paired difference to FedAvg with its standard error, drift, cost.

    "*" is at a difference of more than two standard errors; it is bold if its 95 % interval leaves out 0.
    """
    heads = ["method", "final accuracy", "best", "area", "final - FedAvg", "area - FedAvg", "drift"]
    heads += ["rounds to target", "MB", "s/round"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, numbers in found["methods"].items():
        cells = [spread_text(numbers[key]) for key in ("final", "best", "area")]
        against = numbers.get("against_baseline", {})
        cells += [_difference(against.get(key)) for key in ("final", "area")]
        cells += [f"{numbers['drift']['mean']:.2f}", _target(numbers["rounds_to_target"])]
        cells += [f"{numbers['megabytes']['mean']:.0f}", f"{numbers['seconds_per_round']['mean']:.3f}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def spread_text(numbers: Mapping[str, float]) -> str:
    """Mean and standard deviation."""
    return f"{numbers['mean']:.3f} ± {numbers['std']:.3f}"


def _difference(numbers: Mapping[str, Any] | None) -> str:
    if numbers is None:
        return "-"
    if numbers["error"] is None:
        return f"{numbers['mean']:+.3f}"
    text = f"{numbers['mean']:+.3f} ± {numbers['error']:.3f}{' *' if numbers['beyond_two_errors'] else ''}"
    return f"**{text}**" if numbers["beyond_interval"] else text


def _target(rounds: Sequence[int | None]) -> str:
    reached = [number for number in rounds if number is not None]
    return f"{statistics.median(reached):g} ({len(reached)} of {len(rounds)})" if reached else "never"


def poisoning_table(found: Found) -> str:
    """A row per aggregation: final accuracy by the share of poisoned clients."""
    rows = found["poisoning"]
    shares = list(next(iter(rows.values())))
    heads = " | ".join(f"{float(share):.0%} flipped" for share in shares)
    lines = [f"| aggregation | {heads} |", "|---" * (len(shares) + 1) + "|"]
    for name, cells in rows.items():
        spreads = [
            spread_text(spread(list(cells[share].values()))) if share in cells else "" for share in shares
        ]
        lines.append(f"| {name} | {' | '.join(spreads)} |")
    return "\n".join(lines)


def flower_table(found: Found) -> str:
    """One row: seconds a round here and there, their ratio, accuracies, and on what."""
    heads = ["Flower", "rounds x repeats", "s/round", "s/round, Flower", "speed-up", "accuracy"]
    heads += ["accuracy, Flower", "cores", "threads"]
    cells = [found["flower"], f"{found['task']['rounds']} x {found['task']['repeats']}"]
    cells += [f"{found[key]:.4f}" for key in ("seconds_per_round", "seconds_per_round_flower")]
    cells += [f"{found['speedup']:.1f}", f"{found['accuracy']:.3f}", f"{found['accuracy_flower']:.3f}"]
    cells += [str(found["cores"]), str(found["threads"])]
    return "\n".join([f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", f"| {' | '.join(cells)} |"])


def draw_curves(found: Found, folder: Path) -> None:
    """Mean test accuracy by round of every method."""
    figure, axes = pyplot.subplots(figsize=(8, 5))
    for at, (name, numbers) in enumerate(found["methods"].items()):
        curves = [run["curve"] for run in numbers["runs"]]
        length = min(map(len, curves))
        mean = [statistics.fmean(curve[number] for curve in curves) for number in range(length)]
        axes.plot(range(1, length + 1), mean, ("-", "--")[at // 10 % 2], label=name)  # ten colours
    axes.set(xlabel="round", ylabel="test accuracy", title=f"{found['setting']['setting']}, mean over seeds")
    axes.legend(fontsize=7, ncol=2)
    _save(figure, folder / f"accuracy-{found['setting']['setting']}.png")


def draw_drift(found: Found, folder: Path) -> None:
    """Mean drift and mean cosine of every method."""
    names = list(found["methods"])
    figure, sides = pyplot.subplots(1, 2, figsize=(9, 4), sharey=True)
    for axes, key in zip(sides, ("drift", "cosine"), strict=True):
        values = [found["methods"][name][key] for name in names]
        axes.barh(names, [v["mean"] for v in values], xerr=[v["std"] for v in values], color="tab:blue")
        axes.set(
            xlabel={"drift": "distance to the received model", "cosine": "cosine to the mean change"}[key]
        )
    sides[0].invert_yaxis()  # the first method on top; both sides share the axis
    _save(figure, folder / f"drift-{found['setting']['setting']}.png")


def draw_curriculum(
    setting: str, folder: Path, *, clients: int = 20, rounds: int = 5, epochs: int = 10
) -> None:
    """One client's curriculum after a few rounds: uncertainty by rank with the cut, admitted rows by epoch."""
    made = task(setting, clients, 0)
    start = simulate(
        model("mlp", 0), made.clients, method("fedavg", rounds=rounds, fraction=0.25), together=True
    )
    rows = max((data.rows(1) for data in made.clients.values()), key=len)
    drawn = curriculum(outputs(start.model, rows.features), rows.labels)
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4))
    _ranks(left, drawn)
    counts = drawn.admitted(epochs)
    right.bar(range(1, epochs + 1), [drawn.green] * epochs, color="tab:green", label="unbiased")
    right.bar(range(1, epochs + 1), counts, bottom=drawn.green, color="tab:red", label="biased, admitted")
    right.set(xlabel="local epoch", ylabel="rows trained on")
    right.legend()
    _save(figure, folder / f"curriculum-{setting}.png")


def _ranks(axes: Any, drawn: Curriculum) -> None:
    ranks = range(1, len(drawn.order) + 1)
    colours = ["tab:green" if rank <= drawn.green else "tab:red" for rank in ranks]
    axes.scatter(ranks, drawn.uncertainties.tolist(), c=colours, s=8)
    axes.axvline(drawn.green, color="black", linewidth=1)
    axes.set(
        xlabel="rank by loss", ylabel="uncertainty", title=f"cut at rank {drawn.green} of {len(drawn.order)}"
    )


def _save(figure: Any, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the tables, and draws."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.horizontal.report")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--pictures", type=Path, help="an existing folder")
    options = parser.parse_args(arguments)
    for file in options.files:
        found = json.loads(file.read_text())
        if "poisoning" in found:
            print(poisoning_table(found), end="\n\n")
        if "speedup" in found:
            print(flower_table(found), end="\n\n")
        if "methods" in found:
            print(comparison_table(found), end="\n\n")
            if options.pictures:
                draw_curves(found, options.pictures)
                draw_drift(found, options.pictures)
                draw_curriculum(found["setting"]["setting"], options.pictures)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
