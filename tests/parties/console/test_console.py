"""The console over a real supervisor's socket: who gets in, what is shown to whom, and what a form can do."""

import html
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from parties.console.app import console
from parties.console.entrance import Entrance
from parties.console.sessions import IDLE, LONGEST
from parties.control.run_state import RunState
from parties.home.checklist import Question
from parties.home.people import create_person, read_people
from parties.home.policy import Policy, policy_text
from parties.home.private_files import read_json, write_json, write_private
from parties.home.use_rules import UseRules
from parties.roles.reviewing import page
from parties.roles.signer import unlock
from protocols.audit import AuditEvent
from protocols.request import ComputationRequest, digest
from tests.parties.console.browsing import ADDRESS, PORT, Hands, House, add_block, house
from tests.parties.control.offices import CALLER, EMAIL, PASSPHRASE, make_offices
from tests.parties.roles.samples import VIEWS

NUMBERS = count(1)
HOSTILE = "<script>alert(1)</script>"
READING = (
    "/requests",
    "/runs",
    "/blocks",
    "/blocks/customers",
    "/models",
    "/log",
    "/log/heads",
    "/log/export",
    "/trace",
    "/policy",
)


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """The bank with a block, one foreign code, and no request yet."""
    folder = tmp_path_factory.mktemp("offices")
    offices = make_offices(folder)
    add_block(offices, folder)
    with house(offices) as found, pytest.MonkeyPatch.context() as patch:
        patch.setattr("parties.console.views.WAIT", 0.1)  # no syft is there to follow a decision
        offices.ask(
            "ingest_foreign",
            name="steal",
            caller=CALLER,
            email=EMAIL,
            reasons=["text differs from the shim's"],
            warnings=["line 2: rows: to_dict"],
            code=f"def steal(x):\n    return x.to_dict()  # {HOSTILE}",
        )
        yield found


def submitted(bank: House, **changes: object) -> ComputationRequest:
    """A new pending request."""
    return bank.offices.submitted(nonce=f"{next(NUMBERS):032x}", **changes)


def state_of(bank: House, request: ComputationRequest) -> object:
    return bank.offices.view(request)["state"]


# --- who gets in


def test_nobody_sees_a_page_without_logging_in(bank: House) -> None:
    path = f"/requests/{digest(submitted(bank))}"
    visitor = bank.visitor()
    for each in (*READING, path, "/foreign/1"):
        answer = visitor.get(each)
        assert (answer.status_code, answer.headers["location"], answer.text) == (303, "/login", "")


def test_a_wrong_passphrase_a_stranger_and_an_analyst_are_refused_alike(bank: House) -> None:
    before = len(bank.log(AuditEvent.LOGGED_IN))
    texts = set()
    for name, passphrase in (("owner", "wrong"), ("nobody", "correct horse"), ("ana", "correct horse")):
        visitor = bank.visitor()
        answer = visitor.log_in(name, passphrase)
        assert answer.status_code == 403
        assert visitor.get("/requests").status_code == 303
        texts.add(re.search(r"Not logged in:.*", answer.text)[0])  # type: ignore[index]
    assert len(texts) == 1, "the answer doesn't tell which names there are"
    bank.clock.seconds += 61
    logged = bank.log(AuditEvent.LOGGED_IN)[before:]
    assert [(e.who, e.result.value, e.origin) for e in logged] == [
        ("owner", "refused", "console"),
        ("somebody", "refused", "console"),
        ("somebody", "refused", "console"),
    ]


def test_a_passphrase_typed_as_a_name_is_not_written_down(bank: House) -> None:
    assert bank.visitor().log_in("my secret passphrase", "x").status_code == 403
    bank.clock.seconds += 61
    assert b"my secret" not in bank.offices.bank.audit_path.read_bytes()


def test_a_guesser_has_to_wait(bank: House) -> None:
    for _ in range(5):
        assert bank.visitor().log_in("rev", "guess").status_code == 403
    answer = bank.visitor().log_in("rev")
    assert answer.status_code == 403
    assert "too many logins failed" in answer.text
    bank.clock.seconds += 61
    bank.logged_in("rev")


