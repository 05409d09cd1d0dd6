"""Entries are kept for the months that the party sets, at least six; what goes later leaves a stub that is checked."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from parties.home.state import State, init_party, open_state
from parties.roles.auditing import newest_heads, verify_log
from parties.roles.pruning import prune_log
from protocols.audit import (
    AuditEvent,
    AuditLog,
    Head,
    Result,
    Stub,
    check,
    head_detail,
    months_before,
    read,
    sign_head,
    to_text,
    verify,
)
from protocols.errors import AuditError, StateError
from protocols.keys import generate_key
from protocols.records import encode_record
from tests.parties.commands.town import bad, good
from tests.parties.roles.samples import add_entry

START = datetime(2025, 1, 31, 12, tzinfo=UTC)
LATER = timedelta(days=31)


@pytest.fixture
def bank(tmp_path: Path) -> State:
    """A party with five entries, 31 days apart; the second is a head of the shop's log."""
    state = init_party(tmp_path / "bank", name="bank", organisation="Bank", port=1)
    key = generate_key()
    for number in range(5):
        now = START + number * LATER
        if number == 1:
            signed = sign_head(Head(party="shop", index=7, hash="a" * 64), now, key)
            add_entry(state, AuditEvent.HEAD_RECEIVED, now, **head_detail(signed, "closing"))
        else:
            add_entry(state, AuditEvent.VIEWED, now, number=number)
    return state


def old(count: int) -> Callable[[], datetime]:
    """A clock at which just the first so many entries are more than twelve months old."""
    return lambda: START + (count - 1) * LATER + timedelta(days=370)


def after(number: int) -> datetime:
    """A moment between this entry and the next."""
    return START + (number - 1) * LATER + timedelta(days=5)


def head_at(state: State, index: int, folder: Path) -> Path:
    entry = list(read(state.audit_path))[index - 1]
    head = Head(party="bank", index=index, hash=entry.hash)
    path = folder / f"head-{index}.json"
    path.write_text(to_text(sign_head(head, START, state.signing_key())))
    return path


@pytest.mark.parametrize(
    ("time", "months", "before"),
    [("2026-08-31", 6, "2026-02-28"), ("2024-08-31", 6, "2024-02-29"), ("2026-01-15", 12, "2025-01-15")],
)
def test_P8_months_are_those_of_the_calendar(time: str, months: int, before: str) -> None:
    moment = datetime.fromisoformat(time).replace(tzinfo=UTC)
    assert months_before(moment, months).date().isoformat() == before


def test_P8_nothing_younger_is_deleted_and_the_attempt_is_logged(bank: State) -> None:
    before = bank.audit_path.read_bytes()
    with pytest.raises(StateError, match="kept for 12 months"):
        prune_log(bank, after(3).date(), "owner", lambda: after(5))
    with pytest.raises(StateError, match="no entry from before"):
        prune_log(bank, None, "owner", old(0))
    assert bank.audit_path.read_bytes().startswith(before)
    entry = list(read(bank.audit_path))[-1]
    assert (entry.index, entry.event, entry.result) == (6, AuditEvent.LOG_PRUNED, Result.REFUSED)


def test_P8_what_is_older_leaves_a_stub_and_the_chain_holds(bank: State, tmp_path: Path) -> None:
    heads = [head_at(bank, index, tmp_path) for index in (1, 3, 4)]
    lines = bank.audit_path.read_bytes().splitlines(keepends=True)
    document, text = prune_log(bank, None, "owner", old(3))
    assert "entries 1 to 3 of bank" in text
    assert (document["last"], document["count"]) == (3, 3)
    assert document["digest"] == hashlib.sha256(b"".join(lines[:3])).hexdigest()
    entries = list(read(bank.audit_path))
    assert [entry.index for entry in entries] == [4, 5, 6, 7]
    assert [entry.event.value for entry in entries[2:]] == ["head_received", "log_pruned"]
    assert (entries[-1].who, dict(entries[-1].detail)["digest"]) == ("owner", document["digest"])
    stub = json.loads(bank.audit_path.read_bytes().splitlines()[0])
    assert (stub["last"], stub["count"], stub["who"]) == (3, 3, "owner")
    assert [signed.head.index for signed in newest_heads(bank)] == [7]  # the shop's head outlives its entry
    found, said = verify_log(bank, tuple(heads))
    assert [h["index"] for h in records(found["heads_compared"])] == [3, 4]
    assert [h["index"] for h in records(found["heads_not_comparable"])] == [1]
    assert "entries 1 to 3 were deleted" in said
    assert "the head at entry 1: pruned, not comparable" in said
    add_entry(bank, AuditEvent.VIEWED, old(3)())
    assert verify(bank.audit_path).index == 8


def records(value: object) -> list[dict[str, object]]:
    assert isinstance(value, list)
    return value


def test_P8_a_second_deletion_covers_the_first(bank: State) -> None:
    prune_log(bank, None, "owner", old(2))
    gone = bank.audit_path.read_bytes().splitlines(keepends=True)[:2]
    document, _ = prune_log(bank, None, "owner", old(3))
    assert (document["last"], document["digest"]) == (3, hashlib.sha256(b"".join(gone)).hexdigest())
    assert verify(bank.audit_path).index == 9
    assert not list(bank.folder.glob(".*"))


def _other_hash(stub: Stub) -> Stub:
    return replace(stub, head="b" * 64)


def _other_digest(stub: Stub) -> Stub:
    return replace(stub, digest="b" * 64)


def _other_time(stub: Stub) -> Stub:
    return replace(stub, newest="2024-01-01T00:00:00Z")


