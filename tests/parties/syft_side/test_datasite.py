"""The adapter over a real syft server, and the fake under the same body."""

import inspect
import itertools
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from parties.blocks.store import Store
from parties.home.state import init_party
from parties.shim import ARGUMENTS, EXECUTION_LIMIT, function_name, source
from parties.syft_side import launcher
from parties.syft_side.access import Datasite, Standing
from parties.syft_side.fake_datasite import FakeDatasite
from parties.syft_side.publication import Publication
from protocols.errors import DatasiteError, PortInUse, RequestError
from tests.parties.syft_side.syft_lab import (
    PASSWORD,
    PEOPLE,
    Lab,
    StubSupervisor,
    add_block,
    running_lab,
    signed_request,
)
from tests.ports import free_ports
from tests.waiting import PATIENCE, until

NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running_lab(tmp_path_factory.mktemp("lab")) as running:
        yield running


@dataclass
class Site:
    """One datasite as the analyst sees it, with the owner's side of it."""

    datasite: Datasite
    supervisor: StubSupervisor
    publish: Callable[[], Publication]
    approve: Callable[[str], None]
    deny: Callable[[str, str], None]


def _fake(folder: Path) -> Site:
    supervisor = StubSupervisor()
    fake = FakeDatasite("bank", lambda question: {"ok": True} | supervisor(question))
    state = init_party(folder / "bank", name="bank", organisation="Bank")

    def publish() -> Publication:
        schema = add_block(state)
        publication = Publication(
            schema=schema, card=state.card(), mock=Store(state.blocks).mock("customers")
        )
        fake.publish(publication)
        return publication

    return Site(fake, supervisor, publish, fake.approve, fake.deny)


def _real(lab: Lab) -> Site:
    from parties.datasite import connect

    def publish() -> Publication:
        stored = Store(lab.state.blocks).list()  # whichever test of the shared lab comes first
        schema = stored[0] if stored else add_block(lab.state)
        assert lab.supervisor.order("publish", block="customers")["problems"] == ""
        return Publication(
            schema=schema, card=lab.state.card(), mock=Store(lab.state.blocks).mock("customers")
        )

    def approve(digest: str) -> None:
        told = lab.supervisor.wait(lambda told: told["action"] == "ingest" and digest_in(told) == digest)
        done = lab.supervisor.order("approve", digest=digest, caller=str(told["caller"]))
        assert (done["ok"], done["problems"]) == (True, "")

    def deny(digest: str, reason: str) -> None:
        assert lab.supervisor.order("deny", digest=digest, reason=reason)["problems"] == ""

    return Site(connect(lab.url, PEOPLE["ana"], PASSWORD), lab.supervisor, publish, approve, deny)


def digest_in(told: dict[str, object]) -> str:
    from parties.shim import digest_of

    return digest_of(str(told["signed"]))


@pytest.fixture(params=["fake", pytest.param("syft", marks=pytest.mark.syft)])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Site:
    return _fake(tmp_path) if request.param == "fake" else _real(request.getfixturevalue("lab"))


def test_a_datasite_publishes_schema_card_and_mock(site: Site) -> None:
    published = site.publish()
    (found,) = site.datasite.datasets()
    assert (found.schema, found.card, found.name) == (published.schema, published.card, "customers")
    assert found.mock.to_dict("list") == published.mock.to_dict("list")
    assert list(found.mock.columns) == list(published.schema.all_names)
    assert site.datasite.name == "bank"


def test_a_request_goes_from_submission_to_an_answer_and_to_denial(site: Site) -> None:
    signed, digest = signed_request(next(NUMBERS))
    site.supervisor.answers = lambda question: {"echo": question["argument"], "call": question["call"]}
    assert site.datasite.decision(digest).standing is Standing.ABSENT
    assert site.datasite.call(digest, "status") == {
        "ok": False,
        "error": "not_approved",
        "standing": "absent",
    }
    assert site.datasite.submit(signed) == digest
    assert site.datasite.submit(signed) == digest
    assert site.datasite.decision(digest).standing is Standing.PENDING
    assert site.datasite.call(digest, "status") == {
        "ok": False,
        "error": "not_approved",
        "standing": "pending",
    }
    site.approve(digest)
    assert site.datasite.decision(digest).standing is Standing.APPROVED
    assert site.datasite.call(digest, "start", "[]") == {"ok": True, "echo": "[]", "call": "start"}
    calls = [told for told in site.supervisor.told if told["action"] == "call"]
    assert [(told["request"], told["call"]) for told in calls if told["request"] == digest] == [
        (digest, "start")
    ]
    site.deny(digest, "no longer")
    decision = site.datasite.decision(digest)
    assert (decision.standing, decision.reason) == (Standing.DENIED, "no longer")
    answer = site.datasite.call(digest, "cancel")
    assert answer == {"ok": False, "error": "not_approved", "standing": "denied", "reason": "no longer"}


