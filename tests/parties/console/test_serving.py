"""The command that serves the console: where it listens, and how it ends."""

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from parties.console.serving import run_console
from parties.home.state import init_party
from protocols.errors import StateError
from tests.waiting import PATIENCE


def test_it_listens_on_this_machine_only_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    state = init_party(tmp_path / "bank", name="bank", organisation="Example Bank", port=1)
    words = [sys.executable, "-u", "-m", "parties", "console", "--state", str(state.folder)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        told = process.stdout.readline()
        port = int(re.findall(r"http://127\.0\.0\.1:(\d+) ", told)[0])
        answer = httpx.get(f"http://127.0.0.1:{port}/login", timeout=PATIENCE)
        assert answer.status_code == 200
        assert "server" not in answer.headers
        assert httpx.get(f"http://localhost:{port}/login", timeout=PATIENCE).status_code == 200
        listening = Path("/proc/net/tcp").read_text().split()
        assert f"0100007F:{port:04X}" in listening
        assert f"00000000:{port:04X}" not in listening
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE)
        assert (process.returncode, said) == (0, "")
    finally:
        process.kill()
        process.wait(PATIENCE)


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    state = init_party(tmp_path / "bank", name="bank", organisation="Example Bank", port=1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StateError, match=f"port {port} of 127.0.0.1 can't be used") as caught:
            run_console(state, port=port, signer=None, tell=lambda line: None)
    assert "--port" in caught.value.remedy
