"""The supervisor's socket against slow, hostile and many clients."""

import json
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parties.control import socket as party_socket
from parties.control.socket import SocketServer, call
from protocols.errors import RunsUsedError, StateError
from tests.waiting import PATIENCE

woken = threading.Event()


def answer(request: Mapping[str, object]) -> dict[str, object]:
    if request.get("action") == "used":
        raise RunsUsedError("used 1 of 1", remedy="ask again")
    if request.get("action") == "bug":
        raise ValueError("secret value 42")
    if request.get("action") == "nan":
        return {"value": float("nan")}
    if request.get("action") == "sleep":
        woken.wait(PATIENCE)
    return {"echo": request.get("value")}


@contextmanager
def served(folder: Path) -> Iterator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    server = SocketServer(folder, answer)
    server.start()
    try:
        yield folder
    finally:
        server.stop()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with served(tmp_path / "state") as path:
        yield path


def raw(folder: Path, data: bytes) -> bytes:
    """What comes back for these bytes, the sending side closed after them."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE)
        client.connect(str(folder / "supervisor.sock"))
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(65536), b""))


def test_one_line_in_one_line_out(folder: Path) -> None:
    assert call(folder, {"action": "x", "value": "ü\n"}) == {"ok": True, "echo": "ü\n"}
    assert (folder / "supervisor.sock").stat().st_mode & 0o777 == 0o600


def test_refusals_are_typed_and_internal_ones_say_nothing(folder: Path) -> None:
    refused = call(folder, {"action": "used"})
    assert (refused["ok"], refused["error"], refused["message"]) == (False, "runs_used", "used 1 of 1")
    assert refused["remedy"] == "ask again"
    for action in ("bug", "nan"):
        internal = call(folder, {"action": action})
        assert internal["error"] == "internal"
        assert "secret" not in json.dumps(internal)


def test_a_path_of_any_length_works(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 80) / ("e" * 80)
    assert len(str(deep)) > 160
    with served(deep):
        assert call(deep, {"action": "x", "value": 1}) == {"ok": True, "echo": 1}
        assert (deep / "supervisor.sock").exists()
    assert not (deep / "supervisor.sock").exists()


def test_nobody_there_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="no supervisor runs") as caught:
        call(tmp_path, {"action": "x"})
    assert "serve" in caught.value.remedy


def test_a_silent_supervisor_times_out(folder: Path) -> None:
    try:
        with pytest.raises(StateError, match="didn't answer"):
            call(folder, {"action": "sleep"}, timeout=0.1)
    finally:
        woken.set()


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=200) | st.text(max_size=50).map(lambda t: json.dumps(t).encode()))
def test_no_bytes_end_the_server(data: bytes) -> None:
    path = Path(os.environ["PYTEST_SOCKET_FOLDER"])
    reply = json.loads(raw(path, data + b"\n"))
    assert reply["ok"] is False
    assert reply["error"] == "protocol"


@pytest.fixture(autouse=True, scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with served(tmp_path_factory.mktemp("shared")) as path:
        os.environ["PYTEST_SOCKET_FOLDER"] = str(path)
        yield
        del os.environ["PYTEST_SOCKET_FOLDER"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b'{"action": "x"}',
        b"[1]\n",
        b'{"a":1}\n{"a":2}\n',
        b"[" * 200_000 + b"\n",
        b"\xff\xfe\n",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["nothing", "half", "no end", "list", "two lines", "deep", "not utf-8", "http"],
)
def test_malformed_lines_get_a_typed_answer(folder: Path, data: bytes) -> None:
    assert json.loads(raw(folder, data))["error"] == "protocol"
    assert call(folder, {"action": "x", "value": 1})["ok"] is True


def test_an_endless_line_is_cut(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(party_socket, "LINE_LIMIT", 100_000)
    try:
        reply = raw(folder, b"x" * 300_000)
    except ConnectionError:
        reply = b""
    assert not reply or json.loads(reply)["error"] == "protocol"
    assert call(folder, {"action": "x", "value": 1})["ok"] is True


def test_another_user_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(party_socket, "_peer_uid", lambda connection: os.getuid() + 1)
    assert call(folder, {"action": "x"})["error"] == "protocol"


def test_silent_clients_are_bounded_and_dropped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(party_socket, "READ_SECONDS", 0.3)
    silent = []
    for _ in range(party_socket.CONNECTIONS + 10):
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(folder / "supervisor.sock"))
        silent.append(client)
    time.sleep(0.1)
    assert sum(thread.name == "socket-call" for thread in threading.enumerate()) <= party_socket.CONNECTIONS
    assert call(folder, {"action": "x", "value": 1})["ok"] is True
    for client in silent:
        client.close()


def test_clients_that_go_away_do_no_harm(folder: Path) -> None:
    for _ in range(30):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(folder / "supervisor.sock"))
            client.sendall(b'{"action": "x"}\n')
    assert call(folder, {"action": "x", "value": 1})["ok"] is True
