"""What a program prints, warns of or raises inside a run stays in its party's own worker log."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from parties.control.workers import LOG_FILE
from protocols.request import digest
from tests.parties.control.offices import Offices, make_offices
from tests.parties.running import toy
from tests.parties.running.test_two_parties import approve_and_start, ask, ended, running, shim, toy_request


def holding(folder: Path) -> set[str]:
    """Names of the files below the folder that hold the cell."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.name for path in files if toy.CELL.encode() in path.read_bytes()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "code", "kept"),
    [
        ("loud", "internal", {LOG_FILE}),
        ("made up", "protocol", set()),  # an error of a link, which the analyst would be told in words
        ("made up stop", "protocol", set()),
    ],
)
def test_nothing_printed_or_raised_in_a_run_reaches_analyst_peer_or_log(
    how: str, code: str, kept: set[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    offices: Offices = make_offices(tmp_path)
    request = toy_request(offices, steps=12, pause=0.0)
    with ExitStack() as stack:
        stack.enter_context(running(offices.bank, ""))
        stack.enter_context(running(offices.shop, how))
        approve_and_start(offices, request)
        views = [ended(state, request, "FAILED") for state in (offices.bank, offices.shop)]
        told = [shim(state, request, "status", "-1") for state in (offices.bank, offices.shop)]
        told += [ask(state, "request", digest=digest(request)) for state in (offices.bank, offices.shop)]
    assert [view["reason"] for view in views] == [f"peer_stopped:{code}", code]
    assert toy.CELL not in f"{views} {told} {capfd.readouterr()}"
    assert holding(offices.bank.folder) == set()
    assert holding(offices.shop.folder) == kept