def test_a_key_without_a_passphrase_logs_in_with_the_terminals_link_only_and_once(bank: House) -> None:
    state = bank.offices.bank
    create_person(state.folder, name="open", role="reviewer", organisation="Example Bank", passphrase=None)
    assert bank.visitor().log_in("open", "").status_code == 403
    bank.clock.seconds += 61
    signer = unlock(state, "open", None)
    for wait, status in ((0.0, 303), (301.0, 403)):
        path = f"/enter/{bank.entrance.tickets.issue(signer)}"
        visitor = bank.visitor()
        assert visitor.get(path).status_code == 200
        assert visitor.get(path).status_code == 200, "looking at the page uses nothing up"
        bank.clock.seconds += wait
        assert visitor.form(path, path).status_code == status
        assert visitor.get("/requests").status_code == (200 if status == 303 else 303)
        assert bank.visitor().form(path, path).status_code == 403


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(bank: House) -> None:
    cookie = bank.visitor().log_in("owner").headers["set-cookie"]
    assert cookie.startswith(f"fedaccord-bank-{PORT}=")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))


def test_a_session_ends_when_it_is_left_alone_and_a_page_that_renews_itself_is_no_use(bank: House) -> None:
    visitor = bank.logged_in()
    bank.clock.seconds += IDLE - 1
    assert visitor.get("/requests").status_code == 200
    for _ in range(3):
        bank.clock.seconds += IDLE / 3
        last = visitor.get("/runs?live=1")
    assert last.status_code == 303
    assert last.headers["location"] == "/login?ended=1"
    assert visitor.get("/requests").status_code == 303
    assert "session has ended" in visitor.get("/login?ended=1").text


def test_a_session_ends_after_some_hours_in_any_case(bank: House) -> None:
    visitor = bank.logged_in()
    for _ in range(int(LONGEST / (IDLE / 2)) - 1):
        bank.clock.seconds += IDLE / 2
        assert visitor.get("/blocks").status_code == 200
    bank.clock.seconds += IDLE / 2
    assert visitor.get("/blocks").status_code == 303


def test_logging_out_ends_the_session_for_every_copy_of_the_cookie(bank: House) -> None:
    visitor, thief = bank.logged_in(), bank.visitor()
    thief.client.cookies.update(visitor.client.cookies)
    assert thief.get("/requests").status_code == 200
    assert visitor.form("/requests", "/logout").status_code == 303
    assert thief.get("/requests").status_code == 303


def test_a_person_who_is_removed_is_out_at_once(bank: House) -> None:
    folder = bank.offices.bank.folder
    create_person(folder, name="gone", role="reviewer", organisation="Example Bank", passphrase=PASSPHRASE)
    visitor = bank.logged_in("gone")
    people = read_json(folder / "people.json")
    del people["gone"]
    write_json(folder / "people.json", people)
    assert "gone" not in {person.name for person in read_people(folder)}
    assert visitor.get("/requests").status_code == 303


# --- what a form can do


def test_every_form_needs_the_token_of_its_session(bank: House) -> None:
    request = submitted(bank)
    path = f"/requests/{digest(request)}"
    visitor = bank.logged_in()
    others = bank.logged_in("rev").csrf()
    for action in (f"{path}/approve", f"{path}/deny", f"{path}/revoke", "/logout", "/login"):
        for token in ({}, {"csrf": ""}, {"csrf": others}, {"csrf": "é"}):
            data = {"reason": "why", "person": "owner", "passphrase": "correct horse"} | token
            answer = visitor.client.post(action, data=data)
            assert answer.status_code == 403, action
    assert state_of(bank, request) == "PENDING"
    assert visitor.get("/requests").status_code == 200, "still logged in"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example.org"}, 421),
        ({"host": f"evil.example.org:{PORT}"}, 421),
        ({"host": "127.0.0.1:1"}, 421),
        ({"host": f"127.0.0.1.evil.example.org:{PORT}"}, 421),
        ({"origin": "http://evil.example.org"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:8000"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"content-length": "70000"}, 413),
        ({"content-length": "-1"}, 413),
    ],
)
def test_a_form_of_another_place_is_refused(bank: House, headers: dict[str, str], status: int) -> None:
    visitor, request = bank.logged_in(), submitted(bank)
    data = {"csrf": visitor.csrf(), "reason": "why"}
    path = f"/requests/{digest(request)}/approve"
    assert visitor.client.post(path, data=data, headers=headers).status_code == status
    assert state_of(bank, request) == "PENDING"


