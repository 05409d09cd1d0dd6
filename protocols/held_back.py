"""A released report without exact numbers, for a run whose people nearly are those of an earlier release.

Every count goes, so do curves and metrics, and what the disclosure rules had suppressed for reasons of its own: one
mark for all, since which of them changed, or fell below k, would tell where the few are whose difference is looked for.
Scores between 0 and 1 that are means over people stay, rounded so that fewer than k people together can't move one by
more than a step. Texts and settings stay.
"""

import math
from collections.abc import Mapping

from protocols.disclosure import METRIC_DIGITS, round_metric
from protocols.program import Json
from protocols.suppressed import SUPPRESSED

SCORES = frozenset({"auc", "accuracy", "balanced_accuracy"})
"""Scores in which one person weighs no more than 1 / (people of the smallest class)."""
LARGEST_STEP = 0.2
"""A score in larger steps would tell nothing worth telling."""


def reason(k: int) -> str:
    """What stands in the report in place of a number that is held back: "may", for who left the run can't say."""
    return f"may differ from an earlier release by fewer than {k} people"


def held_number(k: int) -> dict[str, Json]:
    """In place of a number that is held back, or of all that stands on people of whom nothing may be told."""
    return {"suppressed": "difference", "reason": reason(k)}


def held_back(released: Mapping[str, Json], report: Mapping[str, Json], k: int) -> dict[str, Json]:
    """The report as released, without exact numbers; `report` is the one before the disclosure rules.

    Its `people` and `classes` say how coarse a score has to be.
    """
    return _group(released, report, 0, k)


def _group(released: Mapping[str, Json], report: Mapping[str, Json], fewest: int, k: int) -> dict[str, Json]:
    fewest = _fewest(report, fewest)
    return {
        name: value if name == "settings" else _held(name, value, report.get(name), fewest, k)
        for name, value in released.items()
    }


def _held(name: str, value: Json, before: Json, fewest: int, k: int) -> Json:
    if isinstance(value, str | bool):
        return value
    if isinstance(value, float) and name in SCORES:
        return _score(value, score_step(fewest, k), k)
    if isinstance(value, Mapping) and isinstance(before, Mapping) and _is_group(name, value):
        return _group(value, before, fewest, k)
    return held_number(k)


def _is_group(name: str, value: Mapping[str, Json]) -> bool:
    return name != "classes" and value.keys() != SUPPRESSED and "points" not in value


def _score(value: float, step: float, k: int) -> Json:
    if step > LARGEST_STEP:
        return held_number(k)
    return round_metric(round(value / step) * step)


def score_step(people: int, k: int) -> float:
    """The smallest of ..., .01, .02, .05, .1, ... that k people of so many can't move a mean of theirs by more than."""
    if people < 1:
        return math.inf
    least = max(k / people, 10.0**-METRIC_DIGITS)
    power = 10.0 ** math.floor(math.log10(least))
    return min(step * power for step in (1, 2, 5, 10) if step * power >= least * (1 - 1e-9))


def _fewest(report: Mapping[str, Json], outer: int) -> int:
    """People behind the group's scores: of its smallest class where it has classes."""
    classes, people = report.get("classes"), report.get("people", outer)
    counts = [people, *(classes.values() if isinstance(classes, Mapping) else ())]
    return min((count for count in counts if isinstance(count, int) and count > 0), default=0)
