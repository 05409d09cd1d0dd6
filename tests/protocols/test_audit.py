import errno
import fcntl
import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols import audit_file, keys
from protocols.audit import (
    GENESIS,
    AuditEvent,
    AuditLog,
    Entry,
    Head,
    Result,
    parse_head,
    read,
    sign_head,
    to_text,
    verify,
    verify_head,
)
from protocols.audit_entry import link
from protocols.errors import AuditError
from protocols.records import Scalar, encode_record
from tests.waiting import PATIENCE, until

NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
KEY = keys.generate_key()


def add(log: AuditLog, number: int = 0, **changes: object) -> Entry:
    given_: dict[str, object] = {
        "event": AuditEvent.STARTED,
        "who": "ana",
        "role": "analyst",
        "organisation": "Lab",
        "result": Result.OK,
        "origin": "host-1",
        "object": "request 1234",
        "detail": {"number": number},
        "now": NOW,
    }
    return log.append(**(given_ | changes))  # type: ignore[arg-type]


def filled(folder: Path, entries: int = 5) -> AuditLog:
    log = AuditLog(folder / "audit.jsonl", "bank")
    for number in range(1, entries + 1):
        add(log, number)
    return log


def lines(folder: Path) -> list[bytes]:
    return (folder / "audit.jsonl").read_bytes().splitlines(keepends=True)


def rewrite(folder: Path, new: list[bytes]) -> Path:
    (folder / "audit.jsonl").write_bytes(b"".join(new))
    return folder / "audit.jsonl"


def test_each_entry_continues_the_one_before(tmp_path: Path) -> None:
    log = filled(tmp_path, 3)
    entries = list(log.entries())
    assert [e.index for e in entries] == [1, 2, 3]
    assert [e.previous for e in entries] == [GENESIS, entries[0].hash, entries[1].hash]
    assert entries[1].detail == (("number", 2),)
    assert entries[1].time == "2030-01-01T12:00:00Z"
    assert verify(log_path(tmp_path)) == log.head() == Head(party="bank", index=3, hash=entries[2].hash)


def log_path(folder: Path) -> Path:
    return folder / "audit.jsonl"


def test_P1_a_line_holds_who_what_when_result_origin_and_object(tmp_path: Path) -> None:
    filled(tmp_path, 1)
    plain = json.loads(lines(tmp_path)[0])
    assert set(plain) == {
        "index", "time", "party", "event", "who", "role", "organisation", "result", "origin", "object",
        "detail", "previous", "hash",
    }  # fmt: skip
    assert os.stat(log_path(tmp_path)).st_mode & 0o777 == 0o600


def test_a_time_in_another_zone_is_written_in_utc(tmp_path: Path) -> None:
    log = AuditLog(log_path(tmp_path), "bank")
    entry = add(log, now=datetime(2030, 1, 1, 13, 0, 0, 5, tzinfo=timezone(timedelta(hours=1))))
    assert entry.time == "2030-01-01T12:00:00.000005Z"
    with pytest.raises(ValueError, match="zone"):
        add(log, now=datetime(2030, 1, 1))


def test_an_empty_log_has_a_head_and_no_entries(tmp_path: Path) -> None:
    log = AuditLog(log_path(tmp_path), "bank")
    assert log.head() == Head(party="bank", index=0, hash=GENESIS)
    assert list(log.entries()) == []
    with pytest.raises(AuditError, match="can't be opened"):
        verify(log_path(tmp_path))


@pytest.mark.parametrize("field", ["who", "role", "organisation", "origin", "object"])
@pytest.mark.parametrize("value", ["", " ", "a\nb", "x" * 501, "\ud800", "\u202eabc", None, 3])
def test_P1_an_entry_that_lacks_a_field_is_refused_and_nothing_is_written(
    tmp_path: Path, field: str, value: object
) -> None:
    log = filled(tmp_path, 1)
    before = lines(tmp_path)
    with pytest.raises(AuditError):
        add(log, **{field: value})
    assert lines(tmp_path) == before


