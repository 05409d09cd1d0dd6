"""The benchmark's JSON file: single scores as they come in, and what follows from them.

`scores[data][n][seed][part][name]` are the finished parts: written after each, so that a killed benchmark goes on where
it stood. What follows from them, for the benchmark itself `results`, `differences`, `only_active_view` and
`gap_closed_total`, is computed each time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np

T = TypeVar("T")
Scores: TypeAlias = dict[str, float]
Seeds: TypeAlias = dict[str, dict[str, Scores]]
"""Scores by seed, part and name."""
Paired: TypeAlias = dict[str, float | None]
"""Mean, standard error and number of seeds of a paired difference."""

Summarise: TypeAlias = Callable[[Mapping[str, Mapping[str, Seeds]], Mapping[str, str]], dict[str, object]]
"""What follows from scores[data][n][seed][part][name] and the metric of each data set."""

RIVALS = ("aligned_only", "active_alone", "passive_alone", "stack")
BETTER_OF = {
    "aligned_only": ("rivals.aligned_only", "fedcvt.aligned_only_network"),
    "active_alone": ("rivals.active_alone", "fedcvt.active_alone_network"),
    "oracle": ("oracles.oracle_linear", "oracles.oracle_flexible"),
}
"""Methods that are the better, by the mean over the seeds on the test people, of two models."""
ALONE = {
    "fedcvt": "fedcvt.both",
    "fedcvt_joint_head": "fedcvt.joint",
    "fedcvt_no_pseudo": "fedcvt_no_pseudo.both",
    "fedcvt_no_fill": "fedcvt_no_fill.both",
    "fedcvt_active_view": "fedcvt.active_only",
    "fedcvt_passive_view": "fedcvt.passive_only",
    "passive_alone": "rivals.passive_alone",
    "stack": "rivals.stack",
}
"""Methods that are one model: the part and name of its score."""


class ResultsFile:
    """Scores in a file; every change is written at once, whole."""

    def __init__(self, path: Path, summarise: Summarise | None = None) -> None:
        """Reads what is there already; `summarise` says what follows from the scores (None: `summary`)."""
        self.path = path
        self._summarise = summarise or summary
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        self.scores: dict[str, dict[str, Seeds]] = known.get("scores", {})
        self.metrics: dict[str, str] = known.get("metrics", {})
        self.notes: dict[str, dict[str, dict[str, dict[str, str]]]] = known.get("notes", {})

    def has(self, data: str, n: int, seed: int, part: str) -> bool:
        """Whether a part is finished."""
        return part in self._seeds(data, n).get(str(seed), {})

    def note(self, data: str, n: int, seed: int, part: str) -> str:
        """What was noted of a finished part: the configuration that a run chose."""
        return self.notes.get(data, {}).get(str(n), {}).get(str(seed), {}).get(part, "")

    def put(self, data: str, n: int, seed: int, part: str, found: Scores, note: str = "") -> None:
        """Adds a finished part and writes the file."""
        self._add(data, n, seed, part, found, note)
        self.write()

    def _add(self, data: str, n: int, seed: int, part: str, found: Scores, note: str) -> None:
        seeds = self.scores.setdefault(data, {}).setdefault(str(n), {})
        seeds.setdefault(str(seed), {})[part] = found
        if note:
            notes = self.notes.setdefault(data, {}).setdefault(str(n), {})
            notes.setdefault(str(seed), {})[part] = note

    def forget(self, parts: Collection[str]) -> None:
        """Drops finished parts of all cells and seeds, which are run anew: after a change that makes them untrue."""
        for part in parts:
            for scores in _by_part(self.scores):
                scores.pop(part, None)
            for notes in _by_part(self.notes):
                notes.pop(part, None)
        self.write()

    def adopt(self, other: ResultsFile) -> None:
        """Takes the finished parts of another file, run elsewhere, that this one lacks."""
        self.metrics = {**other.metrics, **self.metrics}
        for data, cells in other.scores.items():
            for n, seeds in cells.items():
                for seed, parts in seeds.items():
                    for part, found in parts.items():
                        if not self.has(data, int(n), int(seed), part):
                            self._add(
                                data,
                                int(n),
                                int(seed),
                                part,
                                found,
                                other.note(data, int(n), int(seed), part),
                            )
        self.write()

    def write(self) -> None:
        """Writes the file; a reader sees the old one or the new one."""
        text = json.dumps(
            {
                **self._summarise(self.scores, self.metrics),
                "metrics": self.metrics,
                "notes": self.notes,
                "scores": self.scores,
            },
            indent=1,
        )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".part")
        partial.write_text(text + "\n", encoding="utf-8")
        os.replace(partial, self.path)

    def _seeds(self, data: str, n: int) -> Seeds:
        return self.scores.get(data, {}).get(str(n), {})


def _by_part(records: Mapping[str, Mapping[str, Mapping[str, dict[str, T]]]]) -> list[dict[str, T]]:
    """What stands under each data set, number of aligned people and seed: something by part."""
    return [found for cells in records.values() for seeds in cells.values() for found in seeds.values()]


def summary(scores: Mapping[str, Mapping[str, Seeds]], metrics: Mapping[str, str]) -> dict[str, object]:
    """`results[data][n][method]`, and the paired comparisons of every cell."""
    results: dict[str, dict[str, dict[str, object]]] = {}
    differences: dict[str, dict[str, object]] = {}
    views: dict[str, dict[str, object]] = {}
    gains, gaps = [], []
    for data, cells in scores.items():
        for n, seeds in cells.items():
            values = by_method(seeds)
            results.setdefault(data, {})[n] = {
                method: _spread(list(found.values()), metrics[data]) for method, found in values.items()
            }
            if "fedcvt" not in values or not set(RIVALS) & values.keys():
                continue
            compared = compare(values)
            differences.setdefault(data, {})[n] = {"best_rival": best_rival(values), **compared}
            if "active_alone" in values:
                views.setdefault(data, {})[n] = paired(values["fedcvt_active_view"], values["active_alone"])
            gap, error = compared["gap_to_oracle"]["mean"], compared["gap_to_oracle"]["standard_error"]
            if gap is not None and error is not None and gap > 2.0 * error:
                gaps.append(gap)
                gains.append(compared["to_best_rival"]["mean"] or 0.0)
    total = sum(gains) / sum(gaps) if gaps else None
    return {
        "results": results,
        "differences": differences,
        "only_active_view": views,
        "gap_closed_total": total,
        "gap_cells": len(gaps),
    }


def by_method(seeds: Seeds) -> dict[str, dict[str, float]]:
    """Scores by method and seed; a method is left out of seeds in which a model of it isn't finished."""
    single = {name: _scores(seeds, place) for name, place in ALONE.items()}
    found = {name: values for name, values in single.items() if values}
    for name, places in BETTER_OF.items():
        models = [values for place in places if (values := _scores(seeds, place))]
        if models:
            found[name] = max(models, key=lambda values: float(np.mean(list(values.values()))))
    return found


