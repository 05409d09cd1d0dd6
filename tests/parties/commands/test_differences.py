"""Run, erase one person, run again: real supervisors and workers over TLS, by commands; only syft is played."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from parties.home.state import open_state
from parties.running.earlier import BLOCK, GROUP, RELEASED
from protocols.audit import AuditEvent, AuditLog
from protocols.held_back import held_number
from tests.parties.commands.town import REAL, Town, good, running_town
from tests.waiting import PATIENCE

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with running_town(tmp_path_factory.mktemp("town"), REAL) as made:
        yield made


def reports(town: Town, digest: str) -> dict[str, dict[str, object]]:
    """What each party releases of the finished run."""
    good("request", "start", digest, "--watch", "-s", town.ana)
    results = good("request", "result", digest, "--json", "-s", town.ana).document["results"]
    assert isinstance(results, dict)
    return {name: result["report"] for name, result in results.items()}


def whole_numbers(value: object) -> list[int]:
    if isinstance(value, dict):
        return [each for name, part in value.items() if name != "settings" for each in whole_numbers(part)]
    return [value] if type(value) is int else []


def test_R9_after_an_erasure_neither_party_tells_an_exact_number_of_a_rerun(
    town: Town, tmp_path: Path
) -> None:
    before = reports(town, town.approved())
    assert {name: bool(whole_numbers(report)) for name, report in before.items()} == {
        "bank": True,
        "shop": True,
    }
    keys = tmp_path / "keys.txt"
    keys.write_text("PERSON-C13\n")
    good("block", "erase", "customers", "--key-file", keys, "-s", town.bank)
    end = time.monotonic() + PATIENCE
    while not any(each.schema.version == 2 for each in town.sites["bank"].datasets()):
        assert time.monotonic() < end, "the new version was never published"
        time.sleep(0.05)
    digest = town.approved()
    after = reports(town, digest)
    assert {name: whole_numbers(report) for name, report in after.items()} == {"bank": [], "shop": []}
    groups = {name: report["groups"] for name, report in after.items()}
    assert groups["shop"] == dict.fromkeys(("aligned_train", "aligned_test", "passive_only"), held_number(10))
    for name, block, why in (("bank", "customers", BLOCK), ("shop", "visitors", GROUP)):
        state = open_state(getattr(town, name), test_mode=True)
        record = json.loads((state.folder / RELEASED / block / f"{digest}-1.json").read_text())
        assert record["held"] == why
        assert f"exact numbers held back: {why}" in _shown_next_to(town, name, digest)
        suppressed = [
            dict(entry.detail)
            for entry in AuditLog(state.audit_path, name).entries()
            if entry.event is AuditEvent.RESULT_SUPPRESSED and entry.object == f"request {digest}"
        ]
        assert any(
            "for: may differ from an earlier release by fewer than 10 people" in each for each in suppressed
        )


def _shown_next_to(town: Town, name: str, digest: str) -> str:
    """What the party's reviewer reads of it on the page of another request."""
    rows = good("review", "list", "--json", "-s", getattr(town, name)).document["requests"]
    assert isinstance(rows, list)
    (other,) = (str(row["digest"]) for row in rows if row["digest"] != digest)
    return " ".join(good("review", "show", other, "-s", getattr(town, name)).out.split())
