"""A party's log verified alone and against heads that others hold, and the heads it holds of others."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parties.home.state import State, init_party
from parties.roles.auditing import entries, verify_log, write_peer_heads
from protocols.audit import AuditEvent, AuditLog, Head, SignedHead, sign_head, to_text
from protocols.errors import AuditError, StateError
from protocols.keys import generate_key
from tests.parties.commands.town import bad, good
from tests.parties.roles.samples import add_entry

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def bank(tmp_path: Path) -> State:
    """A party with three entries in its log."""
    state = init_party(tmp_path / "bank", name="bank", organisation="Bank", port=1)
    for number in range(3):
        add_entry(state, AuditEvent.VIEWED, NOW, number=number)
    return state


def _head(state: State, folder: Path, signed: SignedHead | None = None) -> Path:
    signed = signed or sign_head(AuditLog(state.audit_path, state.name).head(), NOW, state.signing_key())
    (folder / "head.json").write_text(to_text(signed) + "\n")
    return folder / "head.json"


def test_a_good_log_is_verified_alone_and_against_a_head(bank: State, tmp_path: Path) -> None:
    document, text = verify_log(bank, ())
    assert (document["status"], document["entries"]) == ("ok", 3)
    assert text == "ok: 3 entries of bank, chain unbroken"
    head = _head(bank, tmp_path)
    add_entry(bank, AuditEvent.VIEWED, NOW)
    document, text = verify_log(bank, (head,))
    assert document["heads_compared"] == [{"index": 3, "time": "2026-01-02T00:00:00Z"}]
    assert text == "ok: 4 entries of bank, chain unbroken, and 1 signed head that another party holds fits"
    assert json.loads(good("audit", "verify", "--head", head, "--json", "-s", bank.folder).out) == document


def _cut(lines: list[bytes]) -> list[bytes]:
    return lines[:-1]


def _swap(lines: list[bytes]) -> list[bytes]:
    return [lines[1], lines[0], *lines[2:]]


def _edit(lines: list[bytes]) -> list[bytes]:
    return [lines[0], lines[1].replace(b"owner", b"Owner", 1), *lines[2:]]


def _tear(lines: list[bytes]) -> list[bytes]:
    return [*lines[:-1], lines[-1][:-5]]


@pytest.mark.parametrize(("change", "entry"), [(_swap, "1"), (_edit, "2"), (_tear, "3"), (_cut, "3")])
def test_a_changed_log_fails_naming_the_entry(
    bank: State, tmp_path: Path, change: Callable[[list[bytes]], list[bytes]], entry: str
) -> None:
    head = _head(bank, tmp_path)
    lines = bank.audit_path.read_bytes().splitlines(keepends=True)
    bank.audit_path.write_bytes(b"".join(change(lines)))
    assert f"entry {entry}" in bad("audit", "verify", "--head", head, "-s", bank.folder)


def test_a_head_must_be_of_this_log_under_this_partys_key(bank: State, tmp_path: Path) -> None:
    head = AuditLog(bank.audit_path, "bank").head()
    other = sign_head(Head(party="shop", index=3, hash=head.hash), NOW, bank.signing_key())
    for signed in (other, sign_head(head, NOW, generate_key())):
        with pytest.raises(AuditError, match="not of bank's"):
            verify_log(bank, (_head(bank, tmp_path, signed),))


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\xfe", b"[1]", b"not json"])
def test_what_is_no_head_is_refused_naming_the_file(bank: State, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "head.json").write_bytes(content)
    said = bad("audit", "verify", "--head", tmp_path / "head.json", "-s", bank.folder)
    assert "head.json" in said
    assert "fedaccord audit heads" in said
    assert "No such file" in bad("audit", "verify", "--head", tmp_path / "nowhere", "-s", bank.folder)


def test_a_missing_log_is_named(tmp_path: Path) -> None:
    fresh = init_party(tmp_path / "bank", name="bank", organisation="Bank", port=1)
    assert "audit.jsonl" in bad("audit", "verify", "-s", fresh.folder)
    assert "audit.jsonl" in bad("audit", "show", "-s", fresh.folder)


def test_the_newest_entries_are_shown(bank: State) -> None:
    document, text = entries(bank, 2)
    listed = document["entries"]
    assert isinstance(listed, list)
    assert [each["index"] for each in listed] == [2, 3]
    assert listed[-1]["detail"] == {"number": 2}
    assert text.splitlines()[-1] == (
        "   3 2026-01-02T00:00:00Z viewed                ok       owner (owner, test)  request x  number=2"
    )


def _received(state: State, index: int, signed: SignedHead) -> None:
    add_entry(
        state,
        AuditEvent.HEAD_RECEIVED,
        NOW,
        peer=signed.head.party,
        index=index,
        hash=signed.head.hash,
        time=signed.time,
        key=signed.key,
        signature=signed.signature,
    )


def test_the_newest_head_of_each_peer_is_written(bank: State, tmp_path: Path) -> None:
    key = generate_key()
    for index in (4, 9):
        signed = sign_head(Head(party="shop", index=index, hash=f"{index}" * 64), NOW, key)
        _received(bank, index, signed)
    assert write_peer_heads(bank, tmp_path / "new" / "heads") == (
        tmp_path / "new" / "heads" / "shop-head.json",
    )
    written = json.loads((tmp_path / "new" / "heads" / "shop-head.json").read_text())
    assert written["head"]["index"] == 9
    good("audit", "heads", "--out", tmp_path, "-s", bank.folder)  # a folder that is there, open to others


def test_a_head_in_the_log_that_its_party_did_not_sign_is_refused(bank: State, tmp_path: Path) -> None:
    signed = sign_head(Head(party="shop", index=4, hash="4" * 64), NOW, generate_key())
    _received(bank, 5, signed)
    with pytest.raises(AuditError, match="shop"):
        write_peer_heads(bank, tmp_path / "heads")


def test_no_heads_yet_is_said(bank: State, tmp_path: Path) -> None:
    assert (
        "no heads of other parties yet"
        in good("audit", "heads", "--out", tmp_path / "heads", "-s", bank.folder).err
    )
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="file"):
        write_peer_heads(bank, tmp_path / "file")
