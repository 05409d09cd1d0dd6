"""What must not run doesn't: a typed error that names the thing, nothing lost, an entry in the log, no secret told.

Most cases use one approved request, `ready`, one after another; at the end it runs, which shows that nothing was lost.
"""

import importlib.metadata
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parties.control.asking import Refusal, accepted, ask
from parties.control.socket import NAME
from parties.demo import data as demo_data
from parties.demo.sites import served
from parties.demo.story import DemoOptions, run_demo
from parties.home.cards import parse_address
from parties.home.private_files import write_private
from parties.home.state import init_party
from parties.roles import analyst
from parties.roles.owner import add_block
from parties.syft_side.access import Decision, Standing
from protocols import keys
from protocols.approval import PartyApproval, parse_approvals
from protocols.approval import to_text as approvals_text
from protocols.audit import AuditEvent, AuditLog
from protocols.errors import DataMissingError, NotApprovedError
from protocols.request import ComputationRequest
from protocols.request import digest as request_digest
from protocols.request import to_text as signed_text
from tests.full_path.lab import BANK, PARTIES, RETAILER, SPARE, Lab, specs, until
from tests.ports import free_ports
from tests.waiting import PATIENCE

pytestmark = pytest.mark.syft


@pytest.fixture(scope="module")
def ready(lab: Lab, expiring: ComputationRequest) -> ComputationRequest:
    """An approved request that every case leaves as it was."""
    return lab.approved()


def standing(lab: Lab, request: ComputationRequest) -> list[tuple[object, object, object]]:
    """State and counters of the request at both parties, and how often their blocks were opened."""
    views = [lab.view(name, request) for name in PARTIES]
    return [(view["state"], view["used"], view["allowed"]) for view in views]


def assert_harmless(lab: Lab, text: str) -> None:
    """The text names no person and tells no cell."""
    assert not [secret for secret in lab.customers.secrets if secret in text]


@contextmanager
def refused(lab: Lab, request: ComputationRequest, code: str, words: str) -> Iterator[None]:
    """The block is refused at the bank with this code, logged with these words, and changes nothing else."""
    before, opens, logged = standing(lab, request), lab.opens(BANK), lab.refusals(BANK, request)
    with pytest.raises(Refusal) as caught:
        yield
    assert caught.value.reason == code, caught.value
    assert str(caught.value).startswith(f"{BANK}: ")
    assert_harmless(lab, f"{caught.value} {caught.value.remedy} {caught.value.answer}")
    assert standing(lab, request) == before
    assert lab.opens(BANK) == opens
    assert lab.refusals(BANK, request) == [*logged, code]
    entry = [each for each in lab.log_of(BANK, request) if each.event is AuditEvent.START_REFUSED][-1]
    assert words in str(dict(entry.detail)["reason"]), entry
    assert entry.role == "analyst"


def start_at_bank(lab: Lab, request: ComputationRequest, approvals: str) -> None:
    """What a program of the analyst's own could ask of the bank."""
    accepted(lab.sites[BANK].call(request_digest(request), "start", approvals), BANK)


def test_a_start_without_every_approval(lab: Lab) -> None:
    request = lab.draft()
    lab.submit(request)
    lab.approve(request, BANK)
    with pytest.raises(NotApprovedError, match=RETAILER):
        lab.start(request)
    own = str(analyst.statuses(request, lab.sites)[0].answer["approval"])
    with refused(lab, request, "not_approved", "approval missing from retailer"):
        start_at_bank(lab, request, own)
    answer = lab.sites[RETAILER].call(request_digest(request), "start", own)
    assert (answer["error"], answer["standing"]) == ("not_approved", "pending")
    with pytest.raises(Refusal, match="not approved here"):
        ask(lab.states[RETAILER].folder, "start", digest=request_digest(request), approvals=own)
    assert lab.refusals(RETAILER, request) == [
        "not_approved",
        "not_approved",
    ]  # by syft and by the supervisor


def of_another_request(lab: Lab, ready: ComputationRequest, other: ComputationRequest) -> str:
    return lab.approvals(other)


