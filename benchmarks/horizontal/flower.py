"""The same FedAvg task here and in Flower's simulation engine, on this machine, one right after the other.

Flower runs by a Python of its own (`--flower-python`), whose environment has `flwr[simulation]` and `torch`: its
dependencies don't fit beside ours. Timed is a round in the steady state: the time between the ends of rounds, the
first two left out, so neither start nor loading; no evaluation in either. Both may use all cores: Flower by a process
for each, here by threads, if a short trial is faster with them than with one (on a busy machine it is far slower: they
wait for each other in every step).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import nn

from benchmarks.horizontal.compare import Tell
from benchmarks.horizontal.task import Task, model, task
from horizontal.evaluation import metrics
from horizontal.methods import method
from horizontal.simulation import simulate
from protocols.errors import DataMissingError
from protocols.program import Progress

HERE = Path(__file__).resolve().parent
SETTINGS = {"clients": 20, "per_round": 5, "epochs": 2, "batch": 32, "learning_rate": 0.05}
"""MLP 784-128-10 on equal shares of the digits."""
_SKIPPED = 2


def against_flower(python: str, *, rounds: int, repeats: int, tell: Tell) -> dict[str, object]:
    """`seconds_per_round`, `seconds_per_round_flower` (medians over repeats) and their ratio `speedup`.

    Raises DataMissingError if that Python has no Flower.
    """
    version = flower_version(python)
    made, start = task("iid", SETTINGS["clients"], 0), model("mlp", 0)
    threads = _fastest_threads(made, start)
    found = []
    for number in range(repeats):
        theirs, their_model = _flower(python, made, start, rounds)
        ours, our_model = _ours(made, start, rounds, threads)
        accuracies = [metrics(trained, made.test)["accuracy"] for trained in (our_model, their_model)]
        found.append((ours, theirs, *accuracies))
        told = f"{ours:.4f} s a round, Flower {theirs:.4f} s"
        tell(f"  repeat {number + 1}: {told}, accuracy {accuracies[0]:.3f} and {accuracies[1]:.3f}")
    ours, theirs, our_accuracy, their_accuracy = (
        statistics.median(column) for column in zip(*found, strict=True)
    )
    return {
        "seconds_per_round": round(ours, 5),
        "seconds_per_round_flower": round(theirs, 5),
        "speedup": round(statistics.median(theirs / ours for ours, theirs, *_ in found), 2),
        "accuracy": round(our_accuracy, 4),
        "accuracy_flower": round(their_accuracy, 4),
        "flower": version,
        "task": {**SETTINGS, "rounds": rounds, "repeats": repeats},
        "cores": os.cpu_count(),
        "threads": threads,
        "load": round(os.getloadavg()[0], 2),
    }


def flower_version(python: str) -> str:
    """The version of Flower that this Python has. DataMissingError says how to get one."""
    look = "import flwr, ray, torch, importlib.metadata as m; print(m.version('flwr'))"
    try:
        done = subprocess.run([python, "-c", look], capture_output=True, text=True, check=False)
    except OSError as problem:
        raise DataMissingError(f"{python} can't be run: {problem.strerror}", remedy=_REMEDY) from problem
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["it says nothing"]
        raise DataMissingError(f"{python} has no Flower to compare with: {last[0]}", remedy=_REMEDY)
    return done.stdout.strip()


_REMEDY = 'python -m venv flower; flower/bin/pip install "flwr[simulation]" torch; --flower-python flower/bin/python'


def per_round(times: Sequence[float]) -> float:
    """The median seconds between the ends of rounds, without the first ones."""
    return statistics.median(later - earlier for earlier, later in pairwise(times[_SKIPPED:]))


def _fastest_threads(made: Task, start: nn.Module) -> int:
    """One thread or one for each core, by a trial of a few rounds."""
    tried = {count: _ours(made, start, _SKIPPED + 4, count)[0] for count in {1, os.cpu_count() or 1}}
    return min(tried, key=tried.__getitem__)


def _ours(made: Task, start: nn.Module, rounds: int, threads: int) -> tuple[float, nn.Module]:
    times: list[float] = []

    def note(progress: Progress) -> None:
        times.append(time.perf_counter())

    config = method(
        "fedavg",
        rounds=rounds,
        fraction=SETTINGS["per_round"] / SETTINGS["clients"],
        epochs=int(SETTINGS["epochs"]),
        batch=int(SETTINGS["batch"]),
        learning_rate=SETTINGS["learning_rate"],
    )
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        result = simulate(start, made.clients, config, together=True, observe=note)
    finally:
        torch.set_num_threads(before)
    return per_round(times), result.model


def _flower(python: str, made: Task, start: nn.Module, rounds: int) -> tuple[float, nn.Module]:
    with tempfile.TemporaryDirectory(prefix="fedaccord-flower-") as name:
        folder = Path(name)
        _write(folder, made, start, rounds)
        environment = {
            **os.environ,
            "PYTHONPATH": str(HERE),
            "FLOWER_TASK": str(folder),
            "OMP_NUM_THREADS": "1",
        }
        command = [python, "-c", "import flower_run; flower_run.run()"]
        done = subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, text=True, check=False
        )
        if done.returncode or not (folder / "result.json").exists():
            raise DataMissingError(f"Flower's run failed: {done.stderr[-500:]}")
        times = json.loads((folder / "result.json").read_text())["times"]
        trained = model("mlp", 0)
        with np.load(folder / "result.npz") as stored:
            names = enumerate(trained.state_dict())
            trained.load_state_dict({n: torch.from_numpy(stored[f"w_{i}"]) for i, n in names})
    return per_round(times), trained


def _write(folder: Path, made: Task, start: nn.Module, rounds: int) -> None:
    arrays = {f"w_{i}": value.numpy() for i, value in enumerate(start.state_dict().values())}
    for number, data in enumerate(made.clients.values()):
        rows = data.rows(1)
        arrays |= {f"x_{number}": rows.features.numpy(), f"y_{number}": rows.labels.numpy()}
    np.savez(folder / "task.npz", **arrays)
    (folder / "task.json").write_text(json.dumps({**SETTINGS, "rounds": rounds}))
