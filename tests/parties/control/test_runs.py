"""The ledger: a run is used once, whoever asks, from wherever, and after whatever (AC-17)."""

import multiprocessing
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parties.control.runs import TAKEN_UP, Ledger, RunState
from protocols.errors import NotApprovedError, RequestError, RevokedRun, RunsUsedError, StateError

D = "a" * 64
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def ledger(folder: Path, allowed: int = 1) -> Ledger:
    made = Ledger(folder / "ledger.db")
    made.bind(D, caller="e" * 64, analyst="ana", allowed=allowed, now=NOW)
    made.approve(D, NOW)
    return made


def outcome(path: Path) -> str:
    try:
        return f"run {Ledger(path).reserve(D, NOW).run}"
    except (RunsUsedError, StateError) as error:
        return f"{error.code}: {error}"


def test_two_threads_get_one_run(tmp_path: Path) -> None:
    ledger(tmp_path)
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(outcome(tmp_path / "ledger.db"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == ["run 1", *["runs_used: used 1 of 1"] * 7]


def test_two_processes_get_one_run(tmp_path: Path) -> None:
    ledger(tmp_path)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found = pool.map(outcome, [tmp_path / "ledger.db"] * 4, chunksize=1)
    assert sorted(found) == ["run 1", *["runs_used: used 1 of 1"] * 3]


def test_a_committed_run_stays_used_after_a_restart(tmp_path: Path) -> None:
    first = ledger(tmp_path)
    run = first.reserve(D, NOW).run
    first.commit(D, run, NOW)
    first.finish(D, run, RunState.FAILED, "gate", NOW, committed=False)
    again = Ledger(tmp_path / "ledger.db")
    with pytest.raises(RunsUsedError, match="used 1 of 1"):
        again.reserve(D, NOW)
    assert (again.find(D).used, again.find(D).state, again.find(D).reason) == (1, RunState.FAILED, "gate")


def test_a_run_without_a_message_is_given_back(tmp_path: Path) -> None:
    made = ledger(tmp_path)
    assert made.reserve(D, NOW).run == 1
    made.finish(D, 1, RunState.FAILED, "peer_refused", NOW, committed=False)
    assert made.find(D).used == 0
    again = made.reserve(D, NOW)
    assert (again.run, again.attempt, again.resumed) == (1, 2, False)


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (RunState.INTERRUPTED, "worker_ended"),
        (RunState.FAILED, "peer_lost"),
        (RunState.FAILED, "peer_stopped:interrupted"),
        (RunState.FAILED, "peer_stopped:peer_timeout"),
        (RunState.FAILED, "disk_full"),
        (RunState.FAILED, "peer_stopped:disk_full"),
        (RunState.FAILED, "helper_lost"),
    ],
)
def test_a_run_ended_by_peer_or_process_is_taken_up_again(
    tmp_path: Path, state: RunState, reason: str
) -> None:
    made = ledger(tmp_path)
    made.commit(D, made.reserve(D, NOW).run, NOW)
    made.finish(D, 1, state, reason, NOW, committed=False)
    again = made.reserve(D, NOW)
    assert (again.run, again.attempt, again.resumed) == (1, 2, True)
    assert made.find(D).used == 1


def attempt(made: Ledger, state: RunState, reason: str, *, sends: bool = True) -> None:
    run = made.reserve(D, NOW).run
    if sends:
        made.commit(D, run, NOW)
    made.finish(D, run, state, reason, NOW, committed=False)


@pytest.mark.parametrize(
    ("state", "reason"), [(RunState.INTERRUPTED, "interrupted"), (RunState.FAILED, "peer_lost")]
)
def test_a_run_is_taken_up_again_so_often_and_no_more(tmp_path: Path, state: RunState, reason: str) -> None:
    made = ledger(tmp_path)
    attempt(made, state, reason)
    for _ in range(TAKEN_UP):
        assert made.check_startable(D).used == 1
        attempt(made, state, reason)
    again = Ledger(tmp_path / "ledger.db")  # the count is on the disk
    for ask in (again.check_startable, lambda digest: again.reserve(digest, NOW)):
        with pytest.raises(
            RunsUsedError, match="used 1 of 1, and run 1 was taken up again 10 times"
        ) as raised:
            ask(D)
        assert raised.value.remedy == "ask with a new request"
    assert (again.find(D).state, again.find(D).used) == (state, 1)