def test_another_name_for_this_machine_reads_nothing(bank: House) -> None:
    answer = bank.logged_in().get("/requests", headers={"host": "rebound.example.org"})
    assert answer.status_code == 421
    assert "bank" not in answer.text
    for method in ("PUT", "HEAD"):
        refused = bank.visitor().client.request(method, "/requests")
        assert refused.status_code == 405
    assert bank.visitor().client.put("/requests").text == "the console takes GET and POST only\n"


def test_a_request_that_was_refused_when_it_came_is_shown_with_the_rule(bank: House) -> None:
    policy = bank.offices.bank.folder / "policy.toml"
    before = policy.read_text()
    write_private(policy, policy_text(Policy(uses=UseRules(purposes=("churn",)))))
    try:
        request = bank.offices.request(purpose="curiosity", nonce=f"{next(NUMBERS):032x}")
        bank.offices.ask("ingest", signed=bank.offices.signed(request), caller=CALLER, email=EMAIL)
    finally:
        write_private(policy, before)
    shown = html.unescape(bank.logged_in().get("/requests").text)
    assert digest(request)[:12] in shown
    assert "refused by policy: purpose 'curiosity' is not one that we agreed to (churn); ask with" in shown


@pytest.mark.parametrize("reason", ["", "  \n ", "x" * 501])
@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_R13_a_decision_needs_a_reason(bank: House, decision: str, reason: str) -> None:
    visitor, request = bank.logged_in(), submitted(bank)
    path = f"/requests/{digest(request)}"
    answer = visitor.form(path, f"{path}/{decision}", reason=reason)
    assert answer.status_code == 403
    assert "needs a reason" in answer.text
    assert state_of(bank, request) == "PENDING"


def test_R13_the_form_asks_each_item_of_the_checklist(bank: House) -> None:
    policy = bank.offices.bank.folder / "policy.toml"
    before = policy.read_text()
    questions = (
        Question(item="columns", text="Every column <needed>?"),
        Question(item="law", text="Lawful?"),
    )
    write_private(policy, policy_text(Policy(checklist=questions)))
    try:
        visitor, request = bank.logged_in(), submitted(bank)
        path = f"/requests/{digest(request)}"
        assert "Every column &lt;needed&gt;?" in visitor.get(path).text
        asked = {"csrf": visitor.csrf(), "reason": "read", "item": ["columns", "law"]}
        for words, whys, told in (
            (["yes", ""], ["both", "x"], "'law' has no answer"),
            (["yes", "yes"], ["both", " "], "reason for checklist item 'law'"),
            (["yes", "no"], ["both", "not ours"], "'law' is answered no"),
            (["yes"], ["both"], "checklist is incomplete"),
            (["yes", "maybe"], ["both", "x"], "'law' has no answer"),
        ):
            answer = visitor.client.post(f"{path}/approve", data={**asked, "answer": words, "why": whys})
            assert answer.status_code == 403
            assert told in html.unescape(answer.text)
            assert state_of(bank, request) == "PENDING"
        visitor.client.post(
            f"{path}/approve", data={**asked, "answer": ["yes", "yes"], "why": ["both", "Art. 6(1)f"]}
        )
        assert state_of(bank, request) == "APPROVED"
        assert "[law] yes: Art. 6(1)f" in visitor.get(path).text
    finally:
        write_private(policy, before)


def test_a_decision_goes_the_signed_way_and_its_reason_is_kept(bank: House) -> None:
    visitor, request = bank.logged_in(), submitted(bank)
    path = f"/requests/{digest(request)}"
    assert visitor.form(path, f"{path}/approve", reason="checked with  legal").headers["location"] == path
    shown = visitor.get(path).text
    assert "approve by owner" in shown
    assert "APPROVED" in shown
    assert "approve by owner" not in visitor.get(path).text, "a notice is shown once"
    assert state_of(bank, request) == "APPROVED"
    (entry,) = [e for e in bank.log(AuditEvent.APPROVED) if e.object.endswith(digest(request))]
    assert entry.origin == "console"
    assert dict(entry.detail)["reason"] == "checked with legal"


