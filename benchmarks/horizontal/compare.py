"""Methods on the same splits and seeds: what each reaches, and which differences are larger than the noise."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from scipy import stats

from benchmarks.horizontal.record_file import RecordFile
from benchmarks.horizontal.task import Task, model, task
from horizontal.config import Scalar
from horizontal.evaluation import metrics
from horizontal.methods import method
from horizontal.simulation import Simulation, simulate

Tell = Callable[[str], None]
BASELINE = "fedavg"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is the same for all methods."""

    setting: str = "dirichlet0.1"
    model: str = "mlp"
    rounds: int = 60
    clients: int = 20
    per_round: int = 5
    seeds: int = 5
    epochs: int = 5
    batch: int = 32
    learning_rate: float = 0.05
    target: float = 0.8

    def parameters(self) -> dict[str, Scalar]:
        """Of a run's configuration."""
        return {
            "rounds": self.rounds,
            "fraction": self.per_round / self.clients,
            "epochs": self.epochs,
            "batch": self.batch,
            "learning_rate": self.learning_rate,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One method with one seed: test accuracy after each round, and what it cost.

    `area` is the mean accuracy over all rounds (of a run that ended early, its last one counts for the rest); `drift`
    the mean distance that a client moved the model in a round; `rounds_to_target` None if it never got there.
    """

    seed: int
    curve: tuple[float, ...]
    final: float
    best: float
    area: float
    drift: float
    cosine: float
    rounds_to_target: int | None
    megabytes: float
    seconds_per_round: float


def measure(name: str, setting: Setting, seed: int, made: Task | None = None) -> Run:
    """One run of a method; `made` is another task than the setting's."""
    made = made or task(setting.setting, setting.clients, seed)
    started = time.perf_counter()
    result = simulate(
        model(setting.model, seed),
        made.clients,
        method(name, **setting.parameters()),
        seed=seed,
        validate=lambda trained: metrics(trained, made.test),
        together=True,
    )
    return _run(result, setting, seed, time.perf_counter() - started)


def _run(result: Simulation, setting: Setting, seed: int, seconds: float) -> Run:
    curve = [value for _, value in result.curve("accuracy")]
    whole = curve + [curve[-1]] * (setting.rounds - len(curve))
    reached = [number for number, value in enumerate(curve, 1) if value >= setting.target]
    moved = result.traffic.to_clients + result.traffic.to_aggregator
    return Run(
        seed=seed,
        curve=tuple(round(value, 4) for value in curve),
        final=curve[-1],
        best=max(curve),
        area=statistics.fmean(whole),
        drift=_mean(result, "drift"),
        cosine=_mean(result, "cosine"),
        rounds_to_target=reached[0] if reached else None,
        megabytes=moved / 1e6,
        seconds_per_round=seconds / len(curve),
    )


def _mean(result: Simulation, name: str) -> float:
    history = cast(Mapping[str, Mapping[str, Mapping[str, float]]], result.report["rounds"])
    return statistics.fmean(value for record in history.values() for value in record[name].values())


def compare(
    names: Sequence[str], setting: Setting, tell: Tell, *, record: RecordFile | None = None
) -> dict[str, object]:
    """Every method with every seed, summed up, each against the baseline with the same seeds.

    Runs that `record` has already aren't repeated, and it is written after each new one.
    """
    runs = _known(record, setting)
    for seed in range(setting.seeds):
        for name in names:
            if (name, seed) not in runs:
                runs[name, seed] = measure(name, setting, seed)
                if record is not None:
                    record.write(_summed(runs, setting))
            run = runs[name, seed]
            told = f"accuracy {run.final:.3f} (best {run.best:.3f}), {run.seconds_per_round:.3f} s a round"
            tell(f"  seed {seed} {name:<16} {told}")
    return _summed(runs, setting)


def _known(record: RecordFile | None, setting: Setting) -> dict[tuple[str, int], Run]:
    """The runs in the file, if it is there and of this setting but for the number of seeds."""
    found = {} if record is None else record.read(asdict(setting))
    methods = cast(Mapping[str, Mapping[str, Sequence[dict[str, Any]]]], found.get("methods", {}))
    return {
        (name, run["seed"]): Run(**{**run, "curve": tuple(run["curve"])})
        for name, numbers in methods.items()
        for run in numbers["runs"]
    }


def _summed(runs: Mapping[tuple[str, int], Run], setting: Setting) -> dict[str, object]:
    by_method: dict[str, list[Run]] = {}
    for (name, _), run in sorted(runs.items(), key=lambda entry: entry[0][1]):
        by_method.setdefault(name, []).append(run)
    seeds = 1 + max(seed for _, seed in runs)
    return {
        "setting": asdict(replace(setting, seeds=seeds)),
        "methods": {name: summary(found, by_method.get(BASELINE)) for name, found in by_method.items()},
    }


def summary(runs: Sequence[Run], baseline: Sequence[Run] | None) -> dict[str, object]:
    """Means and standard deviations over seeds, the difference to the baseline, and the single runs."""
    numbers = ("final", "best", "area", "drift", "cosine", "megabytes", "seconds_per_round")
    found: dict[str, object] = {name: spread([getattr(run, name) for run in runs]) for name in numbers}
    base = {run.seed: run for run in baseline or ()}
    pairs = [(run, base[run.seed]) for run in runs if run.seed in base]
    if pairs and baseline is not runs:
        found["against_baseline"] = {
            name: difference([getattr(run, name) - getattr(other, name) for run, other in pairs])
            for name in ("final", "area", "drift")
        }
    found["rounds_to_target"] = [run.rounds_to_target for run in runs]
    found["runs"] = [asdict(run) for run in runs]
    return found


def spread(values: Sequence[float]) -> dict[str, float]:
    """Mean and standard deviation (ddof 1; 0 for one value)."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return {"mean": round(statistics.fmean(values), 5), "std": round(deviation, 5)}


def difference(paired: Sequence[float]) -> dict[str, object]:
    """Mean difference over seeds, its standard error, and whether it is larger than the noise by two measures.

    `beyond_two_errors` says that it is more than two standard errors from 0; `beyond_interval` that 0 is outside of
    its 95 % interval by Student's t, which with five seeds takes 2.8 of them. One test per method: of twenty without
    any difference one will seem to have one.
    """
    n, mean = len(paired), statistics.fmean(paired)
    if n < 2:
        return {"mean": round(mean, 5), "error": None, "beyond_two_errors": None, "beyond_interval": None}
    error = statistics.stdev(paired) / math.sqrt(n)
    return {
        "mean": round(mean, 5),
        "error": round(error, 5),
        "beyond_two_errors": abs(mean) > 2.0 * error,
        "beyond_interval": abs(mean) > float(stats.t.ppf(0.975, n - 1)) * error,
    }
