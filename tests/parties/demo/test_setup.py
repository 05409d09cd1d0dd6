"""The demo's folder: an earlier demo's output is replaced, somebody's work never is."""

import os
import subprocess
import sys

import pytest

from parties.control.supervisor import only_one
from parties.demo.ending import TERMINATED
from parties.demo.setup import BANK, MADE, MARK, PREPARED_MARK, fresh_folder
from parties.home.state import init_party
from protocols.errors import StateError


def test_an_earlier_demo_is_replaced(tmp_path):
    folder = fresh_folder(tmp_path / "out")
    (folder / "data").mkdir()
    (folder / "data" / "bank.csv").write_text("old")
    (folder / "result.json").write_text("{}")
    assert sorted(os.listdir(fresh_folder(folder))) == [MARK]


def test_what_a_killed_demo_left_is_replaced_too(tmp_path):
    folder = fresh_folder(tmp_path / "out")
    (folder / ".temporary-x1" / "cache").mkdir(parents=True)
    assert sorted(os.listdir(fresh_folder(folder))) == [MARK]


SLEEPER = """
import sys, time
from pathlib import Path
from parties.demo.ending import ends_in_order
from parties.demo.steps import own_temporary_folder
with ends_in_order(), own_temporary_folder(Path(sys.argv[1])):
    print("ready", flush=True)
    time.sleep(600)
"""


def test_a_demo_that_is_terminated_leaves_no_temporary_folder(tmp_path):
    with subprocess.Popen([sys.executable, "-c", SLEEPER, tmp_path], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        assert len(list(tmp_path.glob(".temporary-*"))) == 1
        process.terminate()
        assert process.wait(120) == TERMINATED
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("mark", sorted(MADE))
def test_what_no_demo_made_stays(tmp_path, mark):
    folder = fresh_folder(tmp_path / "out", mark)
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(StateError, match=r"holds notes\.txt"):
        fresh_folder(folder, mark)
    assert (folder / "notes.txt").read_text() == "mine"


def test_states_made_by_hand_in_a_prepared_folder_stay(tmp_path):
    folder = fresh_folder(tmp_path / "try", PREPARED_MARK)
    (folder / "bank").mkdir()
    (folder / "bank" / "audit.jsonl").write_text("entries")
    for mark in MADE:
        with pytest.raises(StateError, match="bank"):
            fresh_folder(folder, mark)
    assert (folder / "bank" / "audit.jsonl").read_text() == "entries"


def test_a_running_datasite_is_left_alone(tmp_path):
    folder = fresh_folder(tmp_path / "out")
    bank = init_party(folder / BANK, name=BANK, organisation="Example Bank")
    with only_one(bank), pytest.raises(StateError, match="already runs"):
        fresh_folder(folder)
    assert (folder / BANK / "party.toml").exists()
    assert sorted(os.listdir(fresh_folder(folder))) == [MARK]
