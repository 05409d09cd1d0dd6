"""Horizontal methods compared in one process, for researchers: one file dealt out to clients, or one file for each.

Every method trains the same network on the same rows from the same first weights. Nothing is suppressed: whoever runs
this owns the rows. The numbers are about a simulation, in which an aggregator can look at test rows; between parties
only the clients have any.
"""

import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from horizontal.client_data import ClientData
from horizontal.compatibility import table as compatibility
from horizontal.config import HorizontalConfig
from horizontal.evaluation import metrics
from horizontal.fedoui import check_model
from horizontal.heterogeneity import deal
from horizontal.local import Examples
from horizontal.methods import METHODS
from horizontal.simulation import Simulation, simulate
from horizontal.table_task import TableTask, complete, from_parameters
from horizontal.together import why_apart
from parties.blocks.block import BlockSpec, describe_block, read_block
from parties.catalog import one_thread
from parties.catalog.horizontal_tables import client_rows, published_task
from parties.roles.simulating import block_data
from protocols.errors import BlockError, ConfigError
from protocols.program import Json, Progress
from protocols.seeds import injected
from vertical.table import NumericColumn, PartyData, Split, Table

TEST_SHARE = 0.25
"""Of rows that no split column assigns, how many are test rows."""
ARRAYS = ".npz"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientsToSimulate:
    """Which files (one for all clients, or one for each), how they are read, and which methods run how long.

    `setting` says how clients differ whose rows come from one file; `changes` are parameters on top of each method.
    """

    files: tuple[Path, ...]
    key: str = ""
    label: str = ""
    split: str = ""
    methods: tuple[str, ...] = ("fedavg", "fedbss")
    clients: int = 0
    setting: str = ""
    changes: Mapping[str, object]
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClientsSimulated:
    """What a comparison gave: of each method its scores on all test rows after every round, drift and bytes."""

    sizes: Mapping[str, int]
    test_rows: int
    seed: int
    runs: Mapping[str, Simulation]

    @property
    def document(self) -> dict[str, object]:
        """The comparison for a program."""
        return {
            "simulated": True,
            "seed": self.seed,
            "training_rows": dict(self.sizes),
            "test_rows": self.test_rows,
            "methods": {name: _record(run) for name, run in self.runs.items()},
        }

    @property
    def text(self) -> str:
        """The comparison as a table, with what its columns are."""
        sizes = list(self.sizes.values())
        lines = [
            f"{len(sizes)} clients with {min(sizes)} to {max(sizes)} training rows, {self.test_rows} test rows in all",
            f"{'method':<18}{'final':>8}{'best':>8}{'at round':>10}{'loss':>9}{'drift':>9}{'kB a round':>12}",
        ]
        for name, run in self.runs.items():
            accuracy = run.curve("accuracy")
            best = max(accuracy, key=lambda point: point[1])
            drift = _drift(run)
            sent = (run.traffic.to_clients + run.traffic.to_aggregator) / 1000 / len(accuracy)
            lines.append(
                f"{name:<18}{accuracy[-1][1]:>8.3f}{best[1]:>8.3f}{best[0]:>10}{run.curve('loss')[-1][1]:>9.3f}"
                f"{'-' if drift is None else f'{drift:.3f}':>9}{sent:>12.1f}"
            )
        return "\n".join(
            [
                *lines,
                "final and best: accuracy of the common model on all test rows; the best round is chosen by them",
                "drift: how far a client moves the model in a round, mean of all",
            ]
        )


def what_there_is() -> str:
    """The methods by name, every setting with its default, and what combines with what, and why not."""
    made = [
        f"{name:<18}{', '.join(f'{key}={value}' for key, value in changes.items()) or 'the defaults'}"
        for name, changes in METHODS.items()
    ]
    settings = [f"{name}={value}" for name, value in HorizontalConfig().to_parameters()]
    lines = ["methods, by the settings that make them", *made, "", "settings and their defaults (--set)"]
    return "\n".join([*lines, *textwrap.wrap(", ".join(settings), 110), "", compatibility()])