@pytest.mark.parametrize(
    "detail",
    [
        {"a": [1, 2]},
        {"a": {"b": 1}},
        {"a": None},
        {"a": b"bytes"},
        {"a": float("nan")},
        {"a": float("inf")},
        {"a": 1 << 63},
        {"a": "x" * 201},
        {"a": "line\nbreak"},
        {"": 1},
        {"a\n": 1},
        {f"n{i}": i for i in range(41)},
    ],
)
def test_a_detail_is_numbers_and_short_texts_only(tmp_path: Path, detail: dict[str, Scalar]) -> None:
    log = filled(tmp_path, 1)
    with pytest.raises(AuditError, match="detail"):
        add(log, detail=detail)
    assert len(lines(tmp_path)) == 1


def test_a_result_or_event_of_another_kind_is_refused(tmp_path: Path) -> None:
    log = filled(tmp_path, 1)
    for changes in ({"result": "fine"}, {"event": "started"}):
        with pytest.raises(AuditError):
            add(log, **changes)


def test_P3_refused_and_failed_attempts_are_entries_like_others(tmp_path: Path) -> None:
    log = filled(tmp_path, 1)
    entry = add(log, event=AuditEvent.START_REFUSED, result=Result.REFUSED, detail={"reason": "used 1 of 1"})
    assert list(log.entries())[-1] == entry


# --- tampering -------------------------------------------------------------------------------------------------


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_P4_any_changed_byte_of_any_entry_is_found_at_that_entry(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("log")
    filled(folder)
    all_lines = lines(folder)
    number = data.draw(st.integers(1, 5))
    line = bytearray(all_lines[number - 1])
    place = data.draw(st.integers(0, len(line) - 2))
    line[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != line[place]))
    all_lines[number - 1] = bytes(line)
    with pytest.raises(AuditError, match=f"^entry {number} "):
        verify(rewrite(folder, all_lines))


def test_every_byte_of_entry_3_of_5_counts(tmp_path: Path) -> None:
    filled(tmp_path)
    good = lines(tmp_path)
    for place in range(len(good[2]) - 1):
        bad = good[2][:place] + bytes([good[2][place] ^ 1]) + good[2][place + 1 :]
        with pytest.raises(AuditError, match=r"^entry 3 "):
            verify(rewrite(tmp_path, [*good[:2], bad, *good[3:]]))
    assert verify(rewrite(tmp_path, good)).index == 5


@pytest.mark.parametrize(
    ("change", "number"),
    [
        (lambda x: [x[0], x[2], x[1], *x[3:]], 2),
        (lambda x: [x[1], x[0], *x[2:]], 1),
        (lambda x: [*x[:3], x[4], x[3]], 4),
        (lambda x: [x[0], *x[2:]], 2),
        (lambda x: x[1:], 1),
        (lambda x: [*x[:3], *x[4:]], 4),
        (lambda x: [*x[:2], x[1], *x[2:]], 3),
        (lambda x: [*x[:2], b"\n", *x[2:]], 3),
        (lambda x: [*x, x[0]], 6),
        (lambda x: [*x, b"{}\n"], 6),
        (lambda x: [*x[:3], b"x" * (1 << 17) + b"\n", *x[3:]], 4),
        (lambda x: [x[0], x[1].replace(b'{"', b'{ "', 1), *x[2:]], 2),
        (lambda x: [x[0], x[1].replace(b"\n", b"\r\n"), *x[2:]], 2),
    ],
)
def test_P4_swapped_dropped_doubled_and_foreign_lines_are_found_there(
    tmp_path: Path, change: Callable[[list[bytes]], list[bytes]], number: int
) -> None:
    filled(tmp_path)
    with pytest.raises(AuditError, match=f"^entry {number} "):
        verify(rewrite(tmp_path, change(lines(tmp_path))))


def test_an_entry_replaced_together_with_its_hash_breaks_the_next(tmp_path: Path) -> None:
    log = filled(tmp_path)
    entries, good = list(log.entries()), lines(tmp_path)
    forged = link(replace(entries[2], who="nobody"), Head(party="bank", index=2, hash=entries[1].hash))
    with pytest.raises(AuditError, match=r"^entry 4 doesn't continue entry 3"):
        verify(rewrite(tmp_path, [*good[:2], encode_record(forged) + b"\n", *good[3:]]))


