"""Counts, means and quantiles of one party's columns, for the analyst: a program of one party, which sends nothing.

Each number stands on people, not rows: a person's rows count once. Missing cells are the rest of the block's people, so
`protocols.disclosure` suppresses a column of which few cells are missing as well as one of which few are there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from protocols.contributors import around_quantile, by_person, dominated, significant
from protocols.program import Json, Outcome, Program
from protocols.settings import check_settings
from vertical.table import CategoricalColumn, Column, NumericColumn, PartyData, Rows, Split
from vertical.use_config import People

COLUMN = "column "
"""Before a column's name in the report: so no column can be taken for one of the report's own words."""
RARE = "(rare levels)"


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfig:
    """Which people, how many parts the quantiles cut (4: quartiles, 0: none), and the dominance rule (n, k percent).

    The `dominance_people` largest contributors may make up at most `dominance_percent` of a sum.
    """

    people: People = People.ALL
    quantiles: int = 4
    dominance_people: int = 1
    dominance_percent: int = 85

    RANGES: ClassVar[Mapping[str, tuple[float, float]]] = {
        "quantiles": (0, 20),
        "dominance_people": (1, 10),
        "dominance_percent": (1, 100),
    }

    def __post_init__(self) -> None:
        check_settings(self, self.RANGES, {"people": People})


def describe_program(data: PartyData, config: DescribeConfig, group: int) -> Program[Outcome]:
    """The report of all columns, `group` being the k of the disclosure rules; sends and receives nothing."""
    yield from ()
    rows = _rows(data, config)
    persons = _persons(data, rows)
    people: dict[str, Rows] = {"people": rows}
    total = len(np.unique(persons))
    report: dict[str, Json] = {"people": total}
    for column in data.table.columns:
        there = _present(column, rows)
        report[COLUMN + column.name] = {
            **_described(column.take(rows[there]), persons[there], config, group),
            "within": total,
        }
        people[COLUMN + column.name] = rows[there]
    return Outcome(report, {}, people)


def _rows(data: PartyData, config: DescribeConfig) -> Rows:
    if config.people == People.ALL:
        return np.arange(data.table.rows, dtype=np.int64)
    return data.rows_of(Split[config.people.name])


def _persons(data: PartyData, rows: Rows) -> NDArray[np.int64]:
    """A number for each row's person, equal for equal keys."""
    numbers: dict[bytes, int] = {}
    return np.array([numbers.setdefault(data.keys[row], len(numbers)) for row in rows.tolist()], np.int64)


def _present(column: Column, rows: Rows) -> NDArray[np.bool_]:
    if isinstance(column, NumericColumn):
        return np.asarray(np.isfinite(column.values[rows]))
    return np.asarray(column.codes[rows] >= 0)


def _described(
    column: Column, persons: NDArray[np.int64], config: DescribeConfig, group: int
) -> dict[str, Json]:
    people = len(np.unique(persons))
    if isinstance(column, CategoricalColumn):
        return {"people": people, "classes": _levels(column, persons, group)}
    shown: dict[str, Json] = {"people": people}
    if people:
        shown["mean"] = _told(np.asarray(column.values), persons, config)
    if config.quantiles:
        shown["quantiles"] = _quantiles(np.asarray(column.values), persons, config, group)
    return shown


def _levels(column: CategoricalColumn, persons: NDArray[np.int64], group: int) -> dict[str, Json]:
    """People by level; the names of levels with fewer than `group` people aren't told, they are counted together."""
    counts = {
        level: len(np.unique(persons[column.codes == code])) for code, level in enumerate(column.levels)
    }
    told: dict[str, Json] = {level: count for level, count in counts.items() if count >= group}
    rare = sum(count for count in counts.values() if count < group)
    return {**told, RARE: rare} if rare else told


def _told(values: NDArray[np.float64], persons: NDArray[np.int64], config: DescribeConfig) -> Json:
    """The mean over the rows, unless the dominance rule refuses it."""
    if dominated(by_person(values, persons), config.dominance_people, config.dominance_percent):
        return _refused(config)
    return significant(float(values.mean()))


def _quantiles(
    values: NDArray[np.float64], persons: NDArray[np.int64], config: DescribeConfig, group: int
) -> dict[str, Json]:
    """Each inner cut; of people with several rows the mean of their values counts."""
    _, index, rows = np.unique(persons, return_inverse=True, return_counts=True)
    ordered = np.sort(np.bincount(index, weights=values) / rows)
    shown: dict[str, Json] = {}
    for part in range(1, config.quantiles):
        share = part / config.quantiles
        around = around_quantile(ordered, share, group)
        if around is None:
            reason = f"fewer than {group} people lie on one side of it"
            shown[f"{share:.0%}"] = {"suppressed": "quantile", "reason": reason}
        elif dominated(around, config.dominance_people, config.dominance_percent):
            shown[f"{share:.0%}"] = _refused(config)
        else:
            shown[f"{share:.0%}"] = significant(float(around.mean()))
    return shown


def _refused(config: DescribeConfig) -> dict[str, Json]:
    many = "1 person has" if config.dominance_people == 1 else f"{config.dominance_people} people have"
    return {
        "suppressed": "dominance",
        "reason": f"{many} more than {config.dominance_percent} % of the sum",
    }