def altered(lab: Lab, ready: ComputationRequest, other: ComputationRequest) -> str:
    return with_retailers(lab, ready, lambda approval: replace(approval, policy_version="0" * 16))


def without_people(lab: Lab, ready: ComputationRequest, other: ComputationRequest) -> str:
    return with_retailers(lab, ready, lambda approval: replace(approval, decisions=()))


def under_another_key(lab: Lab, ready: ComputationRequest, other: ComputationRequest) -> str:
    mine = keys.public_hex(lab.ana.signing_key())
    return with_retailers(lab, ready, lambda approval: replace(approval, signing_key=mine))


def with_retailers(
    lab: Lab, request: ComputationRequest, change: Callable[[PartyApproval], PartyApproval]
) -> str:
    given = parse_approvals(lab.approvals(request))
    return approvals_text(change(each) if each.party == RETAILER else each for each in given)


@pytest.mark.parametrize(
    ("forge", "words"),
    [
        (of_another_request, "the approval of retailer is for request"),
        (altered, "the approval of retailer was altered"),
        (without_people, "the approval of retailer was altered"),
        (under_another_key, "signed with another key than the roster's"),
    ],
)
def test_an_approval_that_is_not_the_peers(
    lab: Lab,
    ready: ComputationRequest,
    finished: ComputationRequest,
    forge: Callable[[Lab, ComputationRequest, ComputationRequest], str],
    words: str,
) -> None:
    text = forge(lab, ready, finished)
    with refused(lab, ready, "approval", words):
        start_at_bank(lab, ready, text)


def test_a_request_that_was_altered_in_the_partys_folder_after_approval(
    lab: Lab, ready: ComputationRequest
) -> None:
    path = lab.states[BANK].folder / "requests" / f"{request_digest(ready)}.json"
    approvals, genuine = lab.approvals(ready), path.read_text()
    write_private(path, genuine.replace('"runs":1', '"runs":9'))
    assert path.read_text() != genuine
    try:
        with pytest.raises(Refusal) as caught:
            start_at_bank(lab, ready, approvals)
        assert caught.value.reason == "state"
    finally:
        write_private(path, genuine)
    assert lab.refusals(BANK, ready)[-1] == "state"
    assert all(view == ("APPROVED", 0, 1) for view in standing(lab, ready))


def test_a_listening_port_in_use(lab: Lab, ready: ComputationRequest) -> None:
    host, first, last = parse_address(lab.states[BANK].address)
    with ExitStack() as held:
        for port in range(first, last + 1):
            held.enter_context(socket.create_server((host, port)))
        with refused(lab, ready, "port_in_use", f"no free port on {host} in {first}-{last}"):
            lab.start(ready)


ROSTERS: dict[str, tuple[Callable[[], dict[str, str]], str]] = {
    "an unknown peer": (lambda: {"name": "stranger"}, "party 'stranger' is not in the address book"),
    "another key": (
        lambda: {"signing_key": keys.public_hex(keys.generate_key())},
        "signing_key of retailer differs",
    ),
    "another certificate": (
        lambda: {"link_certificate": keys.link_certificate(RETAILER)[1].decode()},
        "link_certificate of retailer differs",
    ),
    "another address": (lambda: {"address": "127.0.0.1:7400-7409"}, "address of retailer differs"),
}


@pytest.fixture(scope="module")
def rosters(lab: Lab) -> dict[str, ComputationRequest]:
    """One request for each wrong roster, all submitted to the bank."""
    requests = {}
    for what, (change, _) in ROSTERS.items():
        request = lab.draft()
        bank, retailer = request.parties
        requests[what] = replace(request, parties=(bank, replace(retailer, **change())))
        lab.sites[BANK].submit(signed_text(analyst.sign(requests[what], lab.ana.signing_key())))
    return requests


