"""Damaged or changed files of a party, and numbers that are too long: refused with a typed error."""

import json
import sqlite3
import threading
from pathlib import Path

import pytest

from parties.control import fields
from parties.control.database import transaction
from parties.control.runs import Ledger, RunState
from parties.control.watch import Watch
from parties.control.workers import run_folder
from parties.home.journal import Actor, Journal
from parties.home.private_files import make_private_folder, write_private
from parties.home.state import State, init_party
from parties.running.runspec import RESULT_DETAIL, RESULT_FILE
from protocols.audit import AuditEvent
from protocols.errors import RequestError, StateError
from tests.parties.control.offices import CALLER, PASSPHRASE, Clock

DIGEST = "a" * 64
ANA = Actor(who="ana", role="analyst", organisation="Example Lab", origin="syft")


@pytest.fixture
def bank(tmp_path: Path) -> State:
    return init_party(
        tmp_path / "bank",
        name="bank",
        organisation="Example Bank",
        address="127.0.0.1:7000-7003",
        passphrase=PASSPHRASE,
    )


class Finished:
    """A bank with one request that is DONE, and its result."""

    def __init__(self, bank: State) -> None:
        clock = Clock()
        self.journal, ledger = Journal(bank, clock), Ledger(bank.ledger_path)
        ledger.bind(DIGEST, caller=CALLER, analyst="ana", allowed=1, now=clock())
        ledger.approve(DIGEST, clock())
        ledger.reserve(DIGEST, clock())
        ledger.finish(DIGEST, 1, RunState.DONE, "", clock(), committed=True)
        self.path = make_private_folder(run_folder(bank.runs, DIGEST, 1)) / RESULT_FILE
        write_private(self.path, json.dumps({"auc": 0.75}))
        stopping = threading.Event()
        self.watch = Watch(
            bank,
            ledger=ledger,
            journal=self.journal,
            settle=lambda digest, run: None,
            stopping=stopping,
        )

    def releases(self) -> list[str]:
        return [e.result.value for e in self.journal.log.entries() if e.event is AuditEvent.RESULT_RELEASED]


@pytest.mark.parametrize("content", ['{"auc": 0.99}', '{"auc": 0.75} ', "", "{", "[]"])
def test_a_result_that_changed_after_its_release_is_withheld(bank: State, content: str) -> None:
    finished = Finished(bank)
    for _ in range(2):
        assert finished.watch.result(DIGEST, ANA)["result"] == {"auc": 0.75}
    write_private(finished.path, content)
    with pytest.raises(StateError, match=r"changed since the run ended|JSON"):
        finished.watch.result(DIGEST, ANA)
    assert finished.releases() == ["ok", "ok", "refused"]


def test_a_result_that_changed_before_its_first_release_is_withheld(bank: State) -> None:
    finished = Finished(bank)
    worker = Actor(who="worker", role="active", organisation="Example Bank", origin="run 1")
    finished.journal.ok(
        AuditEvent.RUN_FINISHED, worker, f"request {DIGEST}", run=1, **{RESULT_DETAIL: "0" * 64}
    )
    with pytest.raises(StateError, match="changed since the run ended"):
        finished.watch.result(DIGEST, ANA)
    assert finished.releases() == ["refused"]


@pytest.mark.parametrize(
    "content", [b"not a database, not at all" * 100, b"SQLite format 3\0" + b"\xff" * 5000]
)
def test_a_damaged_ledger_is_named(bank: State, content: bytes) -> None:
    ledger = Ledger(bank.ledger_path)
    bank.ledger_path.write_bytes(content)
    with pytest.raises(StateError, match=r"ledger\.db can't be used") as caught:
        ledger.all()
    assert "ledger.db" in caught.value.remedy


def test_a_ledger_that_can_not_be_opened_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(StateError, match=r"ledger\.db can't be used") as caught,
        transaction(tmp_path / "none" / "ledger.db"),
    ):
        pytest.fail("opened")
    assert "disk" in caught.value.remedy


def test_an_error_of_sqlite_in_the_block_undoes_it(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with transaction(path) as database:
        database.execute("CREATE TABLE t (x INTEGER) STRICT")

    def fill() -> None:
        with transaction(path) as database:
            database.execute("INSERT INTO t VALUES (1)")
            raise sqlite3.OperationalError("database or disk is full")

    with pytest.raises(StateError, match="disk is full"):
        fill()
    with transaction(path) as database:
        assert database.execute("SELECT count(*) FROM t").fetchone()[0] == 0


@pytest.mark.parametrize("value", [10**15, -(10**15), 10**400, True, 1.0, "1", None])
def test_a_whole_number_has_at_most_15_digits(value: object) -> None:
    assert fields.whole({"n": 10**15 - 1}, "n") == 10**15 - 1
    with pytest.raises(RequestError, match="field n must be a whole number"):
        fields.whole({"n": value}, "n")


def test_a_waiting_time_is_cut_however_long() -> None:
    assert fields.seconds({"s": 10**400}, "s", 5.0) == 5.0
    assert fields.seconds({"s": -(10**400)}, "s", 5.0) == 0.0