def test_R15_a_denial_and_a_revocation_that_says_before_what_it_does(bank: House) -> None:
    visitor, request = bank.logged_in(), submitted(bank)
    path = f"/requests/{digest(request)}"
    visitor.form(path, f"{path}/deny", reason="too many columns")
    assert "denied by owner: too many columns" in html.unescape(visitor.get(path).text)
    visitor.form(path, f"{path}/approve", reason="fewer now")
    shown = visitor.get(path).text
    assert "approve" not in re.findall(rf'action="{path}/(\w+)"', shown)
    assert "For good: new calls are refused" in shown, "R15: what a revocation does is said before"
    visitor.form(path, f"{path}/revoke", reason="consent withdrawn")
    assert state_of(bank, request) == RunState.REVOKED
    assert "/revoke" not in visitor.get(path).text


def test_an_auditor_reads_and_decides_nothing(bank: House) -> None:
    visitor, request = bank.logged_in("aud"), submitted(bank)
    path = f"/requests/{digest(request)}"
    for each in (*READING, path, "/foreign/1"):
        assert visitor.get(each).status_code == 200, each
    assert f'action="{path}' not in visitor.get(path).text
    data = {"csrf": visitor.csrf(), "reason": "why"}
    answer = visitor.client.post(f"{path}/approve", data=data)
    assert answer.status_code == 403
    assert "reads and doesn&#39;t decide" in answer.text
    assert state_of(bank, request) == "PENDING"


def test_foreign_code_is_shown_with_its_warnings_and_has_no_form(bank: House) -> None:
    visitor = bank.logged_in()
    assert "steal" in visitor.get("/requests").text
    shown = visitor.get("/foreign/1").text
    for part in ("Not approvable", "line 2: rows: to_dict", "return x.to_dict()", html.escape(HOSTILE)):
        assert part in shown
    assert re.findall(r'action="([^"]*)"', shown) == ["/logout"]
    assert visitor.get("/foreign/99").status_code == 404


# --- what is shown


def test_R25_the_page_shows_what_the_terminal_shows(bank: House) -> None:
    request = submitted(
        bank,
        manifest=(VIEWS,),
        parameters=(("d", 2), ("steps", 4)),
        analyst_receives=("scores of a model",),
        purpose_text="Who leaves & why <now>",
    )
    shown = html.unescape(bank.logged_in().get(f"/requests/{digest(request)}").text)
    shown = re.sub(r"\s+", " ", re.sub(r"<(?!now)[^>]+>", " ", shown))
    facts = page(bank.offices.bank, digest(request)).sections
    words = [text for each in facts for content in each.contents for text in _texts(content)]
    assert len(words) > 30
    assert [text for text in words if re.sub(r"\s+", " ", text) not in shown] == []


def _texts(content: object) -> list[str]:
    """All that a fact says, piece by piece."""
    pieces: list[str] = []
    for name in content.__dataclass_fields__:  # type: ignore[attr-defined]
        value = getattr(content, name)
        if name == "pairs":
            pieces += [f"{key}={text}" for key, text in value]
        elif isinstance(value, tuple):
            pieces += value
        elif not isinstance(value, bool):
            pieces.append(str(value))
    return pieces


def test_hostile_text_stays_text(bank: House) -> None:
    request = submitted(bank, purpose_text=f"{HOSTILE}{{{{ 7*7 }}}}", analyst_receives=(HOSTILE,))
    visitor = bank.logged_in()
    for path in ("/requests", f"/requests/{digest(request)}", "/log?last=100", f"/trace?what={HOSTILE}"):
        shown = visitor.get(path).text
        assert "<script" not in shown
        assert "49" not in re.findall(r"</script&gt;(\d*)", shown)
    assert html.escape(HOSTILE) in visitor.get(f"/requests/{digest(request)}").text


def test_reading_a_request_and_the_log_is_logged_as_the_persons(bank: House) -> None:
    visitor, request = bank.logged_in("rev"), submitted(bank)
    visitor.get(f"/requests/{digest(request)}")
    viewed = bank.log(AuditEvent.VIEWED)[-1]
    assert (viewed.who, viewed.role, viewed.origin) == ("rev", "reviewer", "console")
    assert viewed.object == f"request {digest(request)}"
    shown = visitor.get("/log").text
    assert "chain unbroken" in shown
    (read,) = [e for e in bank.log(AuditEvent.LOG_READ) if e.who == "rev"]
    assert (read.role, read.origin) == ("reviewer", "console")
    assert visitor.get("/log?last=7").status_code == 404


