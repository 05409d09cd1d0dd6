"""What left a party: sums from its log, kinds from the gate's count in the run's folder; a gap between them is told."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parties.commands.options import PASSPHRASE_VARIABLE
from parties.control.workers import run_folder
from parties.home.documents import Documents
from parties.home.state import State
from parties.roles.what_left import NOTHING, what_left
from parties.running.runspec import RESULT_FILE, TRAFFIC_FILE
from protocols.audit import AuditEvent, AuditLog, Result
from protocols.request import parse_signed
from tests.parties.commands.town import good
from tests.parties.control.offices import PASSPHRASE, Offices

NOW = datetime(2026, 1, 2, tzinfo=UTC)
USES = (
    ("Ask", "active", "passive", 1, 100),
    ("Views", "active", "passive", 3, 900),
    ("Got", "passive", "active", 7, 70),
)


def _entry(bank: State, digest: str, event: AuditEvent, who: str = "worker", **detail: str | int) -> None:
    AuditLog(bank.audit_path, bank.name).append(
        event,
        who=who,
        role="active",
        organisation="Example Bank",
        result=Result.OK,
        origin="test",
        object=f"request {digest}",
        detail={"run": 1, **detail},
        now=NOW,
    )


def _ended(offices: Offices, event: AuditEvent, state: str, sent: str) -> tuple[str, Path]:
    """A request with one ended run: its digest and the run's folder, which is still empty."""
    bank = offices.bank
    digest = Documents(bank.folder).save_request(parse_signed(offices.signed(offices.request())))
    _entry(
        bank, digest, event, state=state, **{"sent passive": sent, "received passive": "9 messages, 1 bytes"}
    )
    folder = run_folder(bank.runs, digest, 1)
    folder.mkdir(parents=True, mode=0o700)
    return digest, folder


def _count(folder: Path) -> None:
    names = ("kind", "sender", "receiver", "messages", "bytes")
    releases = [dict(zip(names, use, strict=True)) | {"rows": 0} for use in USES]
    (folder / TRAFFIC_FILE).write_text(json.dumps({"releases": releases}))


def test_nothing_left_before_a_run(offices: Offices) -> None:
    assert what_left(offices.bank) == ({"party": "bank", "runs": []}, NOTHING)


def test_a_finished_run_is_told_by_kind_with_the_logs_sum_and_who_read_the_result(offices: Offices) -> None:
    digest, folder = _ended(offices, AuditEvent.RUN_FINISHED, "DONE", "4 messages, 1000 bytes, sha256 ab")
    _count(folder)
    (folder / RESULT_FILE).write_text("x" * 1500)
    _entry(offices.bank, digest, AuditEvent.RESULT_RELEASED, who="ana")
    _entry(offices.bank, "f" * 64, AuditEvent.RESULT_RELEASED, who="somebody else's request")

    document, text = what_left(offices.bank)

    (run,) = document["runs"]  # type: ignore[misc]
    kinds = [(use["kind"], use["messages"], use["bytes"]) for use in run["to"]["shop"]["kinds"]]
    assert kinds == [("Ask", 1, 100), ("Views", 3, 900)], "what came from the shop is no release of ours"
    assert (run["to"]["shop"]["messages"], run["to"]["shop"]["bytes"]) == (4, 1000)
    assert [(read["who"], read["bytes"]) for read in run["results_read"]] == [("ana", 1500)]
    flat = " ".join(text.split())
    assert f"request {digest[:12]} run 1, vertical.test: DONE" in flat
    assert "to shop Views 3 messages 900 B to shop in all 4 messages 1.0 kB" in flat
    assert "to ana the released result, 1.5 kB, read 2026-01-02" in flat
    assert "WARNING" not in text
    assert "add up" not in text


def test_a_count_that_differs_from_the_log_is_told(offices: Offices) -> None:
    _, folder = _ended(offices, AuditEvent.RUN_FINISHED, "DONE", "5 messages, 1000 bytes, sha256 ab")
    _count(folder)
    assert "the kinds add up to 4 messages, 1000 bytes: " in what_left(offices.bank)[1]


def test_a_revoked_run_has_its_sums_and_says_that_kinds_are_missing(offices: Offices) -> None:
    _ended(offices, AuditEvent.RUN_CANCELLED, "REVOKED", "12 messages, 34567 bytes, sha256 ab")
    text = what_left(offices.bank)[1]
    assert "REVOKED" in text
    assert "12 messages    34.6 kB" in text
    assert "kinds unknown: the run did not finish" in text


def test_the_command_is_itself_an_entry_of_the_log(offices: Offices, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSPHRASE_VARIABLE, PASSPHRASE.decode())
    _ended(offices, AuditEvent.RUN_FINISHED, "DONE", "0 messages, 0 bytes, sha256 ab")
    said = good("audit", "sent", "--json", "-s", offices.bank.folder)
    assert said.document["party"] == "bank"
    last = list(AuditLog(offices.bank.audit_path, "bank").entries())[-1]
    assert (last.event, dict(last.detail)["what"]) == (AuditEvent.LOG_READ, "what left in each run")


def test_a_run_that_was_taken_up_again_is_one_with_the_sum_of_its_workers(offices: Offices) -> None:
    digest, _ = _ended(offices, AuditEvent.RUN_INTERRUPTED, "INTERRUPTED", "5 messages, 500 bytes, sha256 ab")
    _entry(offices.bank, digest, AuditEvent.RUN_CANCELLED, who="ana", phase="asked")
    end = {"sent passive": "2 messages, 70 bytes, sha256 cd"}
    _entry(offices.bank, digest, AuditEvent.RUN_CANCELLED, state="CANCELLED", **end)
    (run,) = what_left(offices.bank)[0]["runs"]  # type: ignore[misc]
    assert (run["end"], run["to"]["shop"]["messages"], run["to"]["shop"]["bytes"]) == ("CANCELLED", 7, 570)
    assert len(run["log_entries"]) == 2


def test_a_worker_that_died_without_a_word_is_told_with_what_may_have_left(offices: Offices) -> None:
    digest = Documents(offices.bank.folder).save_request(parse_signed(offices.signed(offices.request())))
    _entry(offices.bank, digest, AuditEvent.MESSAGES_RESERVED, first=1, last=32)
    _entry(offices.bank, digest, AuditEvent.RUN_INTERRUPTED, state="INTERRUPTED", reason="worker_ended")
    text = what_left(offices.bank)[1]
    assert "a worker died before it logged its sums; of this run at most 32 messages left" in text
