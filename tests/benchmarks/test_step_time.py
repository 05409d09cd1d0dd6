"""The step benchmark compares the same training, and its exit status says whether the bar holds."""

import json

import pytest

from benchmarks.overhead import Setting
from benchmarks.step_time import Meter, made_up, main
from vertical.table import Split

TINY = ["--steps", "60", "--d", "4", "--aligned", "20", "--alone", "8", "--pool", "16", "--repeats", "1"]


def test_it_prints_and_writes_the_ratio(tmp_path, capsys):
    file = tmp_path / "step.json"
    assert main([*TINY, "--limit", "1e9", "--json", str(file)]) == 0
    found = json.loads(file.read_text())
    assert found["ratio"] == pytest.approx(found["ms_per_step"] / found["ms_per_step_plain"], rel=0.01)
    assert f"ratio               {found['ratio']}" in capsys.readouterr().out
    assert main([*TINY, "--limit", "0"]) == 1


def test_a_meter_leaves_the_first_interval_of_each_run_out():
    meter = Meter([])
    for step in (1, 20, 40, 60, 1, 20, 40):
        meter.told(step)
    assert len(meter.per_step) == 3


def test_the_people_are_those_of_the_setting():
    setting = Setting(aligned=20, alone=8, pool=16)
    data = made_up(setting.aligned, setting.people)
    keys = {role: set(party.keys) for role, party in data.items()}
    assert len(keys["active"] & keys["passive"]) == 20
    assert [len(party.rows_of(Split.TRAIN)) for party in data.values()] == [20 + 32] * 2
    assert data["passive"].labels is None
