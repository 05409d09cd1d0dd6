"""The last module of this folder, in the order of names: what the lab's parties keep and what they leave behind."""

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from parties.home.cards import parse_address
from parties.roles.auditing import verify_log
from protocols.request import ComputationRequest
from tests.full_path.lab import BANK, PARTIES, Lab, lives
from tests.protocols.psi.traces import traces

pytestmark = pytest.mark.syft


@pytest.fixture(scope="module", autouse=True)
def closed(lab: Lab, finished: ComputationRequest) -> Lab:
    """The lab after its end; a run was made in it, whatever tests were chosen."""
    lab.census()
    lab.close()
    return lab


def files_of(lab: Lab, name: str) -> Iterator[tuple[Path, bytes]]:
    """Every file in the party's state folder: blocks, runs, logs, approvals, ledger, syft's database and blobs."""
    for path in sorted(lab.states[name].folder.rglob("*")):
        if path.is_file():
            yield path, path.read_bytes()


@pytest.mark.parametrize("name", PARTIES)
def test_no_file_of_a_party_knows_who_is_a_customer_of_the_other_alone(lab: Lab, name: str) -> None:
    (other,) = set(PARTIES) - {name}
    strangers = [trace for key in lab.customers.alone(other) for trace in traces(key.encode())]
    own = {key.encode() for key in lab.customers.alone(name)}
    found, seen = [], set()
    for path, content in files_of(lab, name):
        if any(trace in content for trace in strangers):
            found.append(path)
        seen.update(key for key in own if key in content)
    assert not found
    assert seen == own  # the search finds what is there


@pytest.mark.parametrize("name", PARTIES)
def test_P5_no_log_answer_or_message_holds_a_key_or_an_amount(lab: Lab, name: str) -> None:
    """Nor, of some keys, a plain hash or an encoding."""
    secrets = [secret.encode() for secret in lab.customers.secrets]
    secrets += [trace for key in lab.customers.keys(name)[:10] for trace in traces(key.encode())]
    store = lab.states[name].blocks
    found = [
        path
        for path, content in files_of(lab, name)
        if not path.is_relative_to(store) and any(secret in content for secret in secrets)
    ]
    assert not found


@pytest.mark.parametrize("name", PARTIES)
def test_the_log_is_whole(lab: Lab, name: str) -> None:
    document, _ = verify_log(lab.states[name], ())
    assert document["status"] == "ok"
    assert lab.log(name)[-1].event.value == "server_stopped"


def test_no_process_is_left(lab: Lab) -> None:
    assert len(lab.pids) >= 4  # two supervisors, two syft servers
    assert not [pid for pid in lab.pids if lives(pid)]


def test_no_port_listens(lab: Lab) -> None:
    _, first, last = parse_address(lab.states[BANK].address)
    for port in (*range(first, last + 1), *(lab.states[name].port for name in PARTIES)):
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0, port


def test_R20_nothing_passing_stays_in_a_state_folder(lab: Lab) -> None:
    for name in PARTIES:
        folder = lab.states[name].folder
        passing = [
            path
            for pattern in ("supervisor.sock", "syft/ready", "runs/*/temporary", "runs/.new-*", "**/.*.new")
            for path in folder.glob(pattern)
        ]
        assert not passing


def test_nothing_is_in_the_system_temporary_folder(lab: Lab) -> None:
    assert not list((lab.folder / "temporary").iterdir())
    assert not lab.strays
    system = Path(tempfile.gettempdir())
    marks = [
        mark for name in PARTIES for mark in (lab.states[name].uid, lab.states[name].uid.replace("-", ""))
    ]
    assert not [path for path in system.iterdir() if any(mark in path.name for mark in marks)]
