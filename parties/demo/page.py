"""The demo's report: one self-contained HTML page, made only from released numbers and public data.

Every plot is an inline SVG with a title that says what it shows; the same numbers stand in a table beside it,
so the page can be read without the pictures and printed in black and white.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from jinja2 import Template
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

R = TypeVar("R")
TEMPLATES = Path(__file__).parent / "templates"
INK, ACTIVE, PASSIVE, MUTED = "#1f2933", "#1b6ca8", "#c8553d", "#9aa5b1"
METHOD_NAMES = {
    "fedcvt": "FedCVT (both parties)",
    "aligned_only": "aligned people only",
    "active_alone": "bank alone",
    "oracle": "pooled oracle (not possible in practice)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KindUse:
    """What left one party as one kind of message: how often, and how many bytes."""

    party: str
    kind: str
    receiver: str
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodScore:
    """Test AUC and accuracy of one method, one value per seed (fractions of 1)."""

    method: str
    auc: tuple[float, ...]
    accuracy: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All that the page shows.

    `overlap` maps a group of people to its number of rows; `experts` has situation, best expert and weights.
    """

    title: str
    digest: str
    computation: str
    seconds: float
    scores: tuple[MethodScore, ...]
    situations: tuple[tuple[str, float, float], ...]
    experts: tuple[tuple[str, str, str], ...]
    loss: tuple[tuple[int, float], ...]
    overlap: Mapping[str, int | str]
    pseudo_labels: Mapping[str, float | int | str | None]
    uses: tuple[KindUse, ...]
    learned: tuple[tuple[str, str], ...]
    audit: Mapping[str, str]
    notes: tuple[str, ...]


def mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """The mean and the sample standard deviation (0 for a single value) of the seeds' values."""
    mean = sum(values) / len(values)
    if len(values) < 2:
        return mean, 0.0
    return mean, (sum((v - mean) ** 2 for v in values) / (len(values) - 1)) ** 0.5


def render(report: Report) -> str:
    """The page as HTML text. Values are escaped by the template engine."""
    from markupsafe import Markup

    pictures = {
        "loss": picture(_draw_loss, report),
        "auc": picture(_draw_auc, report),
        "bytes": picture(_draw_bytes, report),
        "overlap": picture(_draw_overlap, report),
    }
    return template("report.html").render(
        report=report,
        names=METHOD_NAMES,
        spread=mean_and_spread,
        # The SVGs come from matplotlib, which escapes the text that it draws.
        pictures={name: Markup(svg) for name, svg in pictures.items()},
    )


def template(name: str) -> "Template":
    """A template of the demo's; it escapes all values but Markup."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template(name)


def picture(draw: "Callable[[Axes, R], None]", report: R) -> str:
    """What `draw` draws of the report, as SVG text whose texts stay texts."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with rc_context(
        {"svg.fonttype": "none", "font.size": 10, "text.color": INK, "svg.hashsalt": "fedaccord"}
    ):
        figure = Figure(figsize=(6.4, 3.2), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        draw(axes, report)
        return _svg_text(figure)


def _svg_text(figure: "Figure") -> str:
    buffer = StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]  # without the XML prologue, which HTML has no place for


def _draw_loss(axes: "Axes", report: Report) -> None:
    axes.plot(
        [s for s, _ in report.loss], [v for _, v in report.loss], color=ACTIVE, marker="o", markersize=3
    )
    axes.set_xlabel("training step")
    axes.set_ylabel("joint loss (mean of the interval)")


def _draw_auc(axes: "Axes", report: Report) -> None:
    for row, score in enumerate(reversed(report.scores)):
        mean, _ = mean_and_spread(score.auc)
        colour = ACTIVE if score.method == "fedcvt" else MUTED
        axes.barh(row, mean, color=colour, height=0.6)
        axes.plot(score.auc, [row] * len(score.auc), "|", color=INK, markersize=12)
        axes.text(mean + 0.004, row, f"{mean:.3f}", va="center")
    axes.set_yticks(range(len(report.scores)), [METHOD_NAMES[s.method] for s in reversed(report.scores)])
    lowest = min(min(s.auc) for s in report.scores)
    axes.set_xlim(max(0.0, lowest - 0.05), 1.0)
    axes.set_xlabel("AUC on test people (a stroke per seed)")


def _draw_bytes(axes: "Axes", report: Report) -> None:
    uses = sorted(report.uses, key=lambda use: use.bytes)
    parties = sorted({use.party for use in uses})
    colours = dict(zip(parties, (ACTIVE, PASSIVE), strict=False))
    for row, use in enumerate(uses):
        axes.barh(row, max(use.bytes, 1), color=colours.get(use.party, MUTED), height=0.7)
    axes.set_yticks(range(len(uses)), [f"{use.party}: {use.kind}" for use in uses])
    axes.set_xscale("log")
    axes.set_xlabel("bytes that left the site (logarithmic)")


def _draw_overlap(axes: "Axes", report: Report) -> None:
    groups = [(name, rows) for name, rows in report.overlap.items() if isinstance(rows, int)]
    edges = [0]
    for _, rows in groups:
        edges.append(edges[-1] + rows)
    shades = (ACTIVE, "#6aa9d6", PASSIVE, MUTED, INK)
    for (left, right), (name, rows), shade in zip(pairwise(edges), groups, shades * 2, strict=False):
        axes.barh(0, right - left, left=left, color=shade, edgecolor="white", label=f"{name}: {rows:,}")
    axes.set_yticks([])
    axes.set_xlabel("people")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.35), ncols=2, frameon=False, fontsize=9)