def test_refusals_are_typed_and_carry_no_message(site: Site) -> None:
    signed, digest = signed_request(next(NUMBERS))
    site.datasite.submit(signed)
    site.approve(digest)
    site.supervisor.answers = lambda question: {
        "ok": False,
        "error": "runs_used",
        "used": 1,
        "message": "secret",
    }
    assert site.datasite.call(digest, "start") == {"ok": False, "error": "runs_used", "used": 1}
    assert site.datasite.call(digest, "erase") == {"ok": False, "error": "action"}


def test_what_is_no_signed_request_is_not_submitted(site: Site) -> None:
    signed, _ = signed_request(next(NUMBERS))
    for wrong in ("", "{}", signed.replace('"runs":1', '"runs":2')):
        with pytest.raises(RequestError):
            site.datasite.submit(wrong)


# From here on only over syft.


@pytest.fixture(scope="module")
def owner(lab: Lab) -> object:
    from parties.datasite import log_in

    return log_in(lab.url, lab.state.root_email, lab.state.secrets()["DEFAULT_ROOT_PASSWORD"])


@pytest.fixture(scope="module")
def ana(lab: Lab) -> object:
    from parties.datasite import log_in

    return log_in(lab.url, PEOPLE["ana"], PASSWORD)


def _checked(owner, request):
    from parties.datasite import check

    return check(owner.api.services.request.get_by_uid(request.id), owner)


def _submit(client, code):
    return client.api.services.code.request_code_execution(code=code)


def _name(code):
    code.func_name = "open"


def _newline(code):
    code.code += "\n"


def _comment(code):
    code.code = code.code.replace("nothing else", "something else")


def _fewer_arguments(code):
    code.input_kwargs = ["request", "action"]


def _swapped_signature(code):
    code.signature = inspect.Signature(list(code.signature.parameters.values())[::-1])


def _limit(code):
    code.output_policy_init_kwargs["limit"] = EXECUTION_LIMIT + 1


def _once(code):
    from syft.service.policy.policy import OutputPolicyExecuteOnce

    code.output_policy_type = OutputPolicyExecuteOnce


def _rules(code):
    ((_, rules),) = code.input_policy_init_kwargs.items()
    return rules


def _constant(code):
    _rules(code)["request"].val = signed_request(next(NUMBERS))[0]


def _constant_type(code):
    _rules(code)["request"].val = {"request": 1}


def _free_constant(code):
    from syft.service.policy.policy import UserOwned

    _rules(code)["request"] = UserOwned(kw="request", type=str)


def _pinned_action(code):
    from syft.service.policy.policy import Constant

    _rules(code)["action"] = Constant(kw="action", val="start", klass=str)


def _number_argument(code):
    from syft.service.policy.policy import UserOwned

    _rules(code)["argument"] = UserOwned(kw="argument", type=int)


def _other_server(code):
    from syft.types.uid import UID

    ((server, rules),) = code.input_policy_init_kwargs.items()
    other = server.model_copy()
    other.server_id = UID()
    code.input_policy_init_kwargs = {other: rules}


def _two_servers(code):
    from syft.types.uid import UID

    ((server, rules),) = code.input_policy_init_kwargs.items()
    other = server.model_copy()
    other.server_name, other.server_id = "elsewhere", UID()
    code.input_policy_init_kwargs = {server: rules, other: rules}


ALTERATIONS = (
    _name,
    _newline,
    _comment,
    _fewer_arguments,
    _swapped_signature,
    _limit,
    _once,
    _constant,
    _constant_type,
    _free_constant,
    _pinned_action,
    _number_argument,
    _other_server,
    _two_servers,
)


