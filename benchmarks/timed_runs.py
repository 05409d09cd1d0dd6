"""The processes that `benchmarks.overhead` times: the product's worker with a clock, and the same run in one process.

    python -P -m benchmarks.timed_runs worker RUN_FOLDER
    python -P -m benchmarks.timed_runs local FOLDER

Both note the time, and the processor time of their process, whenever a program tells of its training's progress (every
20th step and the last), and write that to `times.json`. Nothing else of the worker differs from the one that a
supervisor starts.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parties import catalog
from parties.blocks.store import Store
from parties.computation import Computation, Inputs
from parties.running.worker import run
from parties.running.worker_tools import Tools
from protocols import wire
from protocols.program import Json, Observe, Outcome, Program, Progress
from protocols.request import ComputationRequest, parse_signed
from protocols.seeds import injected
from vertical.config import FedCVTConfig
from vertical.table import PartyData
from vertical.training import tell_step

TIMES_FILE = "times.json"
REQUEST_FILE = "request.json"
STORES_FILE = "stores.json"
MODEL_FILE = "artifacts.bin"
PHASE = "fedcvt"
SEED = 1
"""Number of the injected private seeds: all ways of running then give the same model."""

Point = tuple[int, float, float]
"""Steps done, the time, and the process's processor time, in seconds."""


@dataclass(slots=True)
class Clock:
    """Notes a point whenever a training's progress is told."""

    points: list[Point] = field(default_factory=list)

    def watching(self, observe: Observe) -> Observe:
        """The observer, noting the time after each report of the training."""

        def both(progress: Progress) -> None:
            observe(progress)
            if progress.phase == PHASE:
                self.points.append((progress.step, time.perf_counter(), time.process_time()))

        return both


def read_times(folder: Path) -> dict[str, list[Point]]:
    """What a timed process wrote, points by name."""
    found: dict[str, list[Point]] = json.loads((folder / TIMES_FILE).read_text())
    return found


def timed_worker(folder: Path) -> int:
    """The product's worker on a run folder, from its first to its last word."""
    clock = Clock()

    def find(name: str, version: str) -> Computation:
        found = catalog.find(name, version)

        def program(inputs: Inputs) -> Program[Outcome]:
            return found.program(replace(inputs, observe=clock.watching(inputs.observe)))

        return replace(found, program=program)

    status = run(folder, Tools(find=find))
    _write_times(folder, governed=clock.points)
    return status


def timed_local(folder: Path) -> int:
    """The request's run under `simulate` and in one plain graph; leaves the model that `simulate` gave."""
    import torch

    from parties.roles.simulating import simulate_run

    torch.set_num_threads(1)
    request = parse_signed((folder / REQUEST_FILE).read_text()).request
    stores: dict[str, str] = json.loads((folder / STORES_FILE).read_text())
    data = {
        block.role: Store(Path(stores[block.role])).open(block.commitment, block.columns, block.label)
        for block in request.blocks
    }
    local = Clock()
    computation = catalog.find(request.computation, request.computation_version)
    observe = local.watching(lambda progress: None)
    outcomes = simulate_run(computation, request, data, observe, private_seed=SEED)
    (folder / MODEL_FILE).write_bytes(wire.pack_arrays(outcomes["active"].artifacts))
    plain = Clock()
    difference = _plain(request, data, outcomes, plain)
    _write_times(folder, local=local.points, plain=plain.points)
    if difference > 1e-4:
        print(f"the plain reference's losses differ by {difference:.2g}", file=sys.stderr)
        return 1
    return 0


def _plain(
    request: ComputationRequest, data: dict[str, PartyData], outcomes: dict[str, Outcome], clock: Clock
) -> float:
    """Trains the plain reference on the same people; the largest difference of a step's loss."""
    from benchmarks.plain_fedcvt import Joined, PlainFedCVT

    config = FedCVTConfig.from_parameters(request.parameters)
    joined = Joined.of(data, {role: outcome.artifacts for role, outcome in outcomes.items()})
    observe = clock.watching(lambda progress: None)

    def tick(step: int, loss: float) -> None:
        tell_step(observe, PHASE, step, config.steps)

    seeds = (injected(SEED, "active"), injected(SEED, "passive"))
    losses = PlainFedCVT(joined, config, request.public_seed, seeds).train(tick)
    return float(np.abs(np.subtract(losses, _losses(outcomes["active"].report["loss"]))).max())


def _losses(curves: Json) -> NDArray[np.float64]:
    assert isinstance(curves, dict)
    return np.asarray(curves[PHASE]["values"], dtype=np.float64)


def _write_times(folder: Path, **points: Sequence[Point]) -> None:
    (folder / TIMES_FILE).write_text(json.dumps(points))


def main(arguments: Sequence[str]) -> int:
    """The command: what to time, and the folder."""
    os.umask(0o077)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    what, folder = arguments
    return {"worker": timed_worker, "local": timed_local}[what](Path(folder).resolve())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