def test_a_number_left_out_is_found_even_if_the_chain_of_hashes_holds(tmp_path: Path) -> None:
    log = filled(tmp_path, 2)
    last = link(list(log.entries())[1], replace(log.head(), index=5))
    with pytest.raises(AuditError, match=r"^entry 3 is not in its place: entry 6 stands there"):
        verify(rewrite(tmp_path, [*lines(tmp_path), encode_record(last) + b"\n"]))


def test_nothing_is_appended_to_an_altered_end(tmp_path: Path) -> None:
    log = filled(tmp_path)
    good = lines(tmp_path)
    rewrite(tmp_path, [*good[:4], good[4].replace(b"host-1", b"host-2")])
    with pytest.raises(AuditError, match="the last entry was altered"):
        add(log)
    with pytest.raises(AuditError, match="the last entry was altered"):
        log.head()
    assert len(lines(tmp_path)) == 5


def test_a_log_of_another_party_is_refused(tmp_path: Path) -> None:
    filled(tmp_path)
    with pytest.raises(AuditError, match="belongs to bank, not to retailer"):
        add(AuditLog(log_path(tmp_path), "retailer"))


def test_a_link_in_place_of_the_log_is_not_followed(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / "link").symlink_to(log_path(tmp_path))
    with pytest.raises(AuditError, match="can't be opened"):
        add(AuditLog(tmp_path / "link", "bank"))


# --- heads -----------------------------------------------------------------------------------------------------


def test_P4_a_dropped_last_entry_is_noticed_against_a_signed_head_only(tmp_path: Path) -> None:
    log = filled(tmp_path)
    signed = sign_head(log.head(), NOW, KEY)
    assert verify(log_path(tmp_path), heads=[signed]).index == 5
    add(log)
    assert verify(log_path(tmp_path), heads=[signed, sign_head(log.head(), NOW, KEY)]).index == 6
    cut = rewrite(tmp_path, lines(tmp_path)[:4])
    assert verify(cut).index == 4
    with pytest.raises(
        AuditError, match=r"^entry 5 is missing: the log ends at entry 4, .* entry 5 was signed"
    ):
        verify(cut, heads=[signed])
    rewrite(tmp_path, [])
    with pytest.raises(AuditError, match=r"^entry 1 is missing"):
        verify(cut, heads=[signed])


def test_a_log_rewritten_from_some_entry_on_is_noticed_against_an_old_head(tmp_path: Path) -> None:
    log = filled(tmp_path, 3)
    signed = sign_head(log.head(), NOW, KEY)
    log = AuditLog(rewrite(tmp_path, lines(tmp_path)[:2]), "bank")
    for _ in range(4):
        add(log, 99)
    assert verify(log_path(tmp_path)).index == 6
    with pytest.raises(AuditError, match=r"^entry 3 is not the one whose head was signed"):
        verify(log_path(tmp_path), heads=[signed])


def test_a_head_of_the_empty_log_holds_for_every_log(tmp_path: Path) -> None:
    log = AuditLog(log_path(tmp_path), "bank")
    signed = sign_head(log.head(), NOW, KEY)
    filled(tmp_path, 2)
    assert verify(log_path(tmp_path), heads=[signed]).index == 2


def test_a_head_of_another_party_is_no_head_of_this_log(tmp_path: Path) -> None:
    log = filled(tmp_path, 2)
    foreign = sign_head(replace(log.head(), party="retailer"), NOW, KEY)
    with pytest.raises(AuditError, match="a head of retailer"):
        verify(log_path(tmp_path), heads=[foreign])


def test_a_signed_head_travels_as_text_and_is_verified(tmp_path: Path) -> None:
    signed = sign_head(filled(tmp_path, 2).head(), NOW, KEY)
    assert parse_head(to_text(signed), keys.public_hex(KEY)) == signed
    verify_head(signed)
    with pytest.raises(AuditError, match="another key"):
        parse_head(to_text(signed), keys.public_hex(keys.generate_key()))
    for altered in (
        replace(signed, head=replace(signed.head, index=1)),
        replace(signed, head=replace(signed.head, party="retailer")),
        replace(signed, time="2031-01-01T12:00:00Z"),
        replace(signed, key=keys.public_hex(keys.generate_key())),
    ):
        with pytest.raises(AuditError, match="altered"):
            parse_head(to_text(altered))
        with pytest.raises(AuditError, match="altered"):
            verify(log_path(tmp_path), heads=[altered])