@pytest.mark.syft
def test_the_shim_as_it_is_passes_the_comparison(owner, ana) -> None:
    from parties.datasite import build

    signed, _ = signed_request(next(NUMBERS))
    assert _checked(owner, _submit(ana, build(signed, ana))) == ()


@pytest.mark.syft
@pytest.mark.parametrize("alter", ALTERATIONS, ids=lambda each: each.__name__.strip("_"))
def test_a_shim_with_one_thing_changed_is_foreign(lab: Lab, owner, ana, alter) -> None:
    """syft takes every one of these; our comparison refuses it, and it never reaches the supervisor as a request."""
    from parties.datasite import build

    signed, digest = signed_request(next(NUMBERS))
    code = build(signed, ana)
    alter(code)
    assert _checked(owner, _submit(ana, code)) != ()
    told = lab.supervisor.wait(
        lambda told: (
            told["action"] == "ingest_foreign" and told["name"] in (code.func_name, "") and told["reasons"]
        )
    )
    assert told["email"] == PEOPLE["ana"]
    assert told["code"] in (code.code, "")
    assert not [t for t in lab.supervisor.told if t["action"] == "ingest" and digest_in(t) == digest]


@pytest.mark.syft
def test_an_approval_that_would_approve_other_code_is_refused(lab: Lab, owner, ana, tmp_path: Path) -> None:
    """The review shows A, the change would approve B: no approval, and B's body never runs."""
    from syft.service.code.user_code import UserCodeStatus
    from syft.service.request.request import SubmitRequest, UserCodeStatusChange
    from syft.store.linked_obj import LinkedObject
    from syft.types.errors import SyftException

    from parties.datasite import build

    signed, digest = signed_request(next(NUMBERS))
    trace = tmp_path / "ran"
    evil = build(signed, ana)
    evil.func_name = "evil"
    evil.code = f"def evil(request, action, argument):\n    open({str(trace)!r}, 'w').close()\n    return 1\n"
    services = ana.api.services
    shown, hidden = services.code.submit(code=build(signed, ana)).value, services.code.submit(code=evil).value
    change = UserCodeStatusChange(
        value=UserCodeStatus.APPROVED,
        linked_obj=hidden.status_link,
        linked_user_code=LinkedObject.from_obj(shown, server_uid=ana.id),
    )
    request = services.request.submit(request=SubmitRequest(changes=[change]))
    assert "approved status differs from the shim's" in _checked(owner, request)
    told = lab.supervisor.wait(
        lambda t: t["action"] == "ingest_foreign" and t["name"] == function_name(digest)
    )
    assert "approved status differs from the shim's" in told["reasons"]
    done = lab.supervisor.order("approve", digest=digest, caller=str(told["caller"]))
    assert done["ok"] is False
    ana.refresh()
    with pytest.raises(SyftException):
        ana.code.evil(action="start", argument="")
    assert not trace.exists()


@pytest.mark.syft
def test_two_changes_in_one_request_are_foreign(owner, ana) -> None:
    from syft.service.code.user_code import UserCodeStatus
    from syft.service.request.request import SubmitRequest, UserCodeStatusChange
    from syft.store.linked_obj import LinkedObject

    from parties.datasite import FOREIGN, build

    signed, _ = signed_request(next(NUMBERS))
    code = ana.api.services.code.submit(code=build(signed, ana)).value
    changes = [
        UserCodeStatusChange(
            value=UserCodeStatus.APPROVED,
            linked_obj=code.status_link,
            linked_user_code=LinkedObject.from_obj(code, server_uid=ana.id),
        )
        for _ in range(2)
    ]
    request = ana.api.services.request.submit(request=SubmitRequest(changes=changes))
    assert _checked(owner, request) == (FOREIGN,)


@pytest.mark.syft
def test_another_analyst_can_not_call_a_request(lab: Lab) -> None:
    from parties.datasite import connect

    site = _real(lab)
    signed, digest = signed_request(next(NUMBERS))
    site.datasite.submit(signed)
    site.approve(digest)
    bob = connect(lab.url, PEOPLE["bob"], PASSWORD)
    assert bob.call(digest, "status")["error"] == "not_approved"
    bob.submit(signed)
    assert bob.call(digest, "status")["standing"] == "pending"
    calls = [told for told in lab.supervisor.told if told["action"] == "call" and told["request"] == digest]
    assert calls == []


