"""The command `describe` with a real supervisor and a real worker, on a real block; only syft is played."""

import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from parties.blocks.store import Store
from parties.control.asking import ask
from parties.home.state import open_state
from protocols.audit import AuditEvent, AuditLog
from tests.parties.commands.town import REAL, Town, good, running_town, words_of
from tests.waiting import until


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with running_town(tmp_path_factory.mktemp("town"), REAL) as made:
        yield made


def approve_next(town: Town, known: set[str]) -> None:
    """The bank's owner approves the first request that isn't known yet."""
    new = until(lambda: _digests(town) - known, bool)
    good("review", "approve", new.pop(), "--reason", "fine", "-s", town.bank)


def _digests(town: Town) -> set[str]:
    rows = ask(town.bank, "requests")["requests"]
    assert isinstance(rows, list)
    return {str(row["digest"]) for row in rows}


def described(town: Town, *more: str) -> dict[str, object]:
    """What the bank releases; its owner approves meanwhile."""
    owner = threading.Timer(0.5, approve_next, (town, _digests(town)))
    owner.start()
    words = ("describe", "bank/customers", "--wait", "1", "--json", "-s", town.ana, *more)
    document = good(*words).document
    owner.join()
    results = document["results"]
    assert isinstance(results, dict)
    (result,) = results.values()
    return dict(result["report"])


def test_a_dry_run_is_of_one_party_and_of_mock_people(town: Town) -> None:
    said = good("describe", "bank/customers", "--dry-run", "-s", town.ana).out
    assert "MOCK" in said
    assert "holder" in said
    assert "0 messages" in said


def test_numbers_come_from_one_party_and_a_rerun_without_one_person_is_suppressed(town: Town) -> None:
    first = described(town, "--columns", "income,job")
    income = first["column income"]
    assert isinstance(income, dict)
    assert (first["people"], income["people"]) == (60, 60)
    assert income["mean"] == 1210.0  # 1000 + 7 * 29.5 = 1206.5
    job = first["column job"]
    assert "sentinel" not in str(job)
    assert set(income["quantiles"]) == {"25%", "50%", "75%"}
    again = described(town, "--columns", "income,job")
    assert again == first, "the same people are no difference"
    _erase_one(town)
    after = described(town, "--columns", "income,job")
    mark = {
        "suppressed": "difference",
        "reason": "may differ from an earlier release by fewer than 10 people",
    }
    assert after == {
        "people": mark,
        "column income": {
            "people": mark,
            "mean": mark,
            "quantiles": dict.fromkeys(income["quantiles"], mark),
        },
        "column job": {"people": mark, "classes": mark},
    }
    text = good("review", "list", "-s", town.bank).out
    assert len(re.findall(r"used 1 of 1", text)) == 3
    shown = words_of(good("review", "show", _newest(town), "-s", town.bank).out)
    assert shown.count("by ana for feasibility check") == 2, "the two runs before it"
    assert "exact numbers held back" not in shown, "that was this request itself"
    bank = open_state(town.bank, test_mode=True)
    released = [
        e for e in AuditLog(bank.audit_path, "bank").entries() if e.event is AuditEvent.RESULT_RELEASED
    ]
    assert len(released) == 3
    held_back = [
        dict(e.detail)
        for e in AuditLog(bank.audit_path, "bank").entries()
        if e.event is AuditEvent.RESULT_SUPPRESSED
    ]
    reason = "for: may differ from an earlier release by fewer than 10 people"
    assert [each.get(reason, 0) for each in held_back] == [0, 0, 8]
    assert held_back[2] == {"run": 1, "places": 8, reason: 8}
    assert not any(b"PERSON" in path.read_bytes() for path in (town.bank / "released").rglob("*.*"))


def _newest(town: Town) -> str:
    rows = ask(town.bank, "requests")["requests"]
    assert isinstance(rows, list)
    return str(rows[-1]["digest"])


def _erase_one(town: Town) -> None:
    """The file without one person becomes the block's next version, and the analyst sees it."""
    file = Path(town.folder / "bank.csv")
    lines = file.read_text().splitlines()
    file.write_text("\n".join(lines[:-1]) + "\n")
    add = ("block", "add", file, "--name", "customers", "--label", "churned", "--key", "person")
    good(*add, "--split", "split", "--replace", "-s", town.bank)
    assert Store(town.bank / "blocks").describe("customers").version == 2
    until(lambda: [each.schema.version for each in town.sites["bank"].datasets()], lambda found: 2 in found)