def simulate_clients(asked: ClientsToSimulate, tell: Callable[[str], None]) -> ClientsSimulated:
    """Runs every method on the same clients. Raises ConfigError with the reason for what doesn't combine."""
    one_thread()
    whole, published = _read(asked)
    task, configs = _methods(asked, published)
    clients = _clients(asked, whole, task)
    parts = {name: client_rows(data, task) for name, data in clients.items()}
    test = _joined([test for _, _, test in parts.values() if test is not None])
    rows = {name: ClientData(training=train, validation=held) for name, (train, held, _) in parts.items()}
    runs = {}
    for name, config in configs.items():
        model = task.network(injected(asked.seed, "aggregator"))
        runs[name] = simulate(
            model,
            rows,
            config,
            seed=asked.seed,
            validate=lambda model: metrics(model, test),
            together=not why_apart(model, config, None),
            observe=_telling(name, tell),
        )
    sizes = {name: len(train) for name, (train, _, _) in parts.items()}
    return ClientsSimulated(sizes=sizes, test_rows=len(test), seed=asked.seed, runs=runs)


def _methods(
    asked: ClientsToSimulate, published: Mapping[str, object]
) -> tuple[TableTask, dict[str, HorizontalConfig]]:
    """The task, and the settings of every method: what is wrong with one is said before the first takes its time."""
    configs = {}
    for name in asked.methods:
        given = {**published, **asked.changes, "method": name}
        task, configs[name] = from_parameters(complete(given))
        if configs[name].uses_oui:
            check_model(task.network(b"any weights"))
    if not configs:
        raise ConfigError("no method to run", remedy="such as --methods fedavg,fedbss")
    return task, configs


def _read(asked: ClientsToSimulate) -> tuple[list[PartyData], dict[str, object]]:
    """The data of each file, and features and classes for all of them."""
    if not asked.files:
        raise ConfigError("no file", remedy="name one with --client, or one for each client")
    if len(asked.files) > 1 and (asked.clients or asked.setting):
        raise ConfigError(
            "--clients and --setting deal out one file; each of these files is a client of its own",
            remedy="leave them out, or name one file",
        )
    if {file.suffix == ARRAYS for file in asked.files} == {True}:
        return _arrays(asked.files)
    if not asked.key or not asked.label:
        raise ConfigError("a table needs --key (the column that identifies people) and --label")
    spec = BlockSpec(name="rows", subject_key=asked.key, label=asked.label, split=asked.split)
    blocks = {file.stem + str(at): read_block(file, spec) for at, file in enumerate(asked.files)}
    schemas = {name: describe_block(block) for name, block in blocks.items()}
    return [block_data(block) for block in blocks.values()], published_task(schemas, tuple(asked.changes))


def _arrays(files: tuple[Path, ...]) -> tuple[list[PartyData], dict[str, object]]:
    found = [_npz(file) for file in files]
    widths = {features.shape[1] for features, _ in found}
    if len(widths) > 1:
        raise BlockError(f"the files differ in the number of features: {', '.join(map(str, sorted(widths)))}")
    classes = [str(code) for code in np.unique(np.concatenate([labels for _, labels in found])).tolist()]
    low = min(float(features.min()) for features, _ in found)
    high = max(float(features.max()) for features, _ in found)
    (width,) = widths
    name = "x0" if width == 1 else f"x0..x{width - 1}"
    task: dict[str, object] = {"features": [[name, low, high]], "classes": classes}
    return [_table(features, labels, classes) for features, labels in found], task