@pytest.mark.parametrize("what", ROSTERS)
def test_a_roster_that_differs_from_the_address_book(
    lab: Lab, rosters: dict[str, ComputationRequest], what: str
) -> None:
    request, site = rosters[what], lab.sites[BANK]
    decision = until(
        lambda: site.decision(request_digest(request)),
        lambda found: found.standing is not Standing.PENDING,
    )
    assert decision == Decision(standing=Standing.DENIED, reason="roster")
    assert not lab.knows(BANK, request)
    (entry,) = lab.log_of(BANK, request)
    assert (entry.event, entry.result.value) == (AuditEvent.SUBMITTED, "refused")
    assert dict(entry.detail)["code"] == "roster"
    assert ROSTERS[what][1] in str(dict(entry.detail)["reason"])
    assert site.call(request_digest(request), "start", "")["error"] == "not_approved"


def test_a_block_whose_content_changed_after_approval(lab: Lab, ready: ComputationRequest) -> None:
    path = lab.states[BANK].blocks / "customers" / "v1" / "column-0.npy"
    genuine = path.read_bytes()
    write_private(path, genuine[:-1] + bytes([genuine[-1] ^ 1]))
    try:
        lab.start(ready)
        found = {name: lab.ended(name, ready) for name in PARTIES}
    finally:
        write_private(path, genuine)
    assert (found[BANK]["state"], found[BANK]["reason"]) == ("FAILED", "block")
    assert (found[RETAILER]["state"], found[RETAILER]["reason"]) == ("FAILED", "peer_stopped:block")
    assert BANK in str(found[RETAILER]["note"])
    for name in PARTIES:
        assert_harmless(lab, f"{found[name]} {lab.worker_log(name, ready)}")
        assert found[name]["used"] == 0
    assert "content changed" in failure(lab, BANK, ready)


def failure(lab: Lab, name: str, request: ComputationRequest) -> str:
    """What the party's log says of the newest failed run of the request."""
    entry = [each for each in lab.log_of(name, request) if each.event is AuditEvent.RUN_FAILED][-1]
    detail = dict(entry.detail)
    return f"{detail['reason']}: {detail.get('detail', '')}"


def test_AC19_a_block_that_was_replaced_after_approval(lab: Lab) -> None:
    request = lab.approved(block=SPARE)
    add_block(lab.states[BANK], lab.files[BANK], replace(specs()[BANK], name=SPARE), replace=True)
    with refused(lab, request, "block", "block spare is at version 2"):
        lab.start(request)
    offers = until(
        lambda: analyst.read_offers(lab.sites)[BANK].blocks[SPARE].schema,
        lambda schema: schema.version == 2,
    )
    assert offers.commitment != request.blocks[0].commitment


@pytest.fixture(scope="module")
def lonely(lab: Lab, expiring: ComputationRequest) -> dict[str, ComputationRequest]:
    """Three runs at once that can't meet: each party alone, and a retailer with another certificate in its hands."""
    requests = {what: lab.approved() for what in (BANK, RETAILER, "certificate")}
    texts = {what: lab.approvals(request) for what, request in requests.items()}
    folder = lab.states[RETAILER].folder / "keys"
    key, certificate = keys.link_certificate(RETAILER)
    genuine = {name: (folder / name).read_bytes() for name in ("link.pem", "link.crt")}

    def start(name: str, what: str) -> None:
        accepted(lab.sites[name].call(request_digest(requests[what]), "start", texts[what]), name)

    start(BANK, BANK)
    start(RETAILER, RETAILER)
    write_private(folder / "link.pem", key)
    write_private(folder / "link.crt", certificate)
    try:
        start(BANK, "certificate")
        start(RETAILER, "certificate")
        for name in PARTIES:
            until(
                lambda name=name: lab.view(name, requests["certificate"]),
                lambda view: view["state"] != "RUNNING",
            )
    finally:
        for name, content in genuine.items():
            write_private(folder / name, content)
    return requests


def waited(lab: Lab, name: str, request: ComputationRequest) -> float:
    """Seconds from the start of the run to its end, as the party's log has them."""
    times = {
        entry.event: datetime.fromisoformat(entry.time)
        for entry in lab.log_of(name, request)
        if entry.event in (AuditEvent.STARTED, AuditEvent.RUN_FAILED)
    }
    return (times[AuditEvent.RUN_FAILED] - times[AuditEvent.STARTED]).total_seconds()


