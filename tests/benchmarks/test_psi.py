"""The alignment benchmark: two processes that find the same people, and the numbers it has to print."""

import json

import pytest

from benchmarks.psi import main, reference
from benchmarks.psi_side import CLIENT, SERVER, keys_of
from protocols.errors import ProtocolError


@pytest.mark.slow
def test_it_prints_and_writes_the_numbers(tmp_path, capsys):
    file = tmp_path / "psi.json"
    assert main(["--rows", "300", "--cores", "2", "--json", str(file)]) == 0
    found = json.loads(file.read_text())
    assert found["speedup"] == pytest.approx(found["reference_seconds"] / found["seconds"], rel=0.05)
    assert found["ids_per_second"] == pytest.approx(300 / found["seconds"], rel=0.05)
    assert found["peak_mb"] > 20
    cores = found["machine_cores"]
    assert found["cores_busy"] == pytest.approx(found["cpu_seconds"] / found["seconds"] / cores, rel=0.05)
    assert f"seconds             {found['seconds']}" in capsys.readouterr().out


def test_half_of_each_partys_people_are_common():
    for rows in (10, 11):
        ours, theirs = keys_of(CLIENT, rows), keys_of(SERVER, rows)
        assert len(set(ours)) == len(set(theirs)) == rows
        assert len(set(ours) & set(theirs)) == rows // 2


def test_a_wrong_reference_is_no_reference(monkeypatch):
    monkeypatch.setattr("benchmarks.psi.keys_of", lambda role, rows: [b"%d" % n for n in range(rows)])
    with pytest.raises(ProtocolError, match="reference"):
        reference(10)