def _npz(file: Path) -> tuple[NDArray[np.float64], NDArray[np.generic]]:
    """Features (n, f) and labels (n,) of a file with the arrays x and y. BlockError naming what is wrong."""
    try:
        with np.load(file, allow_pickle=False) as arrays:
            x, y = arrays["x"], arrays["y"]
    except (OSError, KeyError, ValueError) as error:
        raise BlockError(f"{file}: expected arrays x and y of numbers ({type(error).__name__})") from error
    if y.ndim != 1 or len(x) != len(y) or not len(x) or not np.issubdtype(x.dtype, np.number):
        raise BlockError(f"{file}: expected x (n, ...) of numbers and y (n,), came {x.shape} and {y.shape}")
    features = x.reshape(len(x), -1).astype(np.float64)
    if not np.isfinite(features).all():
        raise BlockError(f"{file}: x has values that are not finite")
    return features, y


def _table(features: NDArray[np.float64], labels: NDArray[np.generic], classes: list[str]) -> PartyData:
    columns = tuple(
        NumericColumn(name=f"x{at}", values=np.ascontiguousarray(column))
        for at, column in enumerate(features.T)
    )
    codes = np.array([classes.index(str(code)) for code in labels.tolist()], np.int64)
    return PartyData(
        keys=tuple(str(row).encode() for row in range(len(codes))),
        table=Table(columns),
        split=np.zeros(len(codes), np.uint8),
        labels=codes,
        classes=tuple(classes),
    )


def _clients(asked: ClientsToSimulate, whole: list[PartyData], task: TableTask) -> dict[str, PartyData]:
    """Each client's rows by its role, some of them for test."""
    if len(whole) == 1:
        (data,) = whole
        assert data.labels is not None
        data = data.take(np.flatnonzero(data.labels >= 0).astype(np.int64))
        labels = data.labels
        assert labels is not None
        generator = np.random.default_rng([asked.seed, 1])
        parts = deal(asked.setting or "dirichlet0.5", labels, asked.clients or 10, generator)
        whole = [data.take(rows) for rows in parts]
    generator = np.random.default_rng([asked.seed, 2])
    split = whole if asked.split else [_with_test(data, generator) for data in whole]
    return {f"client-{number}": data for number, data in enumerate(split, 1)}


def _with_test(data: PartyData, generator: np.random.Generator) -> PartyData:
    split = np.full(data.table.rows, Split.TRAIN, np.uint8)
    split[generator.permutation(len(split))[: int(TEST_SHARE * len(split))]] = Split.TEST
    return replace(data, split=split)


def _joined(parts: list[Examples]) -> Examples:
    if not parts:
        raise BlockError(
            "no client has a test row", remedy="name a split column with test rows, or leave it out"
        )
    return Examples(torch.cat([part.features for part in parts]), torch.cat([part.labels for part in parts]))


def _telling(name: str, tell: Callable[[str], None]) -> Callable[[Progress], None]:
    """Says how far a method is, ten times in a run."""

    def observe(progress: Progress) -> None:
        if progress.step == progress.of or progress.step % max(1, progress.of // 10) == 0:
            loss = "" if progress.loss is None else f"  loss {progress.loss:.3f}"
            tell(f"{name}  round {progress.step}/{progress.of}{loss}{progress.note}")

    return observe


def _record(run: Simulation) -> dict[str, object]:
    return {
        "accuracy": run.curve("accuracy"),
        "loss": run.curve("loss"),
        "drift": _drift(run),
        "bytes_to_clients": run.traffic.to_clients,
        "bytes_to_aggregator": run.traffic.to_aggregator,
        "end": run.report["end"],
    }


def _drift(run: Simulation) -> float | None:
    """How far a client moves the model, mean of all; None where sums under masks are all that is known."""
    values = list(_drifts(run.report["rounds"]))
    return sum(values) / len(values) if values else None


def _drifts(rounds: Json) -> Iterator[float]:
    assert isinstance(rounds, Mapping)
    for record in rounds.values():
        assert isinstance(record, Mapping)
        drift = record.get("drift", {})
        assert isinstance(drift, Mapping)
        yield from (float(value) for value in drift.values() if isinstance(value, float))
