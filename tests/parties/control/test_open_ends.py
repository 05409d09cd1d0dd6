"""A supervisor that is killed while it writes how a run ended, or begins an attempt: each attempt has one end."""

import fcntl
from pathlib import Path

import pytest

from parties.control.endings import PEER_REVOKED
from parties.control.models import Models
from parties.control.open_ends import EVENTS, OpenEnds
from parties.control.runner import Runner
from parties.control.runs import Ledger, RunState
from parties.control.workers import LOCK_FILE, prepare_folder, run_folder
from parties.home.journal import Actor, Journal
from parties.home.policy_watch import WatchedPolicy
from parties.running.runspec import RESULT_FILE, RunSpec, Snapshot, State, save_snapshot
from protocols.approval import Decision
from protocols.audit import verify
from protocols.request import digest
from tests.parties.control.offices import CODE, COMMITMENT, Offices, copied, make_offices
from tests.parties.control.test_crashes import killed_in, no_room
from tests.parties.control.test_desk import Desk

DELETES = "parties.control.settling.delete_passing"
WRITES = "protocols.audit.write_entry"
FORGETS = "parties.control.open_ends.OpenEnds.forget"
SPAWNS = "parties.control.runner.Workers.spawn"
OWNER = Actor(who="owner", role="owner", organisation="Example Bank", origin="socket")

SILENT = Snapshot(seq=3, state=State.RUNNING, bytes_sent=40)
UNLOGGED = Snapshot(seq=3, state=State.FAILED, reason="audit", bytes_sent=40, logged=False)
CANCELLED = Snapshot(seq=3, state=State.CANCELLED, reason="cancelled", bytes_sent=40, logged=False)
WITHDRAWN = Snapshot(seq=3, state=State.FAILED, reason=PEER_REVOKED, step=7, bytes_sent=40, logged=False)
DONE = Snapshot(seq=3, state=State.DONE, bytes_sent=40)
INTERRUPTED = Snapshot(seq=3, state=State.INTERRUPTED, reason="interrupted", bytes_sent=40)
REFUSED = Snapshot(seq=3, state=State.FAILED, reason="peer_refused")

