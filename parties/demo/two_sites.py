"""The other side of a notebook: two datasites on this machine, and what their other people do meanwhile.

A notebook shows one role's work by that role's own commands. Everything else, a peer that accepts a card, an analyst
who asks, an owner who approves, is a method here, and does what the command of the same name does. All lies in a
temporary folder, which `close` removes after stopping every process. When the notebook's kernel ends without that, even
by force, the processes end with their standard input, and soon after the folder is removed.
"""

import atexit
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack, redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path

from parties.control.asking import ask
from parties.demo.data import People, deal, training_and_test, write_csv
from parties.demo.setup import ANALYST, ANALYST_EMAIL, BANK, RETAILER, login_file, specs
from parties.demo.sites import STOP_SECONDS, free_ports, free_range, served, wait_for, wait_until_ready
from parties.home.cards import card_fingerprint
from parties.home.state import State, init_analyst, init_party, open_state
from parties.roles import analyst
from parties.roles.owner import add_block, add_peer, add_user
from parties.roles.plan import read_plan
from parties.roles.requesting import follow, wait_for_approvals
from parties.roles.reviewing import record
from parties.roles.standing import RUNNING
from parties.syft_side.access import Datasite
from protocols.approval import Decision

ORGANISATIONS = {BANK: "Example Bank", RETAILER: "Example Retailer", ANALYST: "Example Lab"}
TEST, ALIGNED, ALONE = 150, 100, 150
"""People of the Adult data: common test people, common training people, and those of one party only."""
WAIT_SECONDS = 30.0
PLAN = """\
purpose = "income-class"
purpose_text = "Which customers earn more than 50K: a small joint model of bank and retailer."
computation = "vertical.fedcvt.train"
minimum_overlap = 50
[parties.bank]
role = "active"
block = "customers"
columns = ["workclass", "occupation", "hours-per-week", "capital-gain"]
[parties.retailer]
role = "passive"
block = "customers"
columns = ["age", "education", "education-num"]
[parameters]
steps = 20
d = 8
candidates = "given"
folds = 0
linear_views = 4
memory_pool = 32
pseudo_from = 5
pseudo_ramp = 5
baselines = false
max_common = 250
max_aligned_train = 100
max_aligned_test = 150
max_passive_only = 150
"""
LONG = 5000
"""Steps of a training that doesn't end by itself while somebody looks on."""
REMOVER = 'cat >/dev/null; sleep "$2"; rm -rf -- "$1"'
"""For a shell that outlives the kernel: when its standard input ends, it waits until the datasites have ended, too."""
TRAINING = ("search", "fedcvt")
"""How the phases begin in which a run trains: the search among settings, then the final training."""


def fedaccord(line: str) -> None:
    """Runs the command line `fedaccord LINE` in this process; what is wrong is raised, its remedy as a note."""
    from parties.cli import app

    app(shlex.split(line), prog_name="fedaccord", standalone_mode=False)


