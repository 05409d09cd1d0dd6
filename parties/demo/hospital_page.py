"""The page of the horizontal demo: one self-contained HTML file of released numbers and of the twin on public data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parties.demo.hospital_twin import Picture
from parties.demo.page import ACTIVE, INK, MUTED, PASSIVE, KindUse, picture, template
from parties.demo.setup import HOSPITALS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HARDEST = 40
"""Rows of each hospital in the curriculum's picture: of all others the model is certain."""
COLOURS = dict(zip(HOSPITALS, (ACTIVE, PASSIVE, INK), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class HospitalReport:
    """All that the page shows; `released` has a line of texts per hospital."""

    title: str
    digest: str
    computation: str
    seconds: float
    released: tuple[tuple[str, ...], ...]
    tests: tuple[str, ...]
    accuracy: Mapping[str, Mapping[str, float]]
    curves: Mapping[str, tuple[float, ...]]
    drift: Mapping[str, Mapping[str, tuple[float, ...]]]
    pictures: tuple[Picture, ...]
    uses: tuple[KindUse, ...]
    learned: tuple[tuple[str, str], ...]
    audit: Mapping[str, str]
    notes: tuple[str, ...]

    @property
    def drifts(self) -> tuple[tuple[str, str, float, float, float], ...]:
        """Method, hospital, and its drift in the first round, the last one, and on average."""
        return tuple(
            (method, name, values[0], values[-1], sum(values) / len(values))
            for method, hospitals in self.drift.items()
            for name, values in hospitals.items()
        )


def render(report: HospitalReport) -> str:
    """The page as HTML text."""
    from markupsafe import Markup

    # The SVGs come from matplotlib, which escapes the text that it draws.
    pictures = {
        "curves": Markup(picture(_draw_curves, report)),
        "curriculum": Markup(picture(_draw_curriculum, report)),
        "drift": Markup(picture(_draw_drift, report)),
    }
    return template("hospitals.html").render(report=report, pictures=pictures)


def _draw_curves(axes: "Axes", report: HospitalReport) -> None:
    for (method, values), style in zip(report.curves.items(), ("-", ":"), strict=False):
        axes.plot(range(1, len(values) + 1), values, style, color=INK, label=method)
    axes.set_xlabel("round")
    axes.set_ylabel("accuracy on all test rows")
    axes.legend(frameon=False, fontsize=9, loc="lower right")


def _draw_curriculum(axes: "Axes", report: HospitalReport) -> None:
    """The ranks of the first round with a curriculum, one line for each hospital; rows above the cut are crosses."""
    first = min(one.round for one in report.pictures)
    for one in report.pictures:
        if one.round == first:
            rows = len(one.uncertainty)
            ranks = [at - rows for at in range(rows)]  # -1 is the hardest
            colour = COLOURS[one.hospital]
            axes.plot(ranks, one.uncertainty, color=colour, linewidth=1.2, label=one.hospital)
            axes.axvline(one.green - rows - 0.5, color=colour, linestyle="--", linewidth=1)
            axes.plot(ranks[one.green :], one.uncertainty[one.green :], "x", color=colour, markersize=5)
    axes.set_xlim(left=-_HARDEST - 0.5, right=0)
    axes.set_xlabel(
        f"rank of a row in round {first}, counted from the hardest (dashed: the cut; crosses: rows above it)"
    )
    axes.set_ylabel("uncertainty")
    axes.legend(frameon=False, fontsize=9)


def _draw_drift(axes: "Axes", report: HospitalReport) -> None:
    for (method, hospitals), style in zip(report.drift.items(), ("-", ":"), strict=False):
        for name, values in hospitals.items():
            axes.plot(
                range(1, len(values) + 1),
                values,
                style,
                color=COLOURS.get(name, MUTED),
                label=f"{name}, {method}",
            )
    axes.set_xlabel("round")
    axes.set_ylabel("distance from the received model")
    axes.legend(frameon=False, fontsize=8, ncols=2)