NOT_READ = ("request", "approvals", "role", "state", "store", "audit", "link_key", "link_certificate")
"""What a worker is told that no supervisor reads again."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Offices:
    return make_offices(tmp_path_factory.mktemp("offices"))


class Run:
    """The first run of an approved request, whose worker is gone; `word` is its last one."""

    def __init__(self, offices: Offices, word: Snapshot) -> None:
        desk = Desk(offices)
        self.offices, self.ledger, self.journal = offices, desk.ledger, desk.journal
        self.request = desk.submitted()
        desk.decide(self.request, Decision.APPROVE)
        self.digest = digest(self.request)
        self.folder = run_folder(offices.bank.runs, self.digest, 1)
        self.ledger.reserve(self.digest, offices.clock())
        if word.bytes_sent:
            self.ledger.commit(self.digest, 1, offices.clock())
        spec = RunSpec(digest=self.digest, run=1, attempt=1, **dict.fromkeys(NOT_READ, ""))
        prepare_folder(self.folder, spec, resumed=False)
        for name in ("checkpoints", "temporary"):
            (self.folder / name).mkdir()
        if word.state is State.DONE:
            (self.folder / RESULT_FILE).write_text("{}")
        save_snapshot(self.folder, word)

    def runner(self) -> Runner:
        """That of a supervisor that has just been made."""
        state, journal = self.offices.bank, Journal(self.offices.bank, self.offices.clock)
        ledger = Ledger(state.ledger_path)
        return Runner(
            state,
            ledger=ledger,
            journal=journal,
            policy=WatchedPolicy(state, journal),
            current_block=lambda name: (1, COMMITMENT),
            code_digest=lambda: CODE,
            now=self.offices.clock,
            models=Models(state, ledger, lambda request: "", lambda *models: None, lambda request: False),
        )

    def settle(self) -> None:
        self.runner().settle_if_gone(self.digest, 1)

    def restart(self) -> None:
        runner = self.runner()
        runner.reconcile()
        runner.stopping.set()

    def start(self) -> None:
        self.runner().start(self.digest, self.offices.shop_approval(self.request), OWNER)

    def state(self) -> RunState:
        return self.ledger.find(self.digest).state

    def ends(self) -> list[dict[str, object]]:
        """The entries of its ends, with their events."""
        verify(self.offices.bank.audit_path)
        told = set(EVENTS.values())
        return [
            {"event": entry.event, **dict(entry.detail)}
            for entry in self.journal.log.entries()
            if entry.event in told
        ]

    def left(self) -> list[str]:
        return [name for name in ("checkpoints", "temporary") if (self.folder / name).exists()]

    def is_open(self) -> bool:
        return bool(OpenEnds(self.offices.bank.ledger_path).all())


@pytest.mark.parametrize(
    ("word", "state", "left"),
    [
        (SILENT, RunState.INTERRUPTED, ["checkpoints"]),
        (UNLOGGED, RunState.FAILED, ["checkpoints"]),
        (CANCELLED, RunState.CANCELLED, []),
        (WITHDRAWN, RunState.FAILED, ["checkpoints"]),
    ],
)
@pytest.mark.parametrize("place", [DELETES, WRITES, FORGETS])
def test_an_end_that_the_ledger_has_is_carried_out_and_told_once(
    template: Offices, tmp_path: Path, place: str, word: Snapshot, state: RunState, left: list[str]
) -> None:
    run = Run(copied(template, tmp_path), word)
    killed_in(place, run.settle)
    assert run.state() is state, "the ledger had it before the crash"
    for _ in range(2):
        run.restart()
        (end,) = run.ends()
        assert (end["event"], end["run"], end["attempt"]) == (EVENTS[state], 1, 1)
        assert ("happened" in end) is (place != FORGETS), "it says so when it comes late"
        assert (run.state(), run.left(), run.is_open()) == (state, left, False)
        assert (run.folder / "withdrawn.json").exists() is (word is WITHDRAWN)


def test_what_its_worker_logged_is_not_told_again_and_what_passes_goes(
    template: Offices, tmp_path: Path
) -> None:
    run = Run(copied(template, tmp_path), DONE)
    killed_in(DELETES, run.settle)
    assert run.left()
    run.restart()
    assert (run.state(), run.left(), run.ends(), run.is_open()) == (RunState.DONE, [], [], False)
    assert (run.folder / RESULT_FILE).exists()


def test_an_end_that_waited_for_room_in_the_log_outlasts_its_supervisor(
    template: Offices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(copied(template, tmp_path), SILENT)
    with monkeypatch.context() as patch:
        patch.setattr(WRITES, no_room)
        run.settle()
    assert run.ends() == []
    run.restart()
    assert [end["reason"] for end in run.ends()] == ["worker_ended"]


def test_a_start_that_broke_has_its_end_though_the_supervisor_was_killed_then(
    template: Offices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*given: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    run = Run(copied(template, tmp_path), INTERRUPTED)
    run.settle()
    with monkeypatch.context() as patch:
        patch.setattr(SPAWNS, none_left)
        killed_in("parties.home.journal.Journal.owe", run.start)
    run.restart()
    assert [(end["attempt"], end["state"]) for end in run.ends()] == [(2, "INTERRUPTED")]


@pytest.mark.parametrize("before", [INTERRUPTED, REFUSED])
@pytest.mark.parametrize(
    "place",
    [
        WRITES,
        "parties.control.alignments.Alignments.standing",
        "parties.control.runner.prepare_folder",
        "parties.control.workers.save_spec",
        SPAWNS,
    ],
)
def test_the_end_of_an_attempt_cut_short_is_its_own_and_not_the_last_ones(
    template: Offices, tmp_path: Path, place: str, before: Snapshot
) -> None:
    run = Run(copied(template, tmp_path), before)
    run.settle()
    used = run.ledger.find(run.digest).used
    assert run.ends() == [], "its worker had logged it"
    killed_in(place, run.start)
    assert run.state() is RunState.RUNNING
    for _ in range(2):
        run.restart()
        assert [(end["attempt"], end["reason"]) for end in run.ends()] == [(2, "worker_ended")]
        assert (run.state(), run.ledger.find(run.digest).used) == (RunState.INTERRUPTED, used)
    assert run.ledger.reserve(run.digest, run.offices.clock()).attempt == 3


def test_what_is_left_of_an_end_does_not_touch_the_next_attempt(
    template: Offices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*given: object) -> None:
        raise PermissionError("not ours any more")

    run = Run(copied(template, tmp_path), SILENT)
    with monkeypatch.context() as patch:
        patch.setattr(DELETES, refused)
        run.settle()
    assert run.is_open()
    run.ledger.reserve(run.digest, run.offices.clock())
    with (run.folder / LOCK_FILE).open("r+") as lock:  # as its worker would
        fcntl.flock(lock, fcntl.LOCK_EX)
        run.restart()
        assert run.left() == ["checkpoints", "temporary"]
    assert (len(run.ends()), run.is_open()) == (1, False)
