"""The console's pages on the audit log: files for an authority, and the comparison with a head that a peer holds."""

import html
from collections.abc import Iterator
from dataclasses import replace

import pytest

from parties.console.log_views import NAMES, File
from protocols.audit import AuditEvent, parse_head, sign_head, to_text, verify_head
from tests.parties.console.browsing import House, Visitor, house
from tests.parties.control.offices import make_offices


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(make_offices(tmp_path_factory.mktemp("offices"))) as found:
        yield found


def saved(visitor: Visitor, file: str, since: str = "2020-01-01", until: str = "2100-01-01") -> bytes:
    """The file that the form gives."""
    answer = visitor.form("/log/export", "/log/export", since=since, until=until, file=file)
    assert answer.status_code == 200, answer.text
    name = f"bank-{since}-to-{until}-{NAMES[File(file)]}"
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'
    assert answer.headers["cache-control"] == "no-store"
    return answer.content


@pytest.mark.parametrize("person", ["owner", "aud"])
def test_P10_each_file_of_an_export_can_be_saved_and_is_an_entry_first(bank: House, person: str) -> None:
    visitor, path = bank.logged_in(person), bank.offices.bank.audit_path
    before = path.read_bytes()
    entries = saved(visitor, "entries")
    assert entries.startswith(before), "the log's own lines"
    assert "Passed:" in (page := saved(visitor, "page").decode())
    assert "<script" not in page
    head = parse_head(saved(visitor, "head").decode().strip(), bank.offices.bank.card().signing_key)
    verify_head(head)
    exported = bank.log(AuditEvent.LOG_EXPORTED)[-3:]
    assert [(e.who, e.origin) for e in exported] == [(person, "console")] * 3
    assert head.head.index == exported[-1].index - 1, "the head is of the log before this reading"


def test_an_export_of_other_days_holds_nothing_of_today(bank: House) -> None:
    assert saved(bank.logged_in(), "entries", "2020-01-01", "2020-01-02") == b""


@pytest.mark.parametrize(
    ("since", "until", "told"),
    [("soon", "2020-01-01", "is no day"), ("2020-01-02", "2020-01-01", "swap the two days")],
)
def test_days_that_are_none_are_refused(bank: House, since: str, until: str, told: str) -> None:
    visitor = bank.logged_in()
    answer = visitor.form("/log/export", "/log/export", since=since, until=until, file="page")
    assert answer.status_code == 409
    assert told in html.unescape(answer.text)


def test_an_export_needs_the_sessions_own_form(bank: House) -> None:
    data = {"since": "2020-01-01", "until": "2100-01-01", "file": "page"}
    for path in ("/log/export", "/log/heads"):
        assert bank.logged_in().client.post(path, data=data).status_code == 403
        assert bank.visitor().client.post(path, data=data).status_code == 303


def test_P4_the_log_is_compared_with_a_head_that_another_party_holds(bank: House) -> None:
    state, visitor = bank.offices.bank, bank.logged_in("aud")
    head = sign_head(bank.supervisor_log().head(), bank.offices.clock(), state.signing_key())
    shown = visitor.form("/log/heads", "/log/heads", head=to_text(head)).text
    assert "Passed:" in shown
    assert "1 signed head that another party holds fits" in shown
    rewritten = sign_head(replace(head.head, hash="ab" * 32), bank.offices.clock(), state.signing_key())
    size = len(state.audit_path.read_bytes())
    for text, told in (
        (to_text(rewritten), "Does not fit:"),
        (to_text(head).replace("bank", "bang"), "Does not fit:"),
        ("no head", "Does not fit:"),
    ):
        answer = visitor.client.post("/log/heads", data={"head": text, "csrf": visitor.csrf()})
        assert told in answer.text
        assert "Passed:" not in answer.text
    assert len(state.audit_path.read_bytes()) == size, "a log that may be wrong isn't written to"
