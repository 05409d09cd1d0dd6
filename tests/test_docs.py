"""docs/example-run.md tells what the code of today does, and nothing of the machine that made it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.example_run.after import TOLD
from docs.example_run.before import HEAD_ROWS
from docs.example_run.markdown import fill, short_times, short_values
from docs.example_run.page import TEMPLATE
from docs.example_run.people import ALIGNED, TEST, write_files
from docs.example_run.structure import differences, structure
from docs.example_run.words import EVENTS, MESSAGES

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "example-run.md"
LOGS = ("The bank's log", "The retailer's log")


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_the_page_shows_the_files_that_the_script_writes(page: str, tmp_path: Path) -> None:
    for path in write_files(tmp_path).values():
        head = "\n".join(path.read_text(encoding="utf-8").splitlines()[: HEAD_ROWS + 1])
        assert f"{path.name}\n{head}\n" in page


def test_the_files_share_the_people_that_the_page_says(tmp_path: Path) -> None:
    keys = [
        {line.split(",")[0] for line in path.read_text(encoding="utf-8").splitlines()[1:]}
        for path in write_files(tmp_path).values()
    ]
    assert len(keys[0] & keys[1]) == ALIGNED + TEST
    assert [len(one) for one in keys] == [157, 173]


def test_every_line_of_the_page_is_explained(page: str) -> None:
    found = structure(page)
    assert set(found.entries) == set(LOGS)
    for kind in {kind for kinds in found.entries.values() for kind in kinds}:
        assert f"| `{kind}` | {EVENTS[kind]} |" in page
    for kind in {line.split()[4] for line in found.messages}:
        assert f"| `{kind}` | {MESSAGES[kind]} |" in page
    assert len(found.messages) == 32


def test_the_page_has_the_prose_of_the_template(page: str) -> None:
    lines = set(page.splitlines())
    prose = [line for line in TEMPLATE.read_text(encoding="utf-8").splitlines() if "{{" not in line]
    assert [line for line in prose if line not in lines] == []


def test_ten_steps_are_ten_round_trips(page: str) -> None:
    kinds = [line.split()[4] for line in structure(page).messages]
    assert kinds.count("PassiveViews") == kinds.count("ViewGradients") == 10


def test_the_table_of_results_shows_a_suppressed_number(page: str) -> None:
    rows = [line for line in page.splitlines() if any(f"| `{field}` |" in line for field in TOLD)]
    assert any("<10 (fewer than 10 people)" in row for row in rows)
    assert any("| `methods.fedcvt.both.auc` |" in row for row in rows)


def test_the_page_holds_nothing_of_a_machine(page: str) -> None:
    assert not re.search(r"(?<![\w.])/(?:tmp|home|work|root|var|Users)\b", page)
    assert not re.search(r"127\.0\.0\.1:\d", page)
    assert "FOLDER" not in page  # no place that would need one
    assert len(re.findall(r"\b[0-9a-f]{64,}\b", page)) == 1  # the digest


def test_the_links_of_the_page_lead_to_files(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)", page)
    assert links
    for link in links:
        assert (PAGE.parent / link).exists(), link


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("## 7. The run", "## 7. A run", "title"),
        (" approved  ", " denied  ", "The bank's log: entry"),
        ("aligned 60 x 8, alone", "aligned 61 x 8, alone", "message 9"),
    ],
)
def test_a_changed_structure_is_told(page: str, old: str, new: str, said: str) -> None:
    assert differences(page, page) == ()
    (found,) = differences(page, page.replace(old, new, 1))
    assert found.startswith(said)


def test_a_missing_entry_is_told(page: str) -> None:
    without = "\n".join(line for line in page.splitlines() if " countersigned  " not in line)
    assert [text.split(":")[0] for text in differences(page, without)] == list(LOGS)


def test_times_values_and_prose_that_differ_are_no_difference(page: str) -> None:
    other = re.sub(r"\d\d:\d\d:\d\d", "00:00:00", re.sub(r"[0-9a-f]{12}…", "000000000000…", page))
    assert other != page
    assert differences(page, other) == ()


def test_a_template_and_its_parts_must_fit() -> None:
    assert fill("a {{b}}", {"b": "{{c}}"}) == "a {{c}}"
    for parts in ({}, {"b": "", "c": ""}):
        with pytest.raises(ValueError, match="differ"):
            fill("a {{b}}", parts)


def test_long_values_and_times_are_shortened() -> None:
    assert short_values(f"x {'ab' * 32} {'cd' * 31}") == f"x {'ab' * 6}… {'cd' * 31}"
    assert short_times("at 2026-01-02T03:04:05.678901Z.") == "at 03:04:05."


@pytest.mark.slow
@pytest.mark.syft
def test_a_new_run_gives_a_page_of_the_same_structure() -> None:
    done = subprocess.run(
        [sys.executable, "docs/make_example_run.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
