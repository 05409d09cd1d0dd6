"""The horizontal demo's data and page, and, with real servers, its whole story."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from parties.demo.hospital_data import CLASSES, COLUMNS, deal, records, write_csv
from parties.demo.hospital_page import HospitalReport, render
from parties.demo.hospital_setup import plan_text, prepare_hospitals
from parties.demo.hospital_story import run_hospitals
from parties.demo.hospital_twin import Picture
from parties.demo.page import KindUse
from parties.demo.setup import HOSPITALS
from parties.roles.plan import read_plan
from parties.roles.review import readable_bytes
from tests.parties.commands.town import fedaccord

CURVE = tuple(0.1 * at for at in range(10))
REPORT = HospitalReport(
    title="Three hospitals",
    digest="ab" * 32,
    computation="horizontal.train 1",
    seconds=60.0,
    released=(("north", "59", "0.949", "0.950", "0.644"),),
    tests=("north", "all"),
    curves={"FedBSS": CURVE, "FedAvg": CURVE},
    accuracy={"FedBSS <b>": {"north": 0.95, "all": 0.96}},
    drift={"FedBSS": dict.fromkeys(HOSPITALS, CURVE)},
    pictures=tuple(
        Picture(hospital=name, round=2, uncertainty=CURVE, green=4, admitted=(5, 10)) for name in HOSPITALS
    ),
    uses=(KindUse(party="north", kind="Update", receiver="registry", messages=40, bytes=120_000),),
    learned=(("registry", "each model"),),
    audit={"north": "ok"},
    notes=("a note",),
)


def test_every_record_is_at_one_hospital_and_classes_are_skewed() -> None:
    parts = deal()
    rows = [row for train, test in parts.values() for row in (*train.tolist(), *test.tolist())]
    assert sorted(rows) == list(range(len(records()))) == list(range(569))
    shares = {}
    for name, (train, test) in parts.items():
        ill = [records()[row][-1] == "malignant" for row in train]
        shares[name] = sum(ill) / len(ill)
        for label in CLASSES:  # enough of each for the disclosure rules
            assert sum(records()[row][-1] == label for row in test) >= 10
    assert shares["north"] > 0.6
    assert shares["east"] < 0.2


def test_the_files_are_the_same_each_time(tmp_path: Path) -> None:
    first, again = write_csv(tmp_path / "a"), write_csv(tmp_path / "b")
    for name in HOSPITALS:
        text = first[name].read_text()
        assert text == again[name].read_text()
        assert text.splitlines()[0].split(",") == ["tumour", "split", *COLUMNS, "diagnosis"]


def test_the_plan_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(plan_text())
    assert [(party.name, party.role) for party in read_plan(path).parties] == [
        ("registry", "aggregator"),
        *((name, "client") for name in HOSPITALS),
    ]


def test_the_page_shows_all_and_escapes_it() -> None:
    page = render(REPORT)
    assert page.count("<svg") == 3
    assert "FedBSS &lt;b&gt;" in page
    for text in ("0.949", "5, 10", "registry", "120,000", "a note", "rank of a row in round 2, counted"):
        assert text in page
    assert page == render(replace(REPORT))
    assert readable_bytes(120_000) == "120.0 kB"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--secure",), "--secure is for horizontal runs"),
        (("--horizontal", "--secure", "--seeds", "2"), "--horizontal goes with --out and --secure only"),
    ],
)
def test_options_that_do_not_go_together_are_refused(words: tuple[str, ...], text: str) -> None:
    said = fedaccord("demo", *words)
    assert (said.status, text in said.err) == (1, True), said


def test_a_secure_plan_puts_the_aggregator_at_the_analysts_and_asks_for_sums(tmp_path: Path) -> None:
    for secure in (False, True):
        stage = prepare_hospitals(tmp_path / str(secure), secure=secure)
        asked = read_plan(stage.plan).parameters
        assert (asked.get("secure_aggregation", False), asked["minimum_clients"]) == (secure, 2 + secure)
        organisations = {name: stage.states[name].organisation for name in ("registry", "analyst", "north")}
        assert (organisations["registry"] == organisations["analyst"]) is secure
        assert organisations["north"] == "Hospital North"


@pytest.mark.slow
@pytest.mark.syft
def test_three_hospitals_and_the_analysts_aggregator_train_over_real_servers(tmp_path: Path) -> None:
    """With sums under masks; without them the same workers and messages are tested in `running/test_star.py`."""
    finished = run_hospitals(tmp_path / "demo", secure=True)
    assert finished.same_as_twin
    assert finished.audit == dict.fromkeys(("registry", *HOSPITALS), "ok")
    written = json.loads((tmp_path / "demo" / "result.json").read_text())
    assert written["same_bits_as_one_process"] is True
    assert all(isinstance(written["released"][name]["accuracy"], float) for name in HOSPITALS)
    assert written["accuracy"]["FedBSS, three hospitals"]["all"] > 0.9
    assert (tmp_path / "demo" / "report.html").read_text().count("<svg") == 3
    kinds = {str(line["kind"]) for line in finished.traffic["registry"] if line["messages"]}
    assert kinds == {"Broadcast", "Ready", "MaskStep", "GroupKeys", "Masked", "Revealed"}
    assert "drift" not in str(finished.reports["registry"])
    twin = finished.twin.accuracy["FedBSS, three hospitals"]["north"]
    assert written["scored"] == {"hospital": "north", "rows": 55, "accuracy": twin}
    assert not list((tmp_path / "demo").glob(".temporary-*"))
