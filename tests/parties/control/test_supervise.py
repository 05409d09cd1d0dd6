"""`serve` wires the supervisor to store and catalog; here with a process that plays the syft server."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from parties import catalog
from parties.control import supervise
from parties.control.asking import ask
from parties.control.socket import NAME
from parties.home.state import State, init_analyst, init_party
from parties.syft_side.launcher import ready_path
from protocols.errors import StateError
from tests.waiting import PATIENCE, until

IDLE = "import sys; sys.stdin.read()"


@pytest.fixture
def bank(tmp_path: Path) -> State:
    return init_party(tmp_path / "bank", name="bank", organisation="Bank", port=1)


def _launch(ready: bool):
    def launch(state: State) -> subprocess.Popen[bytes]:
        ready_path(state).parent.mkdir(exist_ok=True)
        if ready:
            ready_path(state).write_text("{}")
        return subprocess.Popen([sys.executable, "-c", IDLE], stdin=subprocess.PIPE)

    return launch


@pytest.mark.parametrize("ready", [True, False], ids=["ready", "still starting"])
def test_it_serves_until_it_is_told_to_end_also_during_the_start(
    bank: State, ready: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(supervise, "launch", _launch(ready))
    serving = threading.Thread(target=supervise.run_datasite, args=(bank,))
    serving.start()
    until(lambda: (bank.folder / NAME).exists(), bool)
    assert ask(bank.folder, "requests")["requests"] == []
    if ready:
        until(lambda: capsys.readouterr().out, lambda text: "datasite ready on http://127.0.0.1:1" in text)
    ask(bank.folder, "shutdown")
    serving.join(PATIENCE)
    assert not serving.is_alive()
    assert not (bank.folder / NAME).exists()


def test_the_options_come_from_store_and_catalog(bank: State, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(supervise, "serve", lambda state, options, ready: seen.append(options))
    supervise.run_datasite(bank, injected_seed=3, bind="0.0.0.0")
    (options,) = seen
    assert (options.injected_seed, options.bind, options.blocks()) == (3, "0.0.0.0", ())
    assert options.code_digest() == catalog.code_digest()
    with pytest.raises(Exception, match="customers"):
        options.current_block("customers")


def test_an_analysts_folder_is_not_served(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="belongs to an analyst"):
        supervise.run_datasite(init_analyst(tmp_path / "ana", name="ana", organisation="Lab"))