# --- writers and crashes ---------------------------------------------------------------------------------------


def write_many(path: Path, name: str, count: int) -> None:
    """Writes when the file "go" is there; says by a file of its own that it is ready."""
    log = AuditLog(path, "bank")
    (path.parent / f"ready-{name}").touch()
    while not (path.parent / "go").exists():
        time.sleep(0.001)
    for number in range(count):
        add(log, number, who=name)


def test_writers_in_several_processes_and_threads_lose_nothing_and_make_no_fork(tmp_path: Path) -> None:
    path, spawn = log_path(tmp_path), multiprocessing.get_context("spawn")
    writers: list[threading.Thread | multiprocessing.process.BaseProcess] = [
        spawn.Process(target=write_many, args=(path, f"process-{i}", 40)) for i in range(2)
    ]
    writers += [threading.Thread(target=write_many, args=(path, f"thread-{i}", 40)) for i in range(2)]
    for writer in writers:
        writer.start()
    until(lambda: len(list(tmp_path.glob("ready-*"))), (4).__eq__)
    (tmp_path / "go").touch()
    for writer in writers:
        writer.join(PATIENCE)
    assert verify(path).index == 160
    for name in ("process-0", "process-1", "thread-0", "thread-1"):
        assert [e.detail for e in read(path) if e.who == name] == [(("number", i),) for i in range(40)]


def test_a_writer_waits_while_another_holds_the_log(tmp_path: Path) -> None:
    log = filled(tmp_path, 1)
    with log_path(tmp_path).open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        writer = threading.Thread(target=add, args=(log,))
        writer.start()
        writer.join(0.1)
        assert writer.is_alive()
        assert len(lines(tmp_path)) == 1
    writer.join(PATIENCE)
    assert log.head().index == 2


@pytest.mark.parametrize("kept", [1, 100, -1])
def test_a_torn_last_line_is_reported_and_set_aside_at_the_next_append(tmp_path: Path, kept: int) -> None:
    filled(tmp_path, 3)
    good = lines(tmp_path)
    torn = good[2][:kept]
    path = rewrite(tmp_path, [*good[:2], torn])
    log = AuditLog(path, "bank")
    for look in (lambda: verify(path), log.head, lambda: list(log.entries())):
        with pytest.raises(AuditError, match=r"^entry 3 is torn"):
            look()
    add(log, 7)
    entries = list(log.entries())
    assert verify(path).index == 4
    assert (entries[2].event, entries[2].organisation) == (AuditEvent.LOG_REPAIRED, "bank")
    assert entries[2].detail == (("bytes", len(torn)), ("moved_to", "audit.jsonl.torn-3-1"))
    assert (tmp_path / "audit.jsonl.torn-3-1").read_bytes() == torn
    assert (entries[3].detail, lines(tmp_path)[:2]) == ((("number", 7),), good[:2])


def other_last(folder: Path) -> bytes:
    """A third entry that is as good as the one in the log, with another number in it."""
    second = list(AuditLog(folder / "audit.jsonl", "bank").entries())[1]
    entry = link(replace(second, detail=(("number", 99),)), Head(party="bank", index=2, hash=second.hash))
    return encode_record(entry) + b"\n"


@pytest.mark.parametrize("left", ["nothing", "the first", "the first two", "another last one"])
def test_a_log_that_lost_what_was_written_here_takes_nothing_more(tmp_path: Path, left: str) -> None:
    """Deleted, cut at an end of a line or rewritten: nothing in the file itself shows that."""
    log = filled(tmp_path, 3)
    good, other = lines(tmp_path), other_last(tmp_path)
    kept = {
        "nothing": [],
        "the first": good[:1],
        "the first two": good[:2],
        "another last one": [*good[:2], other],
    }
    path = rewrite(tmp_path, kept[left])
    if left == "nothing":
        path.unlink()
    with pytest.raises(AuditError, match=r"ends at entry \d, but entry 3 was written before: it was cut off"):
        add(log, 4)
    assert lines(tmp_path) == kept[left]
    rewrite(tmp_path, good)
    add(AuditLog(path, "bank"), 4)  # another process may write on meanwhile
    assert add(log, 5).index == 5


