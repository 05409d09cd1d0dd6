"""The stage of the notebooks: few people, and nothing left behind, also when a cell failed."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from parties.demo.sites import wait_for
from parties.demo.two_sites import ALIGNED, ALONE, TEST, TwoSites, document, fedaccord, few_people
from protocols.errors import StateError
from tests.waiting import PATIENCE


def test_few_people_are_dealt_out_as_the_plan_bounds_them() -> None:
    who = few_people()
    bank, retailer = set(who.bank().tolist()), set(who.retailer().tolist())
    assert len(bank & retailer) == ALIGNED + TEST
    assert len(bank - retailer) == len(retailer - bank) == ALONE
    assert not set(who.test.tolist()) & set(who.aligned.tolist())


def test_a_party_is_set_up_and_its_commands_work_in_this_process(capsys: pytest.CaptureFixture[str]) -> None:
    before = Path.cwd()
    sites = TwoSites()
    try:
        sites.set_up("bank", "retailer")
        sites.accept("bank", "retailer")
        fedaccord("peer list --state bank")
        assert sites.fingerprint("retailer") in capsys.readouterr().out
        blocks = document("block show customers --state bank")
        assert capsys.readouterr().out == ""
        assert "capital-loss" in str(blocks)
        with pytest.raises(StateError, match="does not exist"):
            fedaccord("block show --state nobody")
    finally:
        sites.close()
    assert not sites.folder.exists()
    assert Path.cwd() == before
    sites.close()


@pytest.mark.parametrize(
    "end", ["raise SystemError('a cell that fails')", "os.kill(os.getpid(), signal.SIGKILL)"]
)
def test_processes_and_folder_are_gone_after_a_program_that_ends_without_its_last_cell(
    tmp_path: Path, end: str
) -> None:
    """As a kernel that ends by itself or by force."""
    program = (
        "import os, signal\n"
        "from parties.demo import two_sites\n"
        "two_sites.STOP_SECONDS = 1.0\n"
        "from parties.demo.two_sites import TwoSites\n"
        "sites = TwoSites()\n"
        "sites.set_up('bank')\n"
        "from parties.demo.sites import served\n"
        "process = sites._stack.enter_context(served(sites.state('bank'), injected_seed=None))\n"
        "print(sites.folder, process.pid, flush=True)\n"
        f"{end}\n"
    )
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode != 0
    folder, pid = done.stdout.split()
    wait_for("their end", lambda: not Path(folder).exists() and not psutil.pid_exists(int(pid)), PATIENCE)
