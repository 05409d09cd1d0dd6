"""A plot of the scores in a simulated report: one row per method, one mark per situation."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from parties.roles.score_table import scores_of
from protocols.errors import ConfigError
from protocols.program import Json

FORMATS = (".svg", ".png", ".pdf")
MARKS = {"both": "o", "active_only": "<", "passive_only": ">"}


def check_plot(path: Path) -> None:
    """ConfigError unless the file's name says a format that can be drawn."""
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"plot {path.name}: the name must end in one of {', '.join(FORMATS)}")


def write_plot(report: Mapping[str, Json], path: Path) -> None:
    """Draws the report's AUC (where there is none, its accuracy) by method; ConfigError for a report without scores."""
    from matplotlib.figure import Figure

    check_plot(path)
    lines = [(method, situation, _score(scores)) for method, situation, scores in scores_of(report)]
    if not lines:
        raise ConfigError("the report has no scores to plot", remedy="leave out --plot")
    methods = list(dict.fromkeys(method for method, _, _ in lines))
    figure = Figure(figsize=(6.4, 1.2 + 0.4 * len(methods)), layout="constrained")
    axes = figure.add_subplot()
    for wanted in dict.fromkeys(situation for _, situation, _ in lines):
        found = [(score, methods.index(method)) for method, situation, score in lines if situation == wanted]
        known = [(score, row) for score, row in found if score is not None]
        axes.plot(
            [score for score, _ in known],
            [row for _, row in known],
            MARKS.get(wanted, "s"),
            label=wanted.replace("_", " "),
        )
    axes.set_yticks(range(len(methods)), methods)
    axes.invert_yaxis()
    axes.set_xlabel("AUC on test people" if _has_auc(report) else "accuracy on test people")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(title="views", fontsize="small")
    figure.savefig(path)


def write_curves(curves: Mapping[str, Sequence[tuple[int, float]]], path: Path) -> None:
    """Draws the accuracy after each round, a line per method."""
    from matplotlib.figure import Figure

    check_plot(path)
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.add_subplot()
    for name, points in curves.items():
        axes.plot([number for number, _ in points], [value for _, value in points], label=name)
    axes.set_xlabel("round")
    axes.set_ylabel("accuracy on the test rows of all clients")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    figure.savefig(path)


def _has_auc(report: Mapping[str, Json]) -> bool:
    return any(isinstance(scores["auc"], float) for _, _, scores in scores_of(report))


def _score(scores: Mapping[str, object]) -> float | None:
    value = scores["auc"] if isinstance(scores["auc"], float) else scores["accuracy"]
    return value if isinstance(value, float) else None
