"""Two served datasites and an analyst who is logged in to both: real processes, real TLS, real syft servers.

Starting them takes seconds and a request takes one, so all tests of this folder share one lab and ask for their own
requests. Everything goes through the functions behind the commands.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import psutil

from parties.blocks.block import BlockSpec
from parties.blocks.store import Store
from parties.control.asking import ask
from parties.demo.sites import served, wait_for, wait_until_ready
from parties.home.cards import card_fingerprint
from parties.home.private_files import read_json
from parties.home.state import State, init_analyst, init_party
from parties.roles import analyst
from parties.roles.owner import add_block, add_peer, add_user
from parties.roles.plan import Offer, Plan, PlanParty
from parties.roles.reviewing import record
from parties.running.runspec import ARTIFACTS_FILE
from parties.syft_side.access import Datasite, Standing
from parties.syft_side.launcher import ready_path
from protocols.approval import Decision
from protocols.approval import to_text as approvals_text
from protocols.audit import AuditEvent, AuditLog, Entry
from protocols.program import Outcome
from protocols.request import ComputationRequest
from protocols.request import digest as request_digest
from protocols.wire import unpack_arrays
from tests.full_path import people
from tests.ports import free_ports, free_range
from tests.waiting import PATIENCE
from tests.waiting import until as until_often

ROOT = Path(__file__).resolve().parents[2]

BANK, RETAILER = "bank", "retailer"
PARTIES = (BANK, RETAILER)
ROLES = {BANK: "active", RETAILER: "passive"}
BLOCK, SPARE = "customers", "spare"
EMAIL = "ana@lab.example.org"
SEED = 3
"""Both parties' private seeds are injected from it, so that a twin in one process can be compared."""
POLL = 0.15
"""Seconds between two looks: each is a transaction of the ledger that is looked at."""
until = partial(until_often, pause=POLL)
ENDS = frozenset({"DONE", "FAILED", "INTERRUPTED", "CANCELLED", "REVOKED"})
SHORT: Mapping[str, str | int | float | bool] = {
    "d": 4,
    "steps": 10,
    "memory_every": 5,
    "memory_pool": 16,
    "evaluation_batch": 64,
    "max_common": people.ALIGNED + people.TEST,
    "max_aligned_train": people.ALIGNED,
    "max_aligned_test": people.TEST,
    "max_passive_only": people.ALONE,
    "pseudo_from": 3,
    "pseudo_ramp": 2,
    "candidates": "given",
    "folds": 2,
    "linear_views": 4,
    "baselines": False,
}
LONG = {**SHORT, "folds": 0, "steps": 400, "checkpoint_every": 20}
"""Long enough to be caught in the middle, short enough to be waited for."""
SEARCHED = {**LONG, "folds": 2, "early_stopping": True, "baselines": True, "baseline_steps": 20}
"""The same with a search before it, in two trainings, and with experts that are trained while the retailer waits."""
ENDLESS = {**SHORT, "folds": 0, "steps": 20_000, "checkpoint_every": 50}
"""Ended by the test in any case."""