@pytest.mark.syft
def test_a_request_that_the_supervisor_refuses_is_denied_with_its_code(lab: Lab) -> None:
    site = _real(lab)
    signed, digest = signed_request(next(NUMBERS))
    lab.supervisor.refusals["ingest"] = "roster"
    try:
        site.datasite.submit(signed)
        lab.supervisor.wait(lambda told: told["action"] == "ingest" and digest_in(told) == digest)
        until(
            lambda: site.datasite.decision(digest).standing,
            lambda standing: standing is not Standing.PENDING,
            pause=0.1,
        )
    finally:
        lab.supervisor.refusals.clear()
    decision = site.datasite.decision(digest)
    assert (decision.standing, decision.reason) == (Standing.DENIED, "roster")


@pytest.mark.syft
def test_strangers_get_nothing(lab: Lab) -> None:
    import requests
    import syft as sy
    from syft.types.errors import SyftException

    from parties.datasite import build, connect, log_in

    guest = sy.login_as_guest(url="http://127.0.0.1", port=lab.state.port, verbose=False)
    signed, _ = signed_request(next(NUMBERS))
    for attempt in (lambda: _submit(guest, build(signed, guest)), guest.api.services.dataset.get_all):
        with pytest.raises(requests.ConnectionError, match="code 500"):
            attempt()
    with pytest.raises(SyftException):
        guest.register(name="eve", email="eve@lab.example.org", password="x", password_verify="x")
    with pytest.raises(DatasiteError):
        log_in(lab.url, "eve@lab.example.org", "x")
    with pytest.raises(DatasiteError):
        connect(lab.url, PEOPLE["ana"], "wrong")
    with pytest.raises(DatasiteError, match="reached"):
        connect(f"http://127.0.0.1:{free_ports(1)}", PEOPLE["ana"], PASSWORD)


@pytest.mark.syft
def test_an_account_gets_a_new_password_and_is_closed(lab: Lab) -> None:
    from parties.datasite import connect, log_in

    email = "gil@lab.example.org"
    order = lab.supervisor.order
    assert order("add_user", name="gil", email=email, password="the first one")["ok"] is True
    site = connect(lab.url, email, "the first one")
    assert order("reset_user", email=email, password="the second one")["ok"] is True
    with pytest.raises(DatasiteError):
        log_in(lab.url, email, "the first one")
    log_in(lab.url, email, "the second one")
    assert order("remove_user", email=email)["ok"] is True
    assert order("remove_user", email=email)["ok"] is True
    with pytest.raises(DatasiteError):
        log_in(lab.url, email, "the second one")
    with pytest.raises(DatasiteError):  # a session that was open doesn't outlive its account
        site.submit(signed_request(next(NUMBERS))[0])
    assert order("reset_user", email=email, password="the third one")["problems"] == (
        f"there is no account {email!r}"
    )


@pytest.mark.syft
def test_P2_every_login_is_told_and_one_that_can_not_be_logged_is_refused(lab: Lab) -> None:
    from parties.datasite import log_in

    def logins() -> list[tuple[object, object]]:
        return [(told["email"], told["success"]) for told in lab.supervisor.told if told["action"] == "login"]

    assert logins()[0] == (lab.state.root_email, True)  # the steward's own
    before = len(logins())
    log_in(lab.url, PEOPLE["bob"], PASSWORD)
    for email in (PEOPLE["bob"], "nobody@lab.example.org"):
        with pytest.raises(DatasiteError):
            log_in(lab.url, email, "wrong")
    assert logins()[before:] == [
        (PEOPLE["bob"], True),
        (PEOPLE["bob"], False),
        ("nobody@lab.example.org", False),
    ]
    lab.supervisor.refusals["login"] = "audit"
    try:
        with pytest.raises(DatasiteError):
            log_in(lab.url, PEOPLE["bob"], PASSWORD)
    finally:
        del lab.supervisor.refusals["login"]