def best_rival(values: Mapping[str, Mapping[str, float]]) -> str:
    """The rival with the highest mean."""
    return max((rival for rival in RIVALS if rival in values), key=lambda rival: _mean(values[rival]))


def compare(values: Mapping[str, Mapping[str, float]]) -> dict[str, Paired]:
    """Paired differences over the seeds: to the best rival, to each one, and of the oracle to the best one."""
    best = best_rival(values)
    against = {f"to_{rival}": paired(values["fedcvt"], values[rival]) for rival in RIVALS if rival in values}
    gap = paired(values.get("oracle", {}), values[best])
    return {"to_best_rival": against[f"to_{best}"], **against, "gap_to_oracle": gap}


def paired(left: Mapping[str, float], right: Mapping[str, float]) -> Paired:
    """Mean and standard error of left - right over the seeds that both have; None where there are too few."""
    seeds = sorted(left.keys() & right.keys())
    gaps = np.array([left[seed] - right[seed] for seed in seeds])
    return {
        "mean": float(gaps.mean()) if len(gaps) else None,
        "standard_error": float(gaps.std(ddof=1) / np.sqrt(len(gaps))) if len(gaps) > 1 else None,
        "n_seeds": len(gaps),
    }


def _scores(seeds: Seeds, place: str) -> dict[str, float]:
    part, name = place.split(".")
    return {seed: parts[part][name] for seed, parts in seeds.items() if name in parts.get(part, {})}


def _mean(values: Mapping[str, float]) -> float:
    return float(np.mean(list(values.values())))


def _spread(values: Sequence[float], metric: str) -> dict[str, object]:
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return {"mean": float(np.mean(values)), "std": deviation, "n_seeds": len(values), "metric": metric}
