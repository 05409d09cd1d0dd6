"""The benchmark with tiny settings: real workers, every key, plausible numbers."""

import json
from pathlib import Path

import pytest

from benchmarks.overhead import main, quiet, steady

KEYS = {
    "ratio",
    "ratio_spread",
    "cpu_ratio",
    "quiet_ratio",
    "quiet_ms_per_step",
    "ms_per_step_local",
    "ms_per_step_governed",
    "ms_per_step_plain",
    "local_to_plain",
    "bytes_per_step",
    "setting",
    "repeats",
    "machine",
    "timing",
}


def test_the_steady_part_is_what_follows_the_first_quarter():
    # 2.5 s of start, then steps of 10 ms (4 ms of processor time); the first point after 100 / 4 steps is at 40
    points = [(step, 2.5 + 0.01 * step, 1.0 + 0.004 * step) for step in (20, 40, 60, 80, 100)]
    points[0] = (20, 0.0, 0.0)
    assert steady(points) == pytest.approx(10.0)
    assert steady(points, cpu=True) == pytest.approx(4.0)


def test_the_quiet_part_leaves_disturbed_intervals_out():
    # Intervals of 20 steps that take 400 ms, 200, 1000, 220 and 300; those of a point in the first 101 / 4 steps don't
    # count, so 1000, 220 and 300 are left, whose quickest quarter is 220: 11 ms a step.
    ends = [0.0, 0.4, 0.6, 1.6, 1.82, 2.12]
    points = [(1 + 20 * number, end, 0.0) for number, end in enumerate(ends)]
    assert quiet(points) == pytest.approx(11.0)


@pytest.mark.slow
def test_a_tiny_run_gives_every_number(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    file = tmp_path / "overhead.json"
    sizes = {"steps": 60, "repeats": 2, "d": 4, "aligned": 24, "alone": 16, "pool": 32}
    options = [text for name, value in sizes.items() for text in (f"--{name}", str(value))]
    assert main([*options, "--json", str(file), "--no-reference"]) == 0
    found = json.loads(file.read_text())
    assert found.keys() == KEYS
    assert found["setting"] == {**sizes, "checkpoint_every": 100}
    assert len(found["repeats"]) == 2
    for name in ("ratio", "cpu_ratio", "ms_per_step_local", "ms_per_step_governed", "ms_per_step_plain"):
        assert found[name] > 0
    assert found["quiet_ratio"] > 0
    assert found["quiet_ms_per_step"].keys() == {"governed", "local", "plain"}
    low, high = found["ratio_spread"]
    assert low <= found["ratio"] <= high
    # Views and gradients of 24 + 16 rows of 8 floats, and 24 x 8 + 32 x 4 floats every 20 steps; headers come on top.
    content = 4 * (2 * 40 * 8 + (24 * 8 + 32 * 4) / 20)
    assert content < found["bytes_per_step"] < content + 600
    assert "ms_per_step_governed" in capfd.readouterr().out