@pytest.mark.syft
def test_an_analyst_can_not_run_on_mocks_or_change_rights(ana, owner) -> None:
    from syft.types.errors import SyftException

    me = ana.api.services.user.get_current_user()
    assert me.mock_execution_permission is False
    with pytest.raises(SyftException):
        ana.api.services.user.update(uid=me.id, mock_execution_permission=True)
    assert owner.api.services.settings.get().signup_enabled is False


@pytest.mark.syft
def test_logging_in_prints_nothing(lab: Lab, capfd: pytest.CaptureFixture[str]) -> None:
    site = _real(lab)
    site.datasite.submit(signed_request(next(NUMBERS))[0])
    assert capfd.readouterr() == ("", "")


@pytest.mark.syft
def test_the_server_keeps_to_itself(lab: Lab) -> None:
    """One listening socket on 127.0.0.1 and no queue, no secret in the environment, files for the owner only."""
    psutil = pytest.importorskip("psutil")
    process = psutil.Process(lab.process.pid)
    listening = [each.laddr for each in process.net_connections("all") if each.status == psutil.CONN_LISTEN]
    assert [(each.ip, each.port) for each in listening] == [("127.0.0.1", lab.state.port)]
    assert process.children(recursive=True) == []
    environment = Path(f"/proc/{lab.process.pid}/environ").read_bytes()
    for name, value in lab.state.secrets().items():
        assert name.encode() not in environment
        assert value.encode() not in environment
    assert lab.state.secrets()["SERVER_PRIVATE_KEY"] not in launcher.log_path(lab.state).read_text()
    open_to_others = [
        path
        for path in (lab.state.folder / "syft").rglob("*")
        if path.lstat().st_mode & 0o077 and not path.is_symlink()
    ]
    assert open_to_others == []


@pytest.mark.syft
def test_a_killed_server_comes_back_with_its_requests(lab: Lab) -> None:
    site = _real(lab)
    site.publish()
    signed, digest = signed_request(next(NUMBERS))
    waiting, waiting_digest = signed_request(next(NUMBERS))
    site.datasite.submit(signed)
    site.approve(digest)
    site.datasite.submit(waiting)
    os.kill(lab.process.pid, signal.SIGKILL)
    lab.process.wait()
    with pytest.raises(DatasiteError):
        site.datasite.decision(digest)
    lab.restart()
    lab.supervisor.answers = lambda question: {"state": "RUNNING"}
    assert site.datasite.call(digest, "status") == {"ok": True, "state": "RUNNING"}
    assert site.datasite.decision(waiting_digest).standing is Standing.PENDING
    site.approve(waiting_digest)
    assert [each.name for each in site.datasite.datasets()] == ["customers"]


@pytest.mark.syft
def test_the_server_ends_with_whoever_started_it(lab: Lab) -> None:
    """Run last: it stops the lab's server the way a dying supervisor does, in the middle of a long poll or not."""
    from parties.syft_side.datasite_process import ENDED_BY_FORCE

    assert lab.process.stdin is not None
    lab.process.stdin.close()
    assert lab.process.wait(PATIENCE) in (0, ENDED_BY_FORCE)
    assert not launcher.ready_path(lab.state).exists()
    lab.restart()


def test_a_taken_port_is_named_at_once(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        state = init_party(tmp_path / "bank", name="bank", organisation="Bank", port=port)
        with pytest.raises(PortInUse, match=str(port)):
            launcher.launch(state)
    assert not launcher.log_path(state).exists(), "a process was started"


def test_only_loopback_is_bound() -> None:
    with pytest.raises(DatasiteError, match=r"127\.0\.0\.1 only"):
        launcher.bind("0.0.0.0", free_ports(1))


def test_a_server_that_ends_early_is_reported_with_its_log(tmp_path: Path) -> None:
    state = init_party(tmp_path / "bank", name="bank", organisation="Bank", port=free_ports(1))
    with subprocess.Popen(["false"], stdin=subprocess.PIPE) as process:
        with pytest.raises(DatasiteError, match="status 1") as caught:
            launcher.wait_until_ready(process, state)
        assert "server.log" in caught.value.remedy


def test_the_shim_names_its_arguments() -> None:
    text = source("ab" * 32)
    assert text.splitlines()[0] == f"def run_{'ab' * 32}({', '.join(ARGUMENTS)}):"
    assert len(text.splitlines()) == 4
