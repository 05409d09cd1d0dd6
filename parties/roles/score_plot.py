"""A plot of the scores in a report: one row per method, one mark per situation; of a rehearsal it says MOCK."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from parties.roles.score_table import scores_of
from parties.roles.showing import MOCK_MARK, is_mock
from protocols.errors import ConfigError

FORMATS = (".svg", ".png", ".pdf")
STYLES, COLOURS = ("-", "--", ":"), 10
"""Of lines: every style in each of matplotlib's colours."""
MARKS = {"both": "o", "active_only": "<", "passive_only": ">"}


def check_plot(path: Path) -> None:
    """ConfigError unless the file's name says a format that can be drawn."""
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"plot {path.name}: the name must end in one of {', '.join(FORMATS)}")


def write_plot(report: Mapping[str, object], path: Path) -> None:
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
    if is_mock(report):
        axes.set_title(f"{MOCK_MARK}: about nobody", weight="bold")
        figure.text(0.5, 0.5, MOCK_MARK, size=72, alpha=0.15, rotation=20, ha="center", va="center")
    figure.savefig(path, metadata={"Title": f"{MOCK_MARK}: about nobody" if is_mock(report) else "scores"})


def write_curves(curves: Mapping[str, Sequence[tuple[int, float]]], path: Path) -> None:
    """Draws the accuracy after each round, a line per method: later ones are thinner, so that equal ones show."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    check_plot(path)
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.add_subplot()
    for at, (name, points) in enumerate(curves.items()):
        width, style = 1.2 + 2.4 * (1 - at / len(curves)), STYLES[at // COLOURS % len(STYLES)]
        axes.plot(
            [number for number, _ in points],
            [value for _, value in points],
            style,
            linewidth=width,
            label=name,
        )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("round")
    axes.set_ylabel("accuracy on the test rows of all clients")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    figure.savefig(path)


def _has_auc(report: Mapping[str, object]) -> bool:
    return any(isinstance(scores.get("auc"), float) for _, _, scores in scores_of(report))


def _score(scores: Mapping[str, object]) -> float | None:
    value = scores.get("auc") if isinstance(scores.get("auc"), float) else scores.get("accuracy")
    return value if isinstance(value, float) else None
