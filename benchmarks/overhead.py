"""What approval, gates, logs and TLS cost: the time of a governed FedCVT step against the same step in one process.

    python -m benchmarks.overhead [--json FILE] [--steps 300] [--repeats 5] [--d 16] [--aligned 200] [--alone 256]
                                  [--pool 512] [--no-reference]

Three ways of the same training, with the same seeds, each in processes with one thread:

- governed: two worker processes of two supervised parties, see `benchmarks.two_sites`;
- local: the same two programs in one process under `simulate`;
- plain: the same mathematics in one autograd graph, see `benchmarks.plain_fedcvt`.

Each run is a process of its own. Timed is the steady state: from the first progress report after a quarter of the steps
to the last step, so neither start, alignment nor evaluation, but refreshes of the memory, checkpoints, reservations in
the audit log and the progress file. `ratio` is the median over the repeats of governed / local, each pair measured one
right after the other, the order alternating. `cpu_ratio` compares the processor time, both workers' together: on a busy
machine it is the steadier of the two, but it knows nothing of waiting, nor of what both parties do at the same time.
`quiet_ratio` compares the quickest quarter of the intervals of 20 steps, of the least disturbed run of each way: what a
machine without other work would show, though mostly without checkpoints and log entries.

A run whose model differs from the others' in one bit, or whose losses differ from the plain ones, ends the benchmark:
it would compare different things.

`reference` in the JSON has the same numbers for a heavier setting: d 96, 256 aligned, 512 + 512 alone, pool 5000.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks.timed_runs import MODEL_FILE, REQUEST_FILE, STORES_FILE, Point, read_times
from benchmarks.two_sites import TEST_PEOPLE, Sites, two_sites
from parties.control.workers import worker_environment
from parties.home.private_files import make_private_folder
from parties.running.runspec import ARTIFACTS_FILE, TRAFFIC_FILE
from protocols.errors import ProtocolError
from protocols.request import to_text
from vertical.config import FedCVTConfig
from vertical.messages import MemoryViews, PassiveViews, ViewGradients

Json = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The size of a step: width d, aligned rows, alone rows of each party, rows of each pool; steps and repeats."""

    d: int = 16
    aligned: int = 200
    alone: int = 256
    pool: int = 512
    steps: int = 300
    repeats: int = 5
    checkpoint_every: int = 100

    def config(self) -> FedCVTConfig:
        """The product's settings; pseudo labels from the first step on, so that every step does the same work."""
        return FedCVTConfig(
            d=self.d,
            steps=self.steps,
            aligned_batch=self.aligned,
            alone_batch=self.alone,
            memory_pool=self.pool,
            max_aligned_train=self.aligned,
            max_aligned_test=TEST_PEOPLE,
            max_common=self.aligned + TEST_PEOPLE,
            max_passive_only=self.people,
            checkpoint_every=self.checkpoint_every,
            minimum_overlap=20,
            pseudo_from=0,
            pseudo_ramp=0,
            folds=0,
            linear_views=0,
            baselines=False,
            final_vote=False,
        )

    @property
    def people(self) -> int:
        """Alone people of each party: enough for the pool, and four batches."""
        return max(self.pool, 4 * self.alone)


REALISTIC = Setting()
REFERENCE = Setting(d=96, aligned=256, alone=512, pool=5000, steps=80, repeats=3, checkpoint_every=40)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One repeat: milliseconds per step of each way, see `steady` and `quiet`; bytes per step, both directions."""

    governed: float
    local: float
    plain: float
    cpu_governed: float
    cpu_local: float
    quiet_governed: float
    quiet_local: float
    quiet_plain: float
    bytes_per_step: float


def measure(setting: Setting) -> Json:
    """All numbers of one setting."""
    config = setting.config()
    with (
        tempfile.TemporaryDirectory(prefix="fedaccord-overhead-") as name,
        two_sites(Path(name), config, alone=setting.people, runs=setting.repeats) as sites,
    ):
        pairs = [_pair(sites, Path(name), config, number) for number in range(setting.repeats)]
    return _summary(setting, pairs)


def steady(points: Sequence[Point], *, cpu: bool = False) -> float:
    """Milliseconds (of processor time) per step from the first point after a quarter of the steps to the last one."""
    end = points[-1]
    start = next(point for point in points if point[0] > end[0] / 4)
    column = 2 if cpu else 1
    return 1000 * (end[column] - start[column]) / (end[0] - start[0])


def quiet(points: Sequence[Point]) -> float:
    """Milliseconds per step in the quickest quarter of the intervals between points, after a quarter of the steps."""
    start = points[-1][0] / 4
    each = [
        1000 * (later[1] - point[1]) / (later[0] - point[0])
        for point, later in pairwise(points)
        if point[0] > start
    ]
    return sorted(each)[len(each) // 4]


def _pair(sites: Sites, folder: Path, config: FedCVTConfig, number: int) -> Pair:
    if number % 2 == 0:
        one, workers = _local(sites, folder / f"local-{number}"), sites.run()
    else:
        workers, one = sites.run(), _local(sites, folder / f"local-{number}")
    if (one / MODEL_FILE).read_bytes() != (workers["active"] / ARTIFACTS_FILE).read_bytes():
        raise ProtocolError("the governed run's model differs from that of simulate")
    local, governed = read_times(one), {role: read_times(run)["governed"] for role, run in workers.items()}
    pair = Pair(
        governed=steady(governed["active"]),
        local=steady(local["local"]),
        plain=steady(local["plain"]),
        cpu_governed=sum(steady(points, cpu=True) for points in governed.values()),
        cpu_local=steady(local["local"], cpu=True),
        quiet_governed=quiet(governed["active"]),
        quiet_local=quiet(local["local"]),
        quiet_plain=quiet(local["plain"]),
        bytes_per_step=_bytes_per_step(workers["active"], config),
    )
    print(
        f"  repeat {number + 1}: governed {pair.governed:.2f} ms, local {pair.local:.2f} ms, "
        f"plain {pair.plain:.2f} ms, ratio {pair.governed / pair.local:.3f}",
        flush=True,
    )
    return pair


def _local(sites: Sites, folder: Path) -> Path:
    """The run in one process with a worker's environment; its folder."""
    make_private_folder(folder)
    (folder / REQUEST_FILE).write_text(to_text(sites.signed))
    stores = {role: str(state.blocks) for role, state in sites.states.items()}
    (folder / STORES_FILE).write_text(json.dumps(stores))
    command = [sys.executable, "-P", "-m", "benchmarks.timed_runs", "local", str(folder)]
    subprocess.run(command, env=worker_environment(), cwd=folder, check=True)
    return folder


