"""Two parties and an analyst made by the commands themselves, with real supervisors; only syft and workers are played.

A FakeDatasite stands for each syft server, a Clerk for its steward, and the dummy worker of the supervisor's tests for
the training. So everything that a command does or says is real, and takes milliseconds.
"""

import contextlib
import io
import json
import os
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from parties.blocks.store import Store
from parties.cli import main
from parties.control.asking import ask
from parties.control.socket import call
from parties.control.supervisor import Supervisor
from parties.control.workers import WORKER_COMMAND
from parties.home.state import State, open_state
from parties.shim import digest_of
from parties.syft_side.fake_datasite import FakeDatasite
from parties.syft_side.publication import Publication
from parties.syft_side.steward import denial_reason
from protocols.errors import DatasiteError, FedaccordError
from tests.parties.commands.office import Office, options
from tests.parties.control.offices import DUMMY
from tests.ports import free_ports
from tests.waiting import PATIENCE

REAL, HELD = "real", "held"
"""Behaviours of the workers that a served party has, and of those that can be made to wait (`held_worker`)."""
EMAIL = "ana@lab.example.org"
ORGANISATIONS = {"bank": "Example Bank", "shop": "Example Shop", "ana": "Example Lab"}
SECRETS = ("PERSON-", "sentinel")
"""Every key begins with the first, and one cell of each file is the second: no output may hold them."""
COMMON, ALONE = 40, 20
PLAN = """
purpose = "churn"
purpose_text = "Which customers leave."
computation = "vertical.fedcvt.train"
minimum_overlap = 20
[parties.bank]
role = "active"
block = "customers"
[parties.shop]
role = "passive"
block = "visitors"
[parameters]
d = 2
hidden = 4
steps = 4
memory_every = 2
memory_pool = 4
evaluation_batch = 16
max_common = 40
max_aligned_train = 30
max_aligned_test = 10
max_passive_only = 20
pseudo_from = 1
pseudo_ramp = 1
candidates = "given,linear"
folds = 2
linear_views = 3
baselines = false
"""


@dataclass(frozen=True)
class Said:
    """What a command left behind."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, object]:
        """The one JSON document on standard output."""
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value


def fedaccord(*words: object) -> Said:
    """Runs the command line in this process, from its arguments to its exit status."""
    out, err = io.StringIO(), io.StringIO()
    with (
        patch.object(sys, "argv", ["fedaccord", *map(str, words)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
            status = 0
        except SystemExit as end:
            status = int(end.code or 0)
    said = Said(status, out.getvalue(), err.getvalue())
    assert not any(secret in said.out + said.err for secret in SECRETS), "a private value was shown"
    assert "Traceback" not in said.err, "a traceback was shown"
    return said


def good(*words: object) -> Said:
    """The same for a command that must succeed."""
    said = fedaccord(*words)
    assert said.status == 0, (words, said)
    return said


def bad(*words: object) -> str:
    """What a command says that must fail as our errors do: status 1, nothing on standard output, "error: ..."."""
    said = fedaccord(*words)
    assert said.status == 1, (words, said)
    assert said.out == ""
    assert said.err.startswith(("error: ", "warning: ")), said.err
    return said.err


def fingerprint(state: Path) -> str:
    """What the folder's owner reads out over the telephone."""
    cards = good("peer", "list", "--state", state, "--json").document["cards"]
    assert isinstance(cards, list)
    return str(cards[0]["fingerprint"])


def init(folder: Path, name: str, *more: object) -> Path:
    """A new state folder."""
    good("init", folder / name, "--name", name, "--organisation", ORGANISATIONS[name], *more)
    return folder / name


def write_files(folder: Path) -> tuple[Path, Path]:
    """The bank's and the shop's files: 40 common people and 20 more each."""
    common = [(f"PERSON-C{n:02d}", "test" if n < 10 else "train") for n in range(COMMON)]
    bank, shop = ["person,split,income,job,churned"], ["person,split,visits,town"]
    for n, (key, split) in enumerate(common + [(f"PERSON-B{n:02d}", "train") for n in range(ALONE)]):
        job = "sentinel" if n == 50 else ("clerk", "smith")[n % 2]
        bank.append(f"{key},{split},{1000 + 7 * n},{job},{n % 3 % 2}")
    for n, (key, split) in enumerate(common + [(f"PERSON-S{n:02d}", "train") for n in range(ALONE)]):
        town = "sentinel" if n == 50 else ("Aa", "Bb")[n % 2]
        shop.append(f"{key},{split},{n % 11},{town}")
    files = (folder / "bank.csv", folder / "shop.csv")
    for file, lines in zip(files, (bank, shop), strict=True):
        file.write_text("\n".join(lines) + "\n")
    return files


