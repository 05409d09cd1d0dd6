"""The progress file of a run, at a clock that the test moves."""

import json
import math
from pathlib import Path

import pytest

from parties.running.progress import ProgressFile
from parties.running.runspec import PROGRESS_FILE, State, begin_again, read_snapshot
from parties.running.traffic import Traffic
from protocols.program import Progress


class Clock:
    """Seconds that pass when the test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_news_are_written_at_most_five_times_a_second_but_a_phase_and_an_end_at_once(tmp_path: Path) -> None:
    clock = Clock()
    file = ProgressFile(tmp_path, Traffic(()), clock=clock)
    seen = []
    for step, at in ((1, 1.0), (2, 1.1), (3, 1.4), (4, 1.5), (5, 1.51)):
        clock.now = at
        file.observe(Progress("train", step, 5, 0.5))
        snapshot = read_snapshot(tmp_path)
        assert snapshot is not None
        seen.append((snapshot.step, snapshot.eta))
    # Steps 2 and 4 come too soon; 0.4 s for 2 steps leave 0.4 s for the last 2; step 5 is the last.
    assert seen == [(1, None), (1, None), (3, 0.4), (3, 0.4), (5, 0.0)]


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_is_left_out(tmp_path: Path, loss: float) -> None:
    file = ProgressFile(tmp_path, Traffic(()))
    file.observe(Progress("train", 1, 2, loss))
    text = (tmp_path / PROGRESS_FILE).read_text()
    assert json.loads(text, parse_constant=pytest.fail)["loss"] is None


def test_the_number_of_news_goes_on_over_an_interruption(tmp_path: Path) -> None:
    first = ProgressFile(tmp_path, Traffic(()))
    first.end(State.INTERRUPTED, "interrupted", "", logged=True)
    before = read_snapshot(tmp_path)
    assert before is not None
    ProgressFile(tmp_path, Traffic(()))
    after = read_snapshot(tmp_path)
    assert after is not None
    assert (after.seq, after.state) == (before.seq + 1, State.RUNNING)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"7", b"null", b"{}", b"\xff\xfe", b"[" * 100_000,
        b'{"seq": 1, "state": "ASLEEP"}', b'{"seq": 1, "state": []}', b'{"seq": "1", "state": "DONE"}',
        b'{"seq": 1, "state": "DONE", "more": 2}', b'{"seq": 1, "state": "DONE", "bytes_sent": "x"}',
        b'{"seq": 1, "state": "DONE", "reason": 3}',
        b'{"seq": 1, "state": "DONE", "logged": 1}', b'{"seq": true, "state": "DONE"}',
    ],
)  # fmt: skip
def test_a_damaged_progress_file_is_no_word(tmp_path: Path, content: bytes) -> None:
    (tmp_path / PROGRESS_FILE).write_bytes(content)
    assert read_snapshot(tmp_path) is None
    ProgressFile(tmp_path, Traffic(())).end(State.DONE, "", "", logged=False)
    after = read_snapshot(tmp_path)
    assert after is not None
    assert (after.state, after.logged) == (State.DONE, False)


def test_the_last_word_of_an_attempt_is_not_the_next_ones(tmp_path: Path) -> None:
    begin_again(tmp_path)
    assert read_snapshot(tmp_path) is None
    ProgressFile(tmp_path, Traffic(())).end(State.FAILED, "peer_lost", "shop closed the link", logged=True)
    ended = read_snapshot(tmp_path)
    begin_again(tmp_path)
    again = read_snapshot(tmp_path)
    assert ended is not None
    assert again is not None
    assert (again.state, again.reason, again.note) == (State.RUNNING, "", "")
    assert again.seq > ended.seq


def test_a_progress_file_that_is_a_folder_is_no_word(tmp_path: Path) -> None:
    (tmp_path / PROGRESS_FILE).mkdir()
    assert read_snapshot(tmp_path) is None