def test_an_attempt_that_sent_nothing_is_not_counted(tmp_path: Path) -> None:
    made = ledger(tmp_path)
    for _ in range(2 * TAKEN_UP):
        attempt(made, RunState.FAILED, "peer_refused", sends=False)
    attempt(made, RunState.INTERRUPTED, "interrupted")
    for _ in range(2 * TAKEN_UP):
        attempt(made, RunState.INTERRUPTED, "interrupted", sends=False)
    assert made.reserve(D, NOW).resumed


def test_a_run_taken_up_too_often_does_not_block_the_next_one(tmp_path: Path) -> None:
    made = ledger(tmp_path, allowed=2)
    for _ in range(1 + TAKEN_UP):
        attempt(made, RunState.INTERRUPTED, "interrupted")
    made.check_startable(D)
    next_run = made.reserve(D, NOW)
    assert (next_run.run, next_run.resumed) == (2, False)


@pytest.mark.parametrize("state", [RunState.DONE, RunState.CANCELLED])
def test_a_finished_or_cancelled_run_is_not(tmp_path: Path, state: RunState) -> None:
    made = ledger(tmp_path, allowed=2)
    made.commit(D, made.reserve(D, NOW).run, NOW)
    made.finish(D, 1, state, "", NOW, committed=True)
    assert made.reserve(D, NOW).run == 2


def test_one_run_at_a_time(tmp_path: Path) -> None:
    made = ledger(tmp_path, allowed=2)
    made.reserve(D, NOW)
    with pytest.raises(StateError, match="is running"):
        made.reserve(D, NOW)


def test_only_an_approved_request_starts(tmp_path: Path) -> None:
    made = Ledger(tmp_path / "ledger.db")
    with pytest.raises(RequestError, match="not known"):
        made.reserve(D, NOW)
    made.bind(D, caller="e" * 64, analyst="ana", allowed=1, now=NOW)
    with pytest.raises(NotApprovedError):
        made.reserve(D, NOW)
    made.note(D, "denied by olga", NOW)
    assert (made.find(D).state, made.find(D).reason) == (RunState.PENDING, "denied by olga")
    made.approve(D, NOW)
    with pytest.raises(StateError):
        made.approve(D, NOW)
    made.revoke(D, "revoked by olga", NOW)
    with pytest.raises(RevokedRun, match="revoked by olga"):
        made.reserve(D, NOW)


def test_revocation_outlasts_the_end_of_the_run(tmp_path: Path) -> None:
    made = ledger(tmp_path)
    made.reserve(D, NOW)
    assert made.revoke(D, "revoked by olga", NOW)
    made.finish(D, 1, RunState.DONE, "", NOW, committed=True)
    row = made.find(D)
    assert (row.state, row.reason) == (RunState.REVOKED, "revoked by olga")


def test_a_digest_belongs_to_its_first_caller(tmp_path: Path) -> None:
    made = ledger(tmp_path)
    assert made.bind(D, caller="e" * 64, analyst="ana", allowed=1, now=NOW) is False
    with pytest.raises(RequestError, match="another caller"):
        made.bind(D, caller="f" * 64, analyst="bob", allowed=9, now=NOW)
    assert made.find(D).allowed == 1


def test_only_ends_end_a_run_and_only_a_running_one_commits(tmp_path: Path) -> None:
    made = ledger(tmp_path)
    run = made.reserve(D, NOW).run
    with pytest.raises(StateError, match="not an end"):
        made.finish(D, run, RunState.RUNNING, "", NOW, committed=True)
    assert made.running() == ((D, 1),)
    made.finish(D, run, RunState.CANCELLED, "", NOW, committed=False)
    with pytest.raises(StateError, match="not running"):
        made.commit(D, run, NOW)
    assert made.running() == ()
