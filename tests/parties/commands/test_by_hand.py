"""The demo's work by the real commands alone, in processes of their own, gives the demo's bits, on fewer people."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from parties import catalog
from parties.demo.data import SPLIT, SUBJECT_KEY
from parties.demo.setup import BANK, RETAILER, ROLES, specs
from parties.demo.steps import same_bits
from parties.roles.plan import read_plan
from parties.roles.simulating import LocalSettings, read_data, simulate_run
from parties.running.runspec import ARTIFACTS_FILE
from protocols.disclosure import releasable
from protocols.program import Outcome
from protocols.wire import unpack_arrays
from tests.ports import free_ports

ROOT = Path(__file__).resolve().parents[3]
KEPT = 1000
"""How many of the demo's test people, and of each party's other people, are kept."""
SHORT = {
    "steps": 20,
    "pseudo_from": 6,
    "pseudo_ramp": 6,
    "folds": 2,
    "baseline_steps": 5,
    "max_aligned_test": KEPT,
    "max_common": KEPT + 200,
    "max_passive_only": KEPT,
}
SCRIPT = Path(__file__).with_name("by_hand.sh")
SECONDS = 1800


@pytest.mark.slow
@pytest.mark.syft
def test_the_work_by_hand_gives_the_demos_bits(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    command = [sys.executable, "-m", "parties"]
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "FEDACCORD": " ".join(command),
    }
    subprocess.run(
        [*command, "demo", "--prepare", "--out", folder], env=environment, check=True, timeout=SECONDS
    )
    _make_smaller(folder)
    first = free_ports(12)
    ports = [f"{first}-{first + 9}", f"{first + 10}", f"{first + 11}"]
    done = subprocess.run(
        ["bash", SCRIPT, folder, *ports],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-2000:]
    status = json.loads((folder / "status.json").read_text())
    assert {name: facts["state"] for name, facts in status["parties"].items()} == {
        BANK: "DONE",
        RETAILER: "DONE",
    }
    described = json.loads((folder / "described.json").read_text())["results"][BANK]["report"]
    assert described["people"] == len((folder / "data" / "bank.csv").read_text().splitlines()) - 1
    assert 35 < described["column hours-per-week"]["mean"] < 45
    results = json.loads((folder / "result.json").read_text())["results"]
    assert 0.5 < results[BANK]["report"]["methods"]["fedcvt"]["both"]["auc"] < 1
    for name in ROLES:
        audit = json.loads((folder / f"{name}-audit.json").read_text())
        assert (audit["status"], len(audit["heads_compared"])) == ("ok", 1)
    twin, trained = _twin(folder), json.loads((folder / "submitted.json").read_text())["digest"]
    for name, role in ROLES.items():
        path = folder / name / "runs" / f"{trained}-1" / ARTIFACTS_FILE
        assert same_bits(unpack_arrays(path.read_bytes()), twin[role].artifacts), name
    assert results[BANK]["report"] == json.loads(json.dumps(releasable(twin["active"].report, 10)))


def test_the_description_by_hand_is_readmes() -> None:
    (command,) = re.findall(r"fedaccord (describe bank/.*)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert f"say {command}" in SCRIPT.read_text(encoding="utf-8")


def _make_smaller(folder: Path) -> None:
    """Leaves out people and shortens the training: the way is the same, and takes a quarter of the time."""
    plan = (folder / "plan.toml").read_text()
    for name, value in SHORT.items():
        plan, found = re.subn(rf"^{name} = .*$", f"{name} = {value}", plan, flags=re.MULTILINE)
        assert found == 1, name
    (folder / "plan.toml").write_text(plan)
    files = [folder / "data" / f"{name}.csv" for name in ROLES]
    tables = [list(csv.DictReader(file.read_text().splitlines())) for file in files]
    people = [{row[SUBJECT_KEY]: row[SPLIT] for row in table} for table in tables]
    common = people[0].keys() & people[1].keys()
    aligned = {key for key in common if people[0][key] == "train"}
    kept = aligned | set(sorted(common - aligned)[:KEPT])
    for file, table, own in zip(files, tables, people, strict=True):
        chosen = kept | set(sorted(own.keys() - common)[:KEPT])
        with file.open("w", newline="") as written:
            writer = csv.DictWriter(written, table[0].keys())
            writer.writeheader()
            writer.writerows(row for row in table if row[SUBJECT_KEY] in chosen)


def _twin(folder: Path) -> dict[str, Outcome]:
    """The plan's programs in one process, on the same files, with the same seeds; as the demo computes its twin."""
    plan = read_plan(folder / "plan.toml")
    computation = catalog.CATALOG[plan.computation]
    settings = LocalSettings(
        parameters=computation.parameters(plan.parameters, plan.minimum_overlap),
        public_seed=plan.public_seed,
        minimum_overlap=plan.minimum_overlap,
    )
    data = {ROLES[name]: read_data(folder / "data" / f"{name}.csv", spec) for name, spec in specs().items()}
    return simulate_run(computation, settings, data, lambda progress: None, private_seed=0)
