"""Row R23 of the review list: a rehearsal gives the report of a run, and whatever is made of it says MOCK."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parties.roles.plan import build_request
from parties.roles.rehearse import Rehearsal, rehearse
from parties.roles.reports import check_files, report_lines, report_of, write_files
from parties.roles.requesting import rehearsal_text
from protocols.errors import ConfigError
from protocols.request import AnalystEntry, ComputationRequest
from tests.parties.roles.published import offers, plan

OFFERS = offers()
SCORES = {"auc": 0.75, "accuracy": None, "people": 40}
RELEASED = {"methods": {"fedcvt": {"both": SCORES}}}


@pytest.fixture(scope="module")
def request_() -> ComputationRequest:
    ana = AnalystEntry(name="ana", organisation="Lab", key="a" * 64)
    return build_request(plan(), OFFERS, ana, now=datetime(2026, 1, 2, tzinfo=UTC), nonce="1" * 32)


@pytest.fixture(scope="module")
def rehearsed(request_: ComputationRequest) -> Rehearsal:
    return rehearse(request_, OFFERS, lambda progress: None)


@pytest.fixture
def document(request_: ComputationRequest, rehearsed: Rehearsal) -> dict[str, object]:
    return rehearsal_text(request_, rehearsed)[0]


def _real(request: ComputationRequest) -> dict[str, object]:
    """What `fedaccord request result` reads of a finished run."""
    results = {"bank": {"report": RELEASED, "run": 1}, "shop": {"report": {"shown": 4}, "run": 1}}
    return {"digest": "d" * 64, "computation": request.computation, "results": results}


def test_R23_a_rehearsal_says_MOCK_wherever_it_is_shown(rehearsed: Rehearsal) -> None:
    for shown in (repr(rehearsed), str(rehearsed), f"{rehearsed}", f"{rehearsed!s}"):
        assert shown.startswith("MOCK rehearsal, about nobody"), shown


def test_R23_every_line_of_a_rehearsed_report_says_MOCK(
    request_: ComputationRequest, rehearsed: Rehearsal
) -> None:
    text = rehearsal_text(request_, rehearsed)[1]
    assert text.startswith("MOCK")
    lines = text.splitlines()
    told = lines[lines.index("MOCK  bank:") : lines.index("MOCK  shop:")]
    assert any(re.match(r"MOCK  fedcvt +both +\S+ +\S+ +10$", line) for line in told), told
    assert all(line.startswith("MOCK") for line in told if line)


def test_R23_each_report_says_so_itself_also_when_it_is_taken_out_of_its_document(
    document: dict[str, object], rehearsed: Rehearsal
) -> None:
    copy = json.loads(json.dumps(document))
    assert copy["mock"] is True
    assert set(copy["results"]) == {"bank", "shop"}
    for result in copy["results"].values():
        assert (result["mock"], result["report"]["mock"]) == (True, True)
    assert all(report["mock"] is True for report in rehearsed.reports.values())


def test_R23_it_is_the_report_of_a_run_under_the_same_rules(
    request_: ComputationRequest, document: dict[str, object]
) -> None:
    """Ten test people: their number may be told, that of either class may not."""
    real, mock = _real(request_), document
    assert set(real) - {"digest"} <= set(mock)
    results = mock["results"]
    assert isinstance(results, dict)
    report = report_of(results["bank"])
    assert report is not None
    assert set(report) > {"mock", "methods", "groups", "loss"}
    hidden = report["methods"]["fedcvt"]["both"]["auc"]  # type: ignore[index]
    assert "suppressed" in hidden


def test_R23_files_and_plots_of_a_rehearsal_say_MOCK(document: dict[str, object], tmp_path: Path) -> None:
    for ending in (".svg", ".png", ".pdf"):
        out, plot = tmp_path / "result.json", tmp_path / f"scores{ending}"
        written = write_files(document, out, plot)
        assert [path.name for path in written] == ["MOCK-result.json", f"MOCK-scores{ending}"]
        assert not out.exists()
        assert not plot.exists()
        assert b"MOCK" in written[1].read_bytes(), "the picture itself is marked"
    assert json.loads(written[0].read_text())["mock"] is True
    drawn = (tmp_path / "MOCK-scores.svg").read_text()
    assert drawn.count("<!-- MOCK -->") == 1, "across the plot"
    assert "<!-- MOCK: about nobody -->" in drawn, "above it"
    assert [path.name for path in write_files(document, tmp_path / "MOCK-a.json", None)] == ["MOCK-a.json"]


def test_R23_nothing_of_a_released_report_says_MOCK(request_: ComputationRequest, tmp_path: Path) -> None:
    real = _real(request_)
    results = real["results"]
    assert isinstance(results, dict)
    lines = report_lines(request_, results)
    assert lines[1] == "bank:"
    written = write_files(real, tmp_path / "result.json", tmp_path / "scores.svg")
    assert [path.name for path in written] == ["result.json", "scores.svg"]
    for text in ("\n".join(lines), *(path.read_text() for path in written)):
        assert "mock" not in text.lower()


def test_a_file_that_cannot_be_written_as_named_is_refused_before_anything_runs(tmp_path: Path) -> None:
    check_files(tmp_path / "a.json", tmp_path / "a.svg")
    with pytest.raises(ConfigError, match="does not exist"):
        check_files(tmp_path / "missing" / "a.json", None)
    with pytest.raises(ConfigError, match="must end in"):
        check_files(None, tmp_path / "a.txt")


def test_reports_without_scores_have_no_plot(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no scores"):
        write_files({"results": {"bank": {"report": {"common": 3}}}}, None, tmp_path / "a.svg")
    assert not list(tmp_path.iterdir())