def test_R23_mock_rows_are_marked_as_mock_and_no_real_row_is_shown(bank: House) -> None:
    shown = bank.logged_in().get("/blocks/customers").text
    assert shown.count("MOCK") >= 4
    assert "MOCK" in re.search("<title>.*</title>", shown)[0]  # type: ignore[index]
    assert not re.search(r"\bp0\d\d\d\b", shown), "a key of the file"


@pytest.mark.parametrize("path", [*READING, "/login", "/nothing", "/style.css", "/foreign/x"])
def test_every_answer_forbids_scripts_frames_and_storing(bank: House, path: str) -> None:
    answer = bank.logged_in().get(path)
    policy = answer.headers["content-security-policy"]
    for rule in ("default-src 'none'", "style-src 'self'", "form-action 'self'", "frame-ancestors 'none'"):
        assert rule in policy
    assert "script-src" not in policy
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", [*READING, "/login", "/foreign/1", "/nothing"])
def test_R25_every_page_has_a_language_one_heading_labels_and_no_script(bank: House, path: str) -> None:
    shown = bank.logged_in().get(path).text
    assert '<html lang="en">' in shown
    assert len(re.findall("<h1>", shown)) == 1
    assert 'class="skip" href="#content"' in shown
    assert not re.search(r"<script|\son\w+=|style=|javascript:", shown)
    named = set(re.findall(r'<label for="([^"]+)"', shown))
    assert set(re.findall(r'<(?:input|textarea) id="([^"]+)"', shown)) == named
    levels = [int(level) for level in re.findall(r"<h(\d)", shown)]
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert re.search(r"\d\d:\d\d:\d\d UTC", shown)


def test_a_run_is_shown_with_its_progress(bank: House) -> None:
    visitor, request = bank.logged_in(), bank.offices.approved(nonce=f"{next(NUMBERS):032x}")
    bank.offices.start(request)
    bank.offices.wait(request, "DONE")
    shown = visitor.get("/runs?live=1").text
    assert '<meta http-equiv="refresh" content="5; url=/runs?live=1">' in shown
    assert digest(request)[:12] in shown.split("<h2>Ended</h2>")[1]
    assert "http-equiv" not in visitor.get("/runs").text


# --- when something is wrong


def test_an_error_that_isnt_ours_shows_its_kind_alone(bank: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError("a cell of private data")

    monkeypatch.setattr("parties.console.views.read_policy", broken)
    visitor = bank.logged_in()
    client = TestClient(console(bank.entrance, PORT), base_url=ADDRESS, cookies=dict(visitor.client.cookies))
    with pytest.raises(ValueError, match="a cell"):
        client.get("/policy")
    quiet = TestClient(
        console(bank.entrance, PORT),
        base_url=ADDRESS,
        cookies=dict(visitor.client.cookies),
        raise_server_exceptions=False,
    )
    answer = quiet.get("/policy")
    assert answer.status_code == 500
    assert "internal error (ValueError)" in answer.text
    assert "private data" not in answer.text
    assert answer.headers["cache-control"] == "no-store"


def test_an_altered_log_is_told_aloud_and_a_missing_supervisor_too(bank: House, tmp_path: Path) -> None:
    offices = make_offices(tmp_path)
    clock = Hands()
    entrance = Entrance.of(offices.bank, PORT, clock=clock, now=offices.clock)
    alone = replace(bank, offices=offices, entrance=entrance, clock=clock)
    visitor = alone.logged_in()
    answer = visitor.get("/requests")
    assert answer.status_code == 409
    assert "no supervisor runs" in answer.text
    assert "fedaccord serve" in answer.text
    text = offices.bank.audit_path.read_text()
    offices.bank.audit_path.write_text(text.replace('"who":"owner"', '"who":"pwner"', 1))
    answer = visitor.get("/log")
    assert answer.status_code == 400
    assert "The audit log failed its check" in answer.text