def _bytes_per_step(run: Path, config: FedCVTConfig) -> float:
    """Encoded bytes both ways in a step, with its share of a refresh."""
    releases = json.loads((run / TRAFFIC_FILE).read_text())["releases"]
    each = {release["kind"]: release["bytes"] / release["messages"] for release in releases}
    step = sum(each[kind.__name__] for kind in (PassiveViews, ViewGradients))
    return float(step + each[MemoryViews.__name__] / config.memory_every)


def _summary(setting: Setting, pairs: Sequence[Pair]) -> Json:
    ratios = [pair.governed / pair.local for pair in pairs]
    least = {
        "governed": min(pair.quiet_governed for pair in pairs),
        "local": min(pair.quiet_local for pair in pairs),
        "plain": min(pair.quiet_plain for pair in pairs),
    }
    return {
        "ratio": round(statistics.median(ratios), 4),
        "ratio_spread": [round(min(ratios), 4), round(max(ratios), 4)],
        "cpu_ratio": round(statistics.median(pair.cpu_governed / pair.cpu_local for pair in pairs), 4),
        "quiet_ratio": round(least["governed"] / least["local"], 4),
        "quiet_ms_per_step": {way: round(value, 4) for way, value in least.items()},
        "ms_per_step_local": round(statistics.median(pair.local for pair in pairs), 4),
        "ms_per_step_governed": round(statistics.median(pair.governed for pair in pairs), 4),
        "ms_per_step_plain": round(statistics.median(pair.plain for pair in pairs), 4),
        "local_to_plain": round(statistics.median(pair.local / pair.plain for pair in pairs), 4),
        "bytes_per_step": round(statistics.median(pair.bytes_per_step for pair in pairs)),
        "setting": asdict(setting),
        "repeats": [asdict(pair) for pair in pairs],
    }


def machine() -> Json:
    """What the numbers depend on besides the code."""
    import numpy
    import torch

    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "load_before": round(os.getloadavg()[0], 2),
    }


def _text(name: str, result: Mapping[str, object]) -> str:
    keys = (
        "ratio",
        "ratio_spread",
        "cpu_ratio",
        "quiet_ratio",
        "quiet_ms_per_step",
        "ms_per_step_local",
        "ms_per_step_governed",
        "ms_per_step_plain",
    )
    lines = [f"{key:<22}{result[key]}" for key in (*keys, "local_to_plain", "bytes_per_step")]
    return "\n".join([name, *(f"  {line}" for line in lines)])


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description="time of a governed FedCVT step against simulate and plain torch"
    )
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    for name in ("steps", "repeats", "d", "aligned", "alone", "pool"):
        parser.add_argument(f"--{name}", type=int, default=getattr(REALISTIC, name))
    parser.add_argument("--no-reference", action="store_true", help="leave the heavier setting out")
    given = vars(parser.parse_args(arguments))
    path, skip = given.pop("json"), given.pop("no_reference")

    facts = machine()
    print("setting of the options:", flush=True)
    result = measure(Setting(**given))
    result |= {
        "machine": facts,
        "timing": "from the first report after a quarter of the steps to the last step",
    }
    if not skip:
        print("reference setting:", flush=True)
        result["reference"] = measure(REFERENCE)
    for name in ("options", "reference"):
        found = result if name == "options" else result.get(name)
        if isinstance(found, dict):
            print(_text(name, found))
    if path is not None:
        path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that workers and folders are cleared away
    sys.exit(main())