@dataclass
class Lab:
    """The parties' states by name, the analyst's state, and the analyst's logged-in datasites by party."""

    folder: Path
    customers: people.Customers
    files: dict[str, Path]
    states: dict[str, State]
    ana: State
    sites: dict[str, Datasite] = field(default_factory=dict)
    offers: dict[str, Offer] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    pids: set[int] = field(default_factory=set)
    """Every process that was ever seen below the served ones."""
    strays: set[str] = field(default_factory=set)
    """Files in the system's temporary folder, outside this lab, that one of them was seen to hold open."""
    _stacks: dict[str, ExitStack] = field(default_factory=dict)

    def serve(self, *names: str) -> None:
        """Serves these parties and waits until they answer."""
        for name in names:
            ready_path(self.states[name]).unlink(missing_ok=True)
            stack = self._stacks[name] = ExitStack()
            self.processes[name] = stack.enter_context(served(self.states[name], injected_seed=SEED))
        wait_until_ready({name: self.processes[name] for name in names}, self.states_of(names))
        self.census()

    def stop(self, *names: str) -> None:
        """Ends these parties in order, as Ctrl-C does."""
        self.census()
        for name in names:
            self._stacks.pop(name, ExitStack()).close()

    def kill(self, name: str) -> None:
        """Kills the party's supervisor; returns when all that it had started has gone too."""
        below = self.census(name)
        os.kill(self.processes[name].pid, signal.SIGKILL)
        self.stop(name)
        gone(below)

    def census(self, *names: str) -> list[int]:
        """All processes of these parties (by default of all), noted for the final count."""
        found = []
        for name in names or self.processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(self.processes[name].pid)
                found += [process, *process.children(recursive=True)]
        for process in found:
            with contextlib.suppress(psutil.Error):
                opened = [Path(file.path) for file in process.open_files()]
                self.strays.update(str(path) for path in opened if self._is_stray(path))
        self.pids.update(process.pid for process in found)
        return [process.pid for process in found]

    def _is_stray(self, path: Path) -> bool:
        temporary = any(path.is_relative_to(place) for place in ("/tmp", "/var/tmp"))
        ours = (self.folder, Path(sys.prefix), ROOT)  # a checkout and its environment may lie in /tmp, too
        return temporary and not any(path.is_relative_to(place) for place in ours)

    def states_of(self, names: tuple[str, ...]) -> dict[str, State]:
        return {name: self.states[name] for name in names}

    def log_in(self) -> dict[str, Datasite]:
        """A new session of the analyst at both datasites."""
        return analyst.connect_all(self.ana)

    def draft(
        self,
        parameters: Mapping[str, str | int | float | bool] = SHORT,
        *,
        runs: int = 1,
        block: str = BLOCK,
        **changes: object,
    ) -> ComputationRequest:
        """A request of the analyst, not yet submitted; `changes` to its fields are made before it is signed."""
        plan = Plan(
            purpose="churn",
            purpose_text="Which customers are about to leave: a joint model, for a test of the whole path.",
            computation="vertical.fedcvt.train",
            parties=(
                PlanParty(name=BANK, role="active", block=block),
                PlanParty(name=RETAILER, role="passive", block=BLOCK),
            ),
            parameters=parameters,
            minimum_overlap=20,
            public_seed=7,
            runs=runs,
        )
        return replace(analyst.draft(self.ana, plan, self.offers), **changes)  # type: ignore[arg-type]

    def submit(self, request: ComputationRequest) -> None:
        """Submits the request to both parties and waits until their supervisors know it."""
        analyst.submit(self.ana, analyst.sign(request, self.ana.signing_key()), self.sites)
        for name in PARTIES:
            until(partial(self.knows, name, request), bool)

    def knows(self, name: str, request: ComputationRequest) -> bool:
        """Whether the party's supervisor has taken the request in."""
        listed = ask(self.states[name].folder, "requests")["requests"]
        assert isinstance(listed, list)
        return any(row["digest"] == request_digest(request) for row in listed)

    def decide(
        self, name: str, request: ComputationRequest, decision: Decision, reason: str = "a test"
    ) -> None:
        """The decision of the party's owner."""
        digest = request_digest(request)
        record(self.states[name], digest, person="owner", decision=decision, reason=reason, passphrase=None)

    def approve(self, request: ComputationRequest, *names: str) -> None:
        """The owners approve; returns when their syft servers know it too."""
        for name in names or PARTIES:
            self.decide(name, request, Decision.APPROVE)
        self.known_in_syft(request, *names)

    def known_in_syft(self, request: ComputationRequest, *names: str) -> None:
        """Returns when the syft servers know that these parties have approved."""
        for name in names or PARTIES:
            until(
                partial(self.sites[name].decision, request_digest(request)),
                lambda decision: decision.standing is Standing.APPROVED,
            )

    def approved(
        self,
        parameters: Mapping[str, str | int | float | bool] = SHORT,
        *,
        runs: int = 1,
        **changes: object,
    ) -> ComputationRequest:
        """A new request that both parties have approved."""
        request = self.draft(parameters, runs=runs, **changes)
        self.submit(request)
        self.approve(request)
        return request

    def approvals(self, request: ComputationRequest) -> str:
        """All parties' approvals of the request as the analyst carries them."""
        return approvals_text(analyst.approvals(request, analyst.statuses(request, self.sites)))

    def start(self, request: ComputationRequest) -> None:
        """The analyst starts the run at both parties."""
        analyst.start(request, self.sites)
        self.census()

    def view(self, name: str, request: ComputationRequest) -> dict[str, object]:
        """How the request stands at a party, as its owner sees it."""
        return ask(self.states[name].folder, "status", digest=request_digest(request))

    def at_step(
        self, request: ComputationRequest, step: int, *names: str, phases: tuple[str, ...] = ("fedcvt",)
    ) -> None:
        """Returns when the training has come so far at these parties (by default at both), in one of these phases."""

        def reached(view: Mapping[str, object]) -> bool:
            return str(view.get("phase")).startswith(phases) and int(str(view["step"])) >= step

        for name in names or PARTIES:
            view = until(
                partial(self.view, name, request), lambda view: reached(view) or view["state"] in ENDS
            )
            assert reached(view), (name, view)
        self.census()

    def ended(self, name: str, request: ComputationRequest) -> dict[str, object]:
        """The view of the request once its run has ended at the party."""
        return until(partial(self.view, name, request), lambda view: view["state"] in ENDS)

    def done(self, request: ComputationRequest) -> None:
        """Returns when the run is DONE at both parties."""
        for name in PARTIES:
            view = self.ended(name, request)
            assert view["state"] == "DONE", (name, view, self.worker_log(name, request))

    def run_folder(self, name: str, request: ComputationRequest, run: int = 1) -> Path:
        return self.states[name].runs / f"{request_digest(request)}-{run}"

    def worker_log(self, name: str, request: ComputationRequest, run: int = 1) -> str:
        return (self.run_folder(name, request, run) / "worker.log").read_text(errors="replace")[-2000:]

    def worker(self, name: str, request: ComputationRequest) -> int:
        """Process id of the living worker of the request."""
        return int((self.run_folder(name, request) / "pid").read_text())

    def model(self, name: str, request: ComputationRequest, run: int = 1) -> dict[str, object]:
        """The party's part of the model."""
        return dict(unpack_arrays((self.run_folder(name, request, run) / ARTIFACTS_FILE).read_bytes()))

    def check_model(self, name: str, request: ComputationRequest, twin: Mapping[str, Outcome]) -> None:
        """AssertionError unless the party's part of the model is, bit for bit, that of its twin in one process."""
        expected, found = twin[ROLES[name]].artifacts, self.model(name, request)
        assert found.keys() == expected.keys()
        for part, values in expected.items():
            kept = np.asarray(found[part])
            assert (kept.dtype, kept.shape) == (values.dtype, values.shape), (name, part)
            assert kept.tobytes() == np.ascontiguousarray(values).tobytes(), (name, part)

    def refusals(self, name: str, request: ComputationRequest) -> list[str]:
        """The codes of all refused starts of the request in the party's log."""
        return [
            str(dict(entry.detail)["code"])
            for entry in self.log_of(name, request)
            if entry.event is AuditEvent.START_REFUSED
        ]

    def opens(self, name: str, block: str = BLOCK) -> int:
        """How often the party's block was opened, ever."""
        return Store(self.states[name].blocks).opens(block)

    def log(self, name: str) -> list[Entry]:
        """The entries of the party's audit log, the chain checked."""
        return list(AuditLog(self.states[name].audit_path, name).entries())

    def log_of(self, name: str, request: ComputationRequest) -> list[Entry]:
        """The entries that are about this request."""
        target = f"request {request_digest(request)}"
        return [entry for entry in self.log(name) if entry.object == target]

    def events(self, name: str, request: ComputationRequest) -> list[str]:
        return [entry.event.value for entry in self.log_of(name, request)]

    def syft_pid(self, name: str) -> int:
        return int(str(read_json(ready_path(self.states[name]))["pid"]))

    def close(self) -> None:
        """Ends everything; again is fine."""
        self.stop(*self._stacks)


