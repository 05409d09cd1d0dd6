"""A reviewer in a real, headless Chromium against `fedaccord console` as a process: log in, read, approve, print.

With FEDACCORD_BROWSER_REQUIRED set (as in CI) a machine without a browser fails this test instead of skipping it.
"""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from protocols.audit import AuditEvent
from protocols.request import digest
from tests.parties.console.browsing import House, add_block, house
from tests.parties.console.driver import ENTER, TAB, Browser, browser
from tests.parties.console.test_console import HOSTILE
from tests.parties.control.offices import PASSPHRASE, make_offices
from tests.parties.roles.samples import VIEWS
from tests.waiting import PATIENCE

FOUND = shutil.which("chromedriver") and shutil.which("chromium")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not FOUND and not os.environ.get("FEDACCORD_BROWSER_REQUIRED"),
        reason="no chromium and chromedriver here (Debian: apt-get install chromium chromium-driver)",
    ),
]
PICTURES = os.environ.get("FEDACCORD_PICTURES", "")
"""A folder for pictures of every page at both widths, to be looked at."""


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("offices")
    offices = make_offices(folder)
    add_block(offices, folder)
    with house(offices) as found:
        yield found


@pytest.fixture(scope="module")
def page() -> Iterator[Browser]:
    with browser() as found:
        yield found


@contextmanager
def served(bank: House, tmp_path: Path) -> Iterator[str]:
    """The command as a process; the link that logs the owner in."""
    secret = tmp_path / "passphrase"
    secret.write_bytes(PASSPHRASE)
    words = ["console", "--state", str(bank.offices.bank.folder), "--as", "owner"]
    process = subprocess.Popen(
        [sys.executable, "-m", "parties", *words, "--passphrase-file", str(secret)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        told = process.stdout.readline() + process.stdout.readline()
        yield re.findall(r"http://127\.0\.0\.1:\d+/enter/\S+", told)[0]
    finally:
        process.terminate()
        process.wait(PATIENCE)


def test_a_reviewer_logs_in_reads_approves_and_prints(bank: House, page: Browser, tmp_path: Path) -> None:
    request = bank.offices.submitted(
        manifest=(VIEWS,),
        purpose_text=HOSTILE,
        parameters=tuple((f"setting_{n:02d}", n) for n in range(30)),
        analyst_receives=("scores of the model on test people, rounded",),
    )
    bank.offices.ask(
        "ingest_foreign",
        name="steal",
        caller="e" * 64,
        email="ana@lab.example.org",
        reasons=["text differs from the shim's"],
        warnings=["line 2: rows: to_dict (hands out single rows, not a number about many)"],
        code="def steal(x):\n    return x.to_dict()",
    )
    with served(bank, tmp_path) as link:
        page.open(link)
        page.click("main button")
        page.wait_for("h1", "Requests")
        site = link.partition("/enter")[0]
        page.open(link)
        page.click("main button")
        page.wait_for("[role=alert]", "used already")

        page.log_in(site, "owner", PASSPHRASE.decode())
        page.wait_for("h1", "Requests")
        page.press(TAB)
        page.wait_for_focus("Skip to content")  # the first stop of the keyboard

        page.open(f"{site}/requests/{digest(request)}")
        for part in (HOSTILE, "representations of aligned people", "Views", "scores of the model"):
            assert part in page.text()
        assert page.dialog() is None, "the hostile text ran"
        _look_at(page, site, digest(request))

        printed = base64.b64decode(page.printed())
        assert printed.startswith(b"%PDF-")
        (tmp_path / "request.pdf").write_bytes(printed)
        assert len(printed) > 10_000

        page.write("#reason-approve", "read in full")
        page.press(TAB)
        page.wait_for_focus("Approve this request")
        page.press(ENTER)
        page.wait_for("[role=status]", "approve by owner")
    assert bank.offices.view(request)["state"] == "APPROVED"
    (entry,) = [e for e in bank.log(AuditEvent.APPROVED) if e.object.endswith(digest(request))]
    assert dict(entry.detail)["reason"] == "read in full"


def _look_at(page: Browser, site: str, request: str) -> None:
    """No page is wider than a telephone or a desk, and the style sheet is applied under the policy."""
    paths = ("/requests", f"/requests/{request}", "/foreign/1", "/runs", "/blocks", "/blocks/customers")
    for width in (400, 1400):
        page.width(width)
        for path in (
            *paths,
            "/models",
            "/log",
            "/log/heads",
            "/log/export",
            "/trace?what=customers",
            "/policy",
            "/nothing",
        ):
            page.open(site + path)
            wide = page.value("return document.documentElement.scrollWidth")
            assert wide <= width, f"{path} is {wide} wide on a screen of {width}"
            assert page.value("return getComputedStyle(document.body).marginTop") == "0px"
            if PICTURES:
                name = re.sub(r"\W+", "-", path.replace(request, "one")).strip("-")
                page.picture(Path(PICTURES) / f"{width}-{name}.png")
    page.width(1400)
    page.open(f"{site}/requests/{request}")
    assert (
        json.loads(page.value("return JSON.stringify(performance.getEntriesByType('resource').length)")) <= 2
    )
