"""Reading the audit log is itself logged and bound to a role; an export for an authority says how the check ended."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from parties.commands.options import PASSPHRASE_VARIABLE
from parties.home.people import create_person
from parties.home.state import State, init_party
from parties.roles.audit_export import export_log, parse_day
from parties.roles.log_access import read_log
from protocols.audit import AuditEvent, Entry, Result, parse_head, read
from protocols.errors import StateError
from tests.parties.commands.town import bad, good
from tests.parties.roles.samples import add_entry

DAY = datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.fixture
def bank(tmp_path: Path) -> State:
    """A party with an owner, a reviewer and an auditor, and one entry on each of three days."""
    state = init_party(tmp_path / "bank", name="bank", organisation="Example Bank", port=1)
    for name, role in (("rev", "reviewer"), ("aud", "auditor")):
        create_person(state.folder, name=name, role=role, organisation="Example Bank", passphrase=None)
    for number in range(3):
        add_entry(state, AuditEvent.VIEWED, DAY + timedelta(days=number), reason="<b>bold</b>")
    return state


def last(state: State) -> Entry:
    return list(read(state.audit_path))[-1]


WAYS = (
    ("verify",),
    ("show",),
    ("trace", "0000"),
    ("heads", "--out", "heads"),
    ("export", "--from", "2026-01-02", "--to", "2026-01-03", "--out", "out"),
)


@pytest.mark.parametrize("person", ["owner", "rev", "aud"])
@pytest.mark.parametrize("words", WAYS, ids=lambda words: words[0])
def test_P9_reading_the_log_is_logged(
    bank: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], person: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if words[0] == "trace":
        assert "error: no request" in bad("audit", *words, "--as", person, "-s", bank.folder)
        assert last(bank).index == 3  # nothing was found and nothing shown
        return
    good("audit", *words, "--as", person, "-s", bank.folder)
    entry = last(bank)
    event = AuditEvent.LOG_EXPORTED if words[0] == "export" else AuditEvent.LOG_READ
    assert (entry.index, entry.event, entry.result, entry.who) == (4, event, Result.OK, person)
    assert entry.role == {"owner": "owner", "rev": "reviewer", "aud": "auditor"}[person]


@pytest.mark.parametrize("words", WAYS, ids=lambda words: words[0])
def test_P9_a_stranger_reads_nothing_and_the_attempt_is_logged(
    bank: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "for its own people" in bad("audit", *words, "--as", "ana", "-s", bank.folder)
    assert (last(bank).result, last(bank).who) == (Result.REFUSED, "ana")
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "heads").exists()


@pytest.mark.parametrize("words", [*WAYS, ("sent",), ("prune",)], ids=lambda words: words[0])
def test_P9_who_cannot_open_the_persons_key_reads_nothing_and_the_attempt_is_logged(
    bank: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(PASSPHRASE_VARIABLE, raising=False)
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)
    secret, wrong = tmp_path / "secret", tmp_path / "wrong"
    secret.write_text("correct horse")
    wrong.write_text("a guess")
    shut = {"name": "shut", "role": "owner", "organisation": "Example Bank"}
    create_person(bank.folder, **shut, passphrase=b"correct horse")
    for given in ((), ("--passphrase-file", str(wrong))):
        said = bad("audit", *words, "--as", "shut", *given, "-s", bank.folder)
        assert "passphrase" in said
        assert (last(bank).result, last(bank).who, last(bank).role) == (Result.REFUSED, "shut", "unknown")
        assert not (tmp_path / "out").exists()
        assert not (tmp_path / "heads").exists()
    if words[0] not in ("trace", "prune"):  # these find nothing here
        good("audit", *words, "--as", "shut", "--passphrase-file", str(secret), "-s", bank.folder)
        assert (last(bank).result, last(bank).who, last(bank).role) == (Result.OK, "shut", "owner")


def test_P9_a_key_file_of_somebody_else_proves_nobody(bank: State) -> None:
    people = bank.folder / "keys" / "people"
    (people / "rev.pem").write_bytes((people / "aud.pem").read_bytes())
    assert "holds another key than people.json" in bad("audit", "show", "--as", "rev", "-s", bank.folder)
    assert (last(bank).result, last(bank).who) == (Result.REFUSED, "rev")


def test_P9_what_cannot_be_logged_is_not_shown(bank: State, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("protocols.audit_file.os.write", full)
    said = bad("audit", "show", "-s", bank.folder)  # `bad` asserts that nothing is on standard output
    assert "can't be written" in said


def test_P9_an_auditor_reads_and_decides_on_nothing(bank: State) -> None:
    said = bad("review", "approve", "0000", "--as", "aud", "--reason", "x", "-s", bank.folder)
    assert "aud is an auditor, who reads and doesn't decide" in said


def test_P9_the_reader_gets_what_was_read_only_after_its_entry(bank: State) -> None:
    seen: list[int] = []

    def look() -> str:
        seen.append(len(list(read(bank.audit_path))))
        return "all of it"

    assert read_log(bank, "aud", "everything", look, origin="console", now=lambda: DAY) == "all of it"
    assert (seen, last(bank).index, last(bank).origin) == ([3], 4, "console")
    with pytest.raises(StateError):
        read_log(bank, "nobody", "everything", look)
    assert seen == [3]


def test_P10_an_export_is_readable_and_carries_the_verification(bank: State, tmp_path: Path) -> None:
    days = ("--from", "2026-01-03", "--to", "2026-01-04")
    said = good("audit", "export", *days, "--out", tmp_path / "out", "--json", "-s", bank.folder).document
    assert (said["entries"], said["verification"]) == (2, "ok")
    lines = (tmp_path / "out" / "entries.jsonl").read_bytes().splitlines(keepends=True)
    assert lines == bank.audit_path.read_bytes().splitlines(keepends=True)[1:3]
    assert [json.loads(line)["index"] for line in lines] == [2, 3]
    signed = parse_head((tmp_path / "out" / "head.json").read_text().strip(), bank.card().signing_key)
    assert (signed.head.index, signed.head.hash) == (3, json.loads(lines[-1])["hash"])
    page = (tmp_path / "out" / "log.html").read_text()
    for fact in ("Passed:", "ok: 3 entries of bank", signed.signature, "2026-01-03T12:00:00Z", "by owner"):
        assert fact in page
    assert "&lt;b&gt;bold" in page
    assert not re.search(r"<script|<b>|https?://|\bsrc=|\bhref=|@import|url\(", page)


def test_P10_an_export_of_a_damaged_log_says_so_first(bank: State, tmp_path: Path) -> None:
    lines = bank.audit_path.read_bytes().splitlines(keepends=True)
    bank.audit_path.write_bytes(b"".join([lines[0], lines[1].replace(b"owner", b"Owner", 1), lines[2]]))
    days = parse_day("2026-01-01"), parse_day("2026-12-31")
    document, text = export_log(bank, *days, tmp_path / "out", person="aud")
    assert (document["verification"], document["entries"]) == ("failed", 1)
    assert "entry 2 was altered" in text
    page = (tmp_path / "out" / "log.html").read_text()
    assert "FAILED:" in page
    assert "Passed:" not in page
    assert not (tmp_path / "out" / "head.json").exists()


@pytest.mark.parametrize(
    ("since", "until", "words"),
    [("2026-02-30", "2026-03-01", "no day"), ("2026-02-02", "2026-02-01", "would begin on")],
)
def test_P10_days_are_checked(bank: State, tmp_path: Path, since: str, until: str, words: str) -> None:
    days = ("--from", since, "--to", until)
    assert words in bad("audit", "export", *days, "--out", tmp_path / "out", "-s", bank.folder)
    assert not (tmp_path / "out").exists()


def test_P10_nothing_is_overwritten(bank: State, tmp_path: Path) -> None:
    days = ("--from", "2026-01-01", "--to", "2026-12-31")
    assert "exists already" in bad("audit", "export", *days, "--out", tmp_path, "-s", bank.folder)
    assert last(bank).index == 3