def document(line: str) -> dict[str, object]:
    """The JSON document that `fedaccord LINE --json` prints."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        fedaccord(f"{line} --json")
    found: dict[str, object] = json.loads(printed.getvalue())
    return found


def few_people(seed: int = 0) -> People:
    """Some people of the Adult data, dealt out to both parties."""
    training, test = training_and_test()
    chosen = training[: ALIGNED + 2 * ALONE]  # the file's order tells nothing
    return deal(chosen, test[:TEST], seed=seed, aligned=ALIGNED)


class TwoSites:
    """Bank and retailer in a folder that becomes the working folder; at first there are their files alone."""

    def __init__(self) -> None:
        self._before = Path.cwd()
        self.folder = Path(tempfile.mkdtemp(prefix="fedaccord-")).resolve()
        self._stack = ExitStack()
        self._sites: dict[str, Datasite] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._remover = subprocess.Popen(
            ["sh", "-c", REMOVER, "sh", str(self.folder), f"{STOP_SECONDS:.0f}"],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        atexit.register(self.close)
        bank, retailer = write_csv(few_people(), self.folder / "data")
        self.files = {BANK: bank, RETAILER: retailer}
        self.ports = dict(zip(self.files, free_ports(2), strict=True))
        self.link = free_range(4)
        os.chdir(self.folder)

    def state(self, name: str) -> State:
        """The state folder of a party or the analyst."""
        return open_state(self.folder / name, test_mode=True)

    def set_up(self, *names: str) -> None:
        """Makes these parties' state folders and adds their blocks."""
        for name in names:
            state = init_party(
                self.folder / name,
                name=name,
                organisation=ORGANISATIONS[name],
                address=self.link if name == BANK else "",
                port=self.ports[name],
            )
            add_block(state, self.files[name], specs()[name])

    def fingerprint(self, name: str) -> str:
        """What that side reads out over the telephone."""
        return card_fingerprint(self.state(name).card())

    def accept(self, here: str, there: str) -> None:
        """The owner of `here` has compared the fingerprint of `there` and accepts its card."""
        add_peer(self.state(here), self.folder / there / "card.json", self.fingerprint(there))

    def serve(self, *names: str) -> None:
        """Starts these datasites, as `fedaccord serve` in a terminal of its own each; returns when they are up."""
        for name in names:
            process = self._stack.enter_context(served(self.state(name), injected_seed=None))
            self._processes[name] = process
            self._stack.callback(process.terminate)
        chosen = {name: self._processes[name] for name in names}
        wait_until_ready(chosen, {name: self.state(name) for name in names})
        for name in names:
            print(f"datasite of {name} is ready on http://127.0.0.1:{self.ports[name]}", flush=True)

    def hire(self) -> None:
        """The analyst makes a state folder."""
        init_analyst(self.folder / ANALYST, name="ana", organisation=ORGANISATIONS[ANALYST])

    def admit(self, *names: str) -> None:
        """The owners of these parties accept the analyst's card, open accounts and hand the login files over."""
        card = self.folder / ANALYST / "card.json"
        for name in names:
            add_user(
                self.state(name),
                card,
                self.fingerprint(ANALYST),
                ANALYST_EMAIL,
                login_file(self.folder, name),
                wait=WAIT_SECONDS,
            )

    def log_in(self) -> dict[str, Datasite]:
        """The analyst's sessions at both datasites, with the login files that lie in the folder."""
        if self._sites:
            return self._sites
        state = self.state(ANALYST)
        for name in self.files:
            analyst.add_login(state, login_file(self.folder, name))
        self._sites = analyst.connect_all(state)
        return self._sites

    def ask(self, **changes: int) -> str:
        """The analyst submits the plan, some parameters changed; the request's digest."""
        state, sites = self.state(ANALYST), self.log_in()
        (self.folder / "plan.toml").write_text(PLAN, encoding="utf-8")
        plan = read_plan(self.folder / "plan.toml")
        plan = replace(plan, parameters={**plan.parameters, **changes})
        request = analyst.draft(state, plan, analyst.read_offers(sites))
        return analyst.submit(state, analyst.sign(request, state.signing_key()), sites)

    def approve(self, digest: str, *names: str) -> None:
        """The owners of these parties read the request and approve it."""
        for name in names:
            said = record(
                self.state(name),
                digest,
                person="owner",
                decision=Decision.APPROVE,
                reason="within the agreed purpose",
                passphrase=None,
                wait=WAIT_SECONDS,
            )
            print(said, flush=True)

    def start(self, digest: str) -> None:
        """The analyst starts the run and doesn't wait for its end."""
        request, sites = analyst.find(self.state(ANALYST), digest).request, self.log_in()
        wait_for_approvals(request, sites, partial(print, flush=True))
        analyst.start(request, sites)

    def until_training(self, digest: str) -> None:
        """Returns when the bank's part of the run is training."""
        wait_for("the training", lambda: str(self._view(BANK, digest).get("phase", "")).startswith(TRAINING))

    def until_ended(self, digest: str) -> None:
        """Returns when the run has ended at both parties, and says how."""
        for name in self.files:
            wait_for(f"the end at {name}", partial(self._has_ended, name, digest))
            print(f"{name}: {self._view(name, digest)['state']}", flush=True)

    def _has_ended(self, name: str, digest: str) -> bool:
        return self._view(name, digest)["state"] != RUNNING

    def _view(self, name: str, digest: str) -> dict[str, object]:
        return ask(self.state(name).folder, "status", digest=digest)

    def finish(self, digest: str) -> None:
        """The analyst follows the run to its end and reads what the parties release."""
        request, sites = analyst.find(self.state(ANALYST), digest).request, self.log_in()
        for status in follow(request, sites):
            print(f"{status.party}: {status.state} {status.reason}".rstrip(), flush=True)
        analyst.results(request, sites)

    def console(self, name: str, person: str) -> str:
        """The address of a console of this party, in a process as `fedaccord console` in a terminal of its own."""
        command = [
            sys.executable,
            "-m",
            "parties",
            "console",
            "--as",
            person,
            "--state",
            str(self.folder / name),
        ]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
        self._stack.callback(process.wait)
        self._stack.callback(process.terminate)
        assert process.stdout is not None
        return process.stdout.readline().decode().strip()

    def close(self) -> None:
        """Stops every process and removes the folder, also after a cell that failed; again is fine."""
        self._stack.close()
        self._processes.clear()
        if self.folder.exists():
            os.chdir(self._before)
            shutil.rmtree(self.folder)
        self._remover.kill()  # its folder is gone
        self._remover.wait()
        atexit.unregister(self.close)
