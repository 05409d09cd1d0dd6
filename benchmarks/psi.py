"""How fast an alignment is, with how much memory, and against the library's plain calls on the same sets.

    python -m benchmarks.psi --rows 200000 [--json FILE] [--cores ALL] [--repeats 1] [--no-reference]

Both parties run on this machine, each in a process of its own with `--cores` helper processes, past its own gate; half
of the people are common. `seconds` are from the moment both hold their keys until both know who is common. The
reference is openmined-psi's plain use in one process: CreateRequest, CreateSetupMessage (RAW), ProcessRequest and
GetIntersection. Each repeat measures both, one right after the other in changing order; `speedup` is the median of the
ratios. `cpu_ratio` is the reference's processor time by that of all our processes: on a busy machine it is the
steadier number, and times the cores it is the most that these could give. `cpu_seconds` is the processor time of all
our processes, `cores_busy` the share of the machine's cores that it filled. `ids_per_second` are rows of one party per
second; `peak_mb` is the larger party's, its helpers counted as if all were as large as the largest.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.psi_side import CLIENT, SERVER, keys_of
from parties.control.workers import worker_environment
from protocols.errors import ProtocolError
from protocols.psi import all_cores

Json = dict[str, object]
_REFERENCE = "reference"


def measure(rows: int, *, cores: int, repeats: int, reference: bool) -> Json:
    """All numbers; ProtocolError when a result is wrong."""
    ours, plain = [], []
    cpu: dict[str, list[float]] = {"ours": [], "plain": []}
    peaks, sent = [], 0
    for number in range(repeats):
        for which in ("ours", "plain") if number % 2 == 0 else ("plain", "ours"):
            if which == "ours":
                sides = run_parties(rows, cores)
                ours.append(max(float(str(side["seconds"])) for side in sides))
                cpu["ours"].append(sum(float(str(side["cpu_seconds"])) for side in sides))
                peaks.append(max(float(str(side["peak_mb"])) for side in sides))
                sent = sum(int(str(side["bytes_sent"])) for side in sides)
            elif reference:
                wall, busy = run_reference(rows)
                plain.append(wall)
                cpu["plain"].append(busy)
    seconds = statistics.median(ours)
    result: Json = {
        "rows": rows,
        "cores": cores,
        "seconds": round(seconds, 3),
        "ids_per_second": round(rows / seconds),
        "peak_mb": round(max(peaks), 1),
        "bytes_per_id": round(sent / rows, 1),
        "cpu_seconds": round(statistics.median(cpu["ours"]), 3),
        "cores_busy": round(
            statistics.median(c / s for c, s in zip(cpu["ours"], ours, strict=True)) / all_cores(), 3
        ),
        "repeats": [round(value, 3) for value in ours],
    }
    if plain:
        result |= {
            "reference_seconds": round(statistics.median(plain), 3),
            "reference_repeats": [round(value, 3) for value in plain],
            "cpu_ratio": round(
                statistics.median(p / o for p, o in zip(cpu["plain"], cpu["ours"], strict=True)), 3
            ),
            "speedup": round(statistics.median(p / o for p, o in zip(plain, ours, strict=True)), 3),
        }
    return result


def run_parties(rows: int, cores: int) -> list[Json]:
    """What each party's process says of one alignment; ProtocolError unless both found the common people."""
    ends = socket.socketpair()
    sides = []
    for role, end in zip((CLIENT, SERVER), ends, strict=True):
        command = [sys.executable, "-P", "-m", "benchmarks.psi_side", role, str(rows), str(cores)]
        sides.append(
            subprocess.Popen(
                [*command, str(end.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=worker_environment(),
                pass_fds=(end.fileno(),),
                text=True,
            )
        )
    for end in ends:
        end.close()
    try:
        for side in sides:
            assert side.stdout is not None
            side.stdout.readline()
        for side in sides:
            assert side.stdin is not None
            side.stdin.write("go\n")
            side.stdin.flush()
        found = [side.communicate()[0] for side in sides]
    finally:
        for side in sides:
            side.kill()
            side.wait()
    results: list[Json] = [json.loads(text) for text in found]
    if len({result["tag"] for result in results}) != 1 or {r["common"] for r in results} != {rows // 2}:
        raise ProtocolError("the parties didn't find the common people")
    return results


def run_reference(rows: int) -> tuple[float, float]:
    """Seconds and processor seconds of the library's plain calls, in a process of its own."""
    command = [sys.executable, "-P", "-m", "benchmarks.psi", "--rows", str(rows), f"--{_REFERENCE}"]
    done = subprocess.run(command, env=worker_environment(), check=True, capture_output=True, text=True)
    wall, busy = done.stdout.split()
    return float(wall), float(busy)


def reference(rows: int) -> tuple[float, float]:
    """Seconds and processor seconds of one intersection by openmined-psi's own client and server, no transport."""
    import private_set_intersection.python as openmined

    ours, theirs = ([key.decode() for key in keys_of(role, rows)] for role in (CLIENT, SERVER))
    start, before = time.perf_counter(), time.process_time()
    client, server = openmined.client.CreateWithNewKey(True), openmined.server.CreateWithNewKey(True)
    request = client.CreateRequest(ours)
    setup = server.CreateSetupMessage(0.0, rows, theirs, openmined.DataStructure.RAW)
    found = client.GetIntersection(setup, server.ProcessRequest(request))
    spent = time.perf_counter() - start, time.process_time() - before
    if len(found) != rows // 2:
        raise ProtocolError("the reference didn't find the common people")
    return spent


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="an alignment of two parties on this machine")
    parser.add_argument("--rows", type=int, default=20_000, help="people of each party")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    parser.add_argument("--cores", type=int, default=all_cores(), help="helper processes of each party")
    parser.add_argument("--repeats", type=int, default=1, help="of which the medians are taken")
    parser.add_argument("--no-reference", action="store_true", help="leave the library's plain calls out")
    parser.add_argument(f"--{_REFERENCE}", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.reference:
        print(*reference(given.rows))
        return 0
    load = os.getloadavg()[0]
    result = measure(
        given.rows, cores=given.cores, repeats=given.repeats, reference=not given.no_reference
    ) | {"machine_cores": all_cores(), "load_before": round(load, 2)}
    print("\n".join(f"{name:<20}{value}" for name, value in result.items()))
    if given.json is not None:
        given.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