def test_a_torn_first_line_is_set_aside_too(tmp_path: Path) -> None:
    filled(tmp_path, 1)
    log = AuditLog(rewrite(tmp_path, [lines(tmp_path)[0][:20]]), "bank")
    (tmp_path / "audit.jsonl.torn-1-1").write_bytes(b"of an earlier crash")
    add(log)
    assert verify(log_path(tmp_path)).index == 2
    assert (tmp_path / "audit.jsonl.torn-1-1").read_bytes() == b"of an earlier crash"
    assert len((tmp_path / "audit.jsonl.torn-1-2").read_bytes()) == 20


@pytest.mark.parametrize("size", [70_000, 400_000])
def test_an_end_that_no_crash_leaves_is_refused(tmp_path: Path, size: int) -> None:
    log = filled(tmp_path, 2)
    rewrite(tmp_path, [*lines(tmp_path), b"x" * size])
    with pytest.raises(AuditError, match="no crash leaves"):
        add(log)


@pytest.mark.parametrize("written", [0, 1, 50])
@pytest.mark.parametrize("entries", [0, 3])
def test_a_full_disk_leaves_the_chain_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int, entries: int
) -> None:
    log = filled(tmp_path, entries)
    real = os.write

    def full(descriptor: int, data: bytes) -> int:
        if written and len(data) > written and not calls:
            calls.append(1)
            return real(descriptor, data[:written])
        raise OSError(errno.ENOSPC, "No space left on device")

    calls: list[int] = []
    monkeypatch.setattr(audit_file.os, "write", full)
    with pytest.raises(AuditError, match=f"entry {entries + 1} can't be written.*No space left"):
        add(log)
    monkeypatch.undo()
    assert log.head().index == entries
    assert add(log).index == entries + 1
    assert verify(log_path(tmp_path)).index == entries + 1


def test_a_failed_sync_is_no_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled(tmp_path, 2)

    def broken(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(audit_file.os, "fsync", broken)
    with pytest.raises(AuditError, match="Input/output error"):
        add(log)
    monkeypatch.undo()
    assert verify(log_path(tmp_path)).index == 2


def test_a_limited_file_size_is_met_like_a_full_disk(tmp_path: Path) -> None:
    """The same with a real limit of the operating system, in a process of its own."""
    program = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from protocols.errors import AuditError\n"
        "from tests.protocols.test_audit import AuditLog, add, verify\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "log = AuditLog(Path(sys.argv[1]), 'bank')\n"
        "try:\n"
        "    for number in range(9): add(log, number)\n"
        "except AuditError as failure:\n"
        "    print(verify(Path(sys.argv[1])).index, failure)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(log_path(tmp_path))],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("2 entry 3 can't be written")
    assert add(AuditLog(log_path(tmp_path), "bank")).index == 3


def test_an_entry_is_synced_before_append_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, done = filled(tmp_path, 1), []
    real_write, real_sync = os.write, os.fsync

    def write(descriptor: int, data: bytes) -> int:
        done.append("write")
        return real_write(descriptor, data)

    def sync(descriptor: int) -> None:
        done.append("sync")
        real_sync(descriptor)

    monkeypatch.setattr(audit_file.os, "write", write)
    monkeypatch.setattr(audit_file.os, "fsync", sync)
    add(log)
    assert done == ["write", "sync"]


def test_verification_needs_no_more_memory_for_a_longer_log(tmp_path: Path) -> None:
    head, path = Head(party="bank", index=0, hash=GENESIS), log_path(tmp_path)
    sample = add(AuditLog(tmp_path / "other.jsonl", "bank"))
    with path.open("wb") as file:
        for _ in range(2000):
            entry = link(sample, head)
            head = Head(party="bank", index=entry.index, hash=entry.hash)
            file.write(encode_record(entry) + b"\n")
    assert path.stat().st_size > 600_000
    verify(tmp_path / "other.jsonl")
    tracemalloc.start()
    try:
        assert verify(path).index == 2000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 300_000


def test_entries_that_come_while_the_log_is_read_wait_for_the_next_reading(tmp_path: Path) -> None:
    log = filled(tmp_path, 3)
    seen = []
    for entry in log.entries():
        seen.append(entry.index)
        add(log)
    assert seen == [1, 2, 3]
    assert log.head().index == 6