def lives(pid: int) -> bool:
    """Whether there is such a process; one that ended and that nobody has waited for yet doesn't count."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def gone(pids: Iterable[int]) -> None:
    """Returns when none of these processes lives any more; AssertionError with those that do."""
    until(lambda: [pid for pid in pids if lives(pid)], lambda left: not left)


def specs() -> dict[str, BlockSpec]:
    """How each party's file is read."""
    return {
        BANK: BlockSpec(name=BLOCK, subject_key=people.KEY, label=people.LABEL, split=people.SPLIT),
        RETAILER: BlockSpec(name=BLOCK, subject_key=people.KEY, split=people.SPLIT),
    }


def prepare(folder: Path) -> Lab:
    """Files, state folders, exchanged cards and blocks; nothing runs yet."""
    customers = people.customers()
    headers = {BANK: people.BANK_HEADER, RETAILER: people.RETAILER_HEADER}
    files = {
        name: people.write_csv(folder / f"{name}.csv", headers[name], customers.rows[name])
        for name in PARTIES
    }
    port = free_ports(2)
    states = {
        BANK: init_party(
            folder / BANK, name=BANK, organisation="Example Bank", address=free_range(4), port=port
        ),
        RETAILER: init_party(
            folder / RETAILER, name=RETAILER, organisation="Example Retailer", port=port + 1
        ),
    }
    for here, there in (PARTIES, reversed(PARTIES)):
        add_peer(states[here], states[there].folder / "card.json", card_fingerprint(states[there].card()))
    for name, spec in specs().items():
        add_block(states[name], files[name], spec)
    add_block(states[BANK], files[BANK], replace(specs()[BANK], name=SPARE))
    ana = init_analyst(folder / "ana", name="ana", organisation="Example Lab")
    return Lab(folder=folder, customers=customers, files=files, states=states, ana=ana)


@contextmanager
def running_lab(folder: Path) -> Iterator[Lab]:
    """A lab whose parties are served and whose analyst is logged in; no process is left behind."""
    lab = prepare(folder)
    try:
        lab.serve(*PARTIES)
        card, fingerprint = lab.ana.folder / "card.json", card_fingerprint(lab.ana.card())
        for name in PARTIES:
            login = folder / f"{name}-login.json"
            add_user(lab.states[name], card, fingerprint, EMAIL, login)
            analyst.add_login(lab.ana, login)

        def logged_in() -> bool:
            lab.sites = lab.log_in()
            lab.offers = analyst.read_offers(lab.sites)
            return set(lab.offers[BANK].blocks) == {BLOCK, SPARE}

        wait_for("the accounts and the published blocks", logged_in, PATIENCE)
        yield lab
    finally:
        lab.close()