@pytest.mark.parametrize(("name", "peer"), [PARTIES, PARTIES[::-1]])
def test_a_peer_that_does_not_come(
    lab: Lab, lonely: dict[str, ComputationRequest], name: str, peer: str
) -> None:
    request = lonely[name]
    view = lab.ended(name, request)
    assert (view["state"], view["used"]) == ("FAILED", 0)
    assert view["reason"] in ("peer_timeout", "peer_refused")
    assert peer in str(view["note"])
    assert peer in failure(lab, name, request)
    assert waited(lab, name, request) < PATIENCE
    assert lab.view(peer, request)["state"] == "APPROVED"
    told = next(each for each in analyst.statuses(request, lab.sites) if each.party == name)
    assert peer in str(told.answer["note"])  # the analyst can read it too


def test_a_peer_with_another_certificate_than_the_rosters(
    lab: Lab, lonely: dict[str, ComputationRequest]
) -> None:
    request = lonely["certificate"]
    for name, peer in (PARTIES, PARTIES[::-1]):
        view = lab.ended(name, request)
        assert (view["state"], view["used"]) == ("FAILED", 0)
        assert peer in str(view["note"])
        assert waited(lab, name, request) < PATIENCE
        assert "handshake" not in lab.events(name, request)
    assert "other connections were refused" in str(lab.view(BANK, request)["note"])
    lab.start(request)  # with the certificate back in its place the same request runs
    lab.done(request)


def test_what_was_refused_so_often_still_runs_once(lab: Lab, ready: ComputationRequest) -> None:
    lab.start(ready)
    lab.done(ready)
    assert [view[1:] for view in standing(lab, ready)] == [(1, 1), (1, 1)]


def test_an_expired_request(lab: Lab, expiring: ComputationRequest) -> None:
    approvals = lab.approvals(expiring)
    left = datetime.fromisoformat(expiring.expires) - datetime.now(UTC)
    time.sleep(max(0.0, left.total_seconds() + 0.1))
    with refused(lab, expiring, "expired", "the request expired at"):
        start_at_bank(lab, expiring, approvals)
    late = lab.draft(expires=expiring.expires)
    lab.sites[BANK].submit(signed_text(analyst.sign(late, lab.ana.signing_key())))
    decision = until(
        lambda: lab.sites[BANK].decision(request_digest(late)),
        lambda found: found.standing is not Standing.PENDING,
    )
    assert decision == Decision(standing=Standing.DENIED, reason="expired")


def test_a_syft_port_in_use_at_serve(lab: Lab, tmp_path: Path) -> None:
    port = free_ports(1)
    state = init_party(tmp_path / "third", name="third", organisation="Example Third", port=port)
    with socket.create_server(("127.0.0.1", port)), served(state, injected_seed=None) as process:
        assert process.wait(PATIENCE) == 1
    said = (state.folder / "serve.log").read_text()
    assert f"port {port} on 127.0.0.1 can't be used" in said
    assert "set another port in party.toml" in said
    assert "Traceback" not in said
    entries = list(AuditLog(state.audit_path, "third").entries())
    (failed,) = [entry for entry in entries if entry.result.value == "failed"]
    assert dict(failed.detail)["code"] == "port_in_use"
    assert not (state.folder / NAME).exists()


def test_a_second_supervisor_for_the_same_folder(lab: Lab) -> None:
    before = lab.log(BANK)
    with served(lab.states[BANK], injected_seed=None) as process:
        assert process.wait(PATIENCE) == 1
    said = (lab.states[BANK].folder / "serve.log").read_text()
    assert "a supervisor already runs" in said
    assert lab.log(BANK) == before
    assert ask(lab.states[BANK].folder, "requests")["ok"] is True


def test_a_missing_data_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    demo_data.columns.cache_clear()
    monkeypatch.setattr(importlib.metadata, "files", nothing)
    try:
        with pytest.raises(DataMissingError, match="Adult data aren't installed") as caught:
            run_demo(DemoOptions(out=tmp_path / "out"))
    finally:
        demo_data.columns.cache_clear()
    assert 'pip install "fedaccord[demo]"' in caught.value.remedy
    assert not (tmp_path / "out").exists()