@dataclass
class Clerk:
    """Plays the steward of one party; `look_away` makes it pause."""

    state: State
    site: FakeDatasite
    fails: dict[str, str] = field(default_factory=dict)
    """Kind of task -> the problem that it meets."""
    stopping: threading.Event = field(default_factory=threading.Event)
    at_work: threading.Event = field(default_factory=threading.Event)
    _seen: set[str] = field(default_factory=set)
    _round_lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.at_work.set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def look_away(self) -> None:
        """Takes no task from now on, until `at_work` is set: a round under way is over when this comes back."""
        self.at_work.clear()
        with self._round_lock:
            return

    def end(self) -> None:
        self.stopping.set()
        self.at_work.set()
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        while not self.stopping.is_set():
            self.at_work.wait()
            try:
                with self._round_lock:
                    if self.at_work.is_set():
                        self._round()
            except FedaccordError:  # the supervisor is gone, perhaps within an answer: it stops before we do
                self.stopping.wait(0.05)

    def _round(self) -> None:
        for signed in self.site.submitted():
            if signed not in self._seen:
                self._seen.add(signed)
                answer = call(
                    self.state.folder,
                    {"action": "ingest", "signed": signed, "caller": "ab" * 32, "email": EMAIL},
                )
                if answer["ok"] is not True:
                    self.site.deny(digest_of(signed), denial_reason(answer))
        task = call(self.state.folder, {"action": "next_task", "timeout": 0.05})["task"]
        if isinstance(task, dict):
            problem = self.fails.get(str(task["kind"]), "")
            if not problem:
                self._do(task)
            ask(self.state.folder, "task_done", id=task["id"], ok=not problem, problems=problem)

    def _do(self, task: dict[str, object]) -> None:
        if task["kind"] == "publish":
            store, block = Store(self.state.blocks), str(task["block"])
            self.site.publish(
                Publication(schema=store.describe(block), card=self.state.card(), mock=store.mock(block))
            )
        if task["kind"] == "approve":
            self.site.approve(str(task["digest"]))
        if task["kind"] == "deny":
            self.site.deny(str(task["digest"]), str(task["reason"]))


@dataclass
class Town:
    """Folders of bank, shop and ana, the plan, and what plays syft."""

    folder: Path
    bank: Path
    shop: Path
    ana: Path
    plan: Path
    sites: dict[str, FakeDatasite]
    clerks: dict[str, Clerk]
    down: set[str] = field(default_factory=set)
    """Parties whose syft server can't be reached."""
    offices: dict[str, Office] = field(default_factory=dict)
    """The parties' supervisors, where they are processes of their own."""

    def submit(self, plan: Path | None = None) -> str:
        """A new request's digest, of this plan or of the town's own."""
        words = (plan or self.plan, "--skip-rehearsal", "--json", "-s", self.ana)
        return str(good("request", "submit", *words).document["digest"])

    def approved(self, plan: Path | None = None) -> str:
        """A new request that both owners have approved by command."""
        digest = self.submit(plan)
        for state in (self.bank, self.shop):
            good("review", "approve", digest, "--reason", "fine", "-s", state)
        return digest

    def states(self, digest: str) -> dict[str, str]:
        """What `request status` says of each party."""
        parties = good("request", "status", digest, "--json", "-s", self.ana).document["parties"]
        assert isinstance(parties, dict)
        return {name: str(facts["state"]) for name, facts in parties.items()}


def worker_command(behaviour: str) -> tuple[str, ...]:
    """What runs as a worker: the real one, one that can be held up, or the dummy."""
    if behaviour == REAL:
        return WORKER_COMMAND
    if behaviour == HELD:
        return (sys.executable, "-P", "-m", "tests.parties.running.held_worker")
    return (sys.executable, str(DUMMY), behaviour)


@contextmanager
def running_town(folder: Path, behaviour: str, *, apart: bool = False) -> Iterator[Town]:
    """Everything up to the analyst's logins, by commands; workers behave as the dummy's `behaviour`.

    Supervisors are threads of this process or, `apart`, processes of their own, which a test may kill.
    """
    first = free_ports()
    states = [
        init(folder, "bank", "--link", f"127.0.0.1:{first}-{first + 3}", "--port", 18431),
        init(folder, "shop", "--port", 18432),
        init(folder, "ana", "--analyst"),
    ]
    bank, shop, ana = states
    for here, there in ((bank, shop), (shop, bank)):
        good("peer", "add", there / "card.json", "--fingerprint", fingerprint(there), "-s", here)
    files = write_files(folder)
    columns = ("--key", "person", "--split", "split")
    good("block", "add", files[0], "--name", "customers", "--label", "churned", *columns, "-s", bank)
    good("block", "add", files[1], "--name", "visitors", *columns, "-s", shop)
    plan = folder / "plan.toml"
    plan.write_text(PLAN)
    with ExitStack() as stack:
        stack.callback(os.umask, os.umask(0o077))  # as `serve` does
        stack.enter_context(patch("parties.roles.requesting.FIRST_PAUSE", 0.1))
        stack.enter_context(patch("parties.roles.requesting.APPROVAL_LOOKS", 60))
        town = Town(folder, bank, shop, ana, plan, {}, {})
        for path in (bank, shop):
            _open(town, open_state(path, test_mode=True), worker_command(behaviour), stack, apart=apart)
        stack.enter_context(patch("parties.datasite.connect", lambda url, email, password: _reach(town, url)))
        for state in (bank, shop):
            login = folder / f"{state.name}-login.json"
            card, print_ = ana / "card.json", fingerprint(ana)
            good("user", "add", card, "--fingerprint", print_, "--email", EMAIL, "--out", login, "-s", state)
            good("datasite", "add", login, "-s", ana)
        yield town


def _open(town: Town, state: State, command: Sequence[str], stack: ExitStack, *, apart: bool) -> None:
    if apart:
        office = town.offices[state.name] = Office(state, command)
        stack.callback(office.end)
        office.serve()
    else:
        supervisor = Supervisor(state, options(state, command))
        supervisor.start()
        stack.callback(supervisor.stop)
    site = town.sites[state.name] = FakeDatasite(
        state.name, lambda question: call(state.folder, question, PATIENCE)
    )
    town.clerks[state.name] = Clerk(state, site)
    stack.callback(town.clerks[state.name].end)


def _reach(town: Town, url: str) -> FakeDatasite:
    name = {"18431": "bank", "18432": "shop"}[url.rpartition(":")[2]]
    if name in town.down:
        raise DatasiteError("the datasite can't be reached", remedy="ask its owner whether it runs")
    return town.sites[name]


def words_of(text: str) -> str:
    """The text with its runs of blanks made one, so that columns compare."""
    return re.sub(r"\s+", " ", text)