@pytest.mark.parametrize("change", [_other_hash, _other_digest, _other_time])
def test_P8_a_changed_stub_is_found(bank: State, change: Callable[[Stub], Stub]) -> None:
    prune_log(bank, None, "owner", old(3))
    stub = check(bank.audit_path).stub
    assert stub is not None
    _, *rest = bank.audit_path.read_bytes().splitlines(keepends=True)
    bank.audit_path.write_bytes(encode_record(change(stub)) + b"\n" + b"".join(rest))
    with pytest.raises(AuditError, match=r"entry 4 doesn't continue|entries 1 to 3 are missing"):
        verify(bank.audit_path)


def test_P8_a_stub_that_no_entry_tells_of_is_a_cut(bank: State) -> None:
    lines = bank.audit_path.read_bytes().splitlines(keepends=True)
    third = list(read(bank.audit_path))[2]
    stub = Stub(
        party="bank",
        last=3,
        count=3,
        digest="c" * 64,
        head=third.hash,
        newest=third.time,
        time="2026-06-01T00:00:00Z",
        who="owner",
    )
    bank.audit_path.write_bytes(encode_record(stub) + b"\n" + b"".join(lines[3:]))
    with pytest.raises(AuditError, match="entries 1 to 3 are missing"):
        verify(bank.audit_path)


def test_P8_a_deletion_before_six_months_is_found_by_others(bank: State) -> None:
    """By a party whose tools don't refuse: its own log tells on it."""
    log = AuditLog(bank.audit_path, "bank")
    assert log.prune(after(4), who="o", role="owner", organisation="Bank", origin="test", now=after(5))
    with pytest.raises(AuditError, match="deleted before 6 months had passed"):
        verify(bank.audit_path)


def test_P8_nothing_is_deleted_from_an_altered_log(bank: State) -> None:
    lines = bank.audit_path.read_bytes().splitlines(keepends=True)
    altered = b"".join([*lines[:3], lines[3].replace(b"owner", b"Owner", 1), lines[4]])
    bank.audit_path.write_bytes(altered)
    log = AuditLog(bank.audit_path, "bank")
    with pytest.raises(AuditError, match="entry 4 was altered"):
        log.prune(after(3), who="o", role="owner", organisation="Bank", origin="test", now=old(5)())
    assert bank.audit_path.read_bytes() == altered


def test_P8_a_crash_between_the_entry_and_the_deletion_loses_nothing(
    bank: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OSError(28, "No space left on device")

    before = bank.audit_path.read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr("protocols.audit_prune.os.replace", broken)
        with pytest.raises(AuditError, match="shortened audit log can't be written"):
            prune_log(bank, None, "owner", old(3))
    assert bank.audit_path.read_bytes().startswith(before)
    assert [entry.result.value for entry in read(bank.audit_path)][5:] == ["ok", "ok", "failed"]
    assert verify(bank.audit_path).index == 8
    prune_log(bank, None, "owner", old(3))
    assert check(bank.audit_path).head.index == 10
    assert not list(bank.folder.glob(".*"))


def test_P8_writers_lose_nothing_while_entries_are_deleted(bank: State) -> None:
    """A writer that waited for the lock must not write to the file that was replaced meanwhile."""
    stop = threading.Event()
    written: list[int] = []

    def write() -> None:
        while not stop.is_set():
            written.append(1)
            add_entry(bank, AuditEvent.VIEWED, old(5)())

    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for count in (1, 2, 3, 4):
            prune_log(bank, None, "owner", old(count))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    checked = check(bank.audit_path)
    assert checked.stub is not None
    assert checked.stub.last == 4
    assert checked.head.index == 5 + len(written) + 4 * 2


def test_P8_the_months_are_set_in_party_toml(bank: State) -> None:
    path = bank.folder / "party.toml"
    assert "keep_months = 12" in path.read_text()
    for wrong in ("5", '"12"', "true", "0"):
        path.write_text(path.read_text().replace("keep_months = 12", f"keep_months = {wrong}"))
        with pytest.raises(StateError, match="keep_months must be a whole number from 6"):
            open_state(bank.folder, test_mode=True)
        path.write_text(path.read_text().replace(f"keep_months = {wrong}", "keep_months = 12"))
    path.write_text(path.read_text().replace("keep_months = 12", "keep_months = 6"))
    assert open_state(bank.folder, test_mode=True).keep_months == 6
    path.write_text(path.read_text().partition("\n[audit]")[0])
    assert open_state(bank.folder, test_mode=True).keep_months == 12


def test_P8_by_command(bank: State) -> None:
    assert "kept for 12 months" in bad("audit", "prune", "--before", "2999-01-01", "-s", bank.folder)
    assert "for its own people" in bad("audit", "prune", "--as", "nobody", "-s", bank.folder)
    assert "entries 1 to " in good("audit", "prune", "-s", bank.folder).out


def test_AC18_a_full_disk_stops_the_act_and_leaves_the_log_as_it_was(bank: State) -> None:
    """The kernel's own limit of a file's size, met by a process that would register a person."""
    size = bank.audit_path.stat().st_size
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size + 100}, {size + 100}));"
        "from parties.cli import main;"
        f"sys.argv = ['fedaccord', 'person', 'add', 'rev', '-s', {str(bank.folder)!r}]; main()"
    )
    before = bank.audit_path.read_bytes()
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=False
    )
    assert ended.returncode == 1, ended
    assert "can't be written to the audit log" in ended.stderr
    assert bank.audit_path.read_bytes() == before
    assert not (bank.folder / "keys" / "people" / "rev.pem").exists()
    assert "rev" not in (bank.folder / "people.json").read_text()
