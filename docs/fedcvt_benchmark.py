"""Writes the benchmark's table into docs/fedcvt-benchmark.md and its plot beside it, from the benchmark's JSON file:

python -m benchmarks.fedcvt --seeds 5 --json docs/fedcvt-benchmark.json
python -m docs.fedcvt_benchmark
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from matplotlib.figure import Figure

from benchmarks.documents import between_marks, signed

DOCS = Path(__file__).resolve().parent
MARKS = "benchmark figures"
METHODS = {
    "fedcvt": "**FedCVT**",
    "fedcvt_no_pseudo": "no pseudo labels",
    "fedcvt_no_fill": "no fill",
    "aligned_only": "aligned only",
    "active_alone": "A alone",
    "passive_alone": "B alone",
    "stack": "stack",
    "oracle": "pooled oracle",
}
"""Columns of the table, in order."""
DRAWN = {"fedcvt": "C3", "aligned_only": "C0", "active_alone": "C1", "stack": "C2", "oracle": "0.5"}
"""Lines of the plot and their colours."""

Cells: TypeAlias = Mapping[str, Mapping[str, Mapping[str, float]]]


def table(found: Mapping[str, object]) -> str:
    """The Markdown between the marks: means and deviations, and FedCVT's paired difference to the best rival."""
    results, differences = found["results"], found["differences"]
    assert isinstance(results, dict)
    assert isinstance(differences, dict)
    names = [
        name for name in METHODS if any(name in cell for cells in results.values() for cell in cells.values())
    ]
    heads = [
        "data",
        "aligned",
        "seeds",
        *(METHODS[name] for name in names),
        "to the best rival",
        "A's view only",
    ]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    views = found["only_active_view"]
    assert isinstance(views, dict)
    for data, cells in results.items():
        for n, cell in cells.items():
            if "fedcvt" not in cell:
                continue
            against = differences.get(data, {}).get(n)
            row = [f"{data} ({cell['fedcvt']['metric']})", n, str(cell["fedcvt"]["n_seeds"])]
            row += [_spread(cell[name]) if name in cell else "" for name in names]
            row += [f"{signed(against['to_best_rival'])} ({against['best_rival']})" if against else ""]
            row += [signed(views.get(data, {}).get(n))]
            lines.append("| " + " | ".join(row) + " |")
    total = found["gap_closed_total"]
    if total is not None:
        lines += [
            "",
            f"Share of the gap to the oracle that is closed, over {found['gap_cells']} cells: {total:.2f}.",
        ]
    return "\n".join(lines)


def plot(found: Mapping[str, object], path: Path) -> None:
    """One panel for each data set: the metric against the number of aligned people, with its deviation."""
    results = found["results"]
    assert isinstance(results, dict)
    panels: list[tuple[str, Cells]] = [
        (data, cells) for data, cells in results.items() if any("fedcvt" in cell for cell in cells.values())
    ]
    figure = Figure(figsize=(3.2 * len(panels), 3.2), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for panel, (data, cells) in zip(axes, panels, strict=True):
        for method, colour in DRAWN.items():
            points = [(int(n), cell[method]) for n, cell in cells.items() if method in cell]
            panel.errorbar(
                [n for n, _ in points],
                [entry["mean"] for _, entry in points],
                yerr=[entry["std"] for _, entry in points],
                label=METHODS[method].strip("*"),
                color=colour,
                marker="o",
                capsize=3,
            )
        panel.set_title(data)
        panel.set_xlabel("aligned training people")
    metrics = [next(iter(cells.values()))["fedcvt"]["metric"] for _, cells in panels]
    for panel, metric in zip(axes, metrics, strict=True):
        panel.set_ylabel(f"test {metric}")
    axes[0].legend(fontsize="small")
    figure.savefig(path, metadata={"Date": None})


def _spread(entry: Mapping[str, float]) -> str:
    return f"{entry['mean']:.3f} ± {entry['std']:.3f}"


def main(arguments: Sequence[str]) -> None:
    """Replaces what is between the marks of docs/fedcvt-benchmark.md and writes docs/fedcvt-benchmark.svg."""
    source = Path(arguments[0]) if arguments else DOCS / "fedcvt-benchmark.json"
    page = DOCS / "fedcvt-benchmark.md"
    found = json.loads(source.read_text(encoding="utf-8"))
    text = between_marks(page.read_text(encoding="utf-8"), MARKS, table(found))
    page.write_text(text, encoding="utf-8")
    plot(found, DOCS / "fedcvt-benchmark.svg")


if __name__ == "__main__":
    main(sys.argv[1:])
