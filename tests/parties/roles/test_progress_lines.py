"""Progress as lines: one for each piece of news, at a clock that the test moves."""

import pytest

from parties.roles.progress_lines import SECONDS_BETWEEN, ProgressLines, printed_progress, progress_text
from protocols.program import Progress


def test_a_line_comes_for_a_new_phase_a_last_step_or_after_a_while() -> None:
    written: list[str] = []
    now = [0.0]
    lines = ProgressLines(written.append, lambda: now[0])

    def show(seconds: float, **facts: object) -> int:
        now[0] += seconds
        before = len(written)
        lines.show("bank", "RUNNING", facts)
        return len(written) - before

    assert show(0, phase="align", step=0, of=1) == 1
    assert show(0.1, phase="train", step=1, of=100) == 1
    assert show(0.1, phase="train", step=2, of=100) == 0
    assert show(SECONDS_BETWEEN, phase="train", step=3, of=100) == 1
    assert show(SECONDS_BETWEEN, phase="train", step=3, of=100) == 0, "nothing new"
    assert show(0.1, phase="train", step=100, of=100) == 1


def test_each_party_has_lines_of_its_own() -> None:
    written: list[str] = []
    lines = ProgressLines(written.append, lambda: 0.0)
    for party in ("bank", "shop"):
        lines.show(party, "DONE", {})
    assert [line.split() for line in written] == [["bank", "DONE"], ["shop", "DONE"]]


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({}, ""),
        ({"phase": "train", "step": 3, "of": 10}, "train  3/10"),
        (
            {"phase": "train", "step": 3, "of": 10, "loss": 0.5, "eta": 7.4},
            "train  3/10  loss 0.5000  7 s left",
        ),
        ({"phase": "train", "step": 0, "of": 0, "loss": None, "eta": 0.0, "note": "x"}, "train  x"),
    ],
)
def test_what_is_not_known_is_not_shown(facts: dict[str, object], text: str) -> None:
    assert progress_text(facts) == text


def test_a_run_in_this_process_writes_where_it_is_told_to(capsys: pytest.CaptureFixture[str]) -> None:
    written: list[str] = []
    observe = printed_progress("simulate", written.append)
    observe(Progress("train", 1, 2, 0.25))
    observe(Progress("train", 2, 2, 0.25))
    assert len(written) == 2
    assert "2/2  loss 0.2500" in written[-1]
    assert capsys.readouterr().out == ""
    printed_progress("demo")(Progress("train", 1, 1, None))
    assert "demo" in capsys.readouterr().out


def test_the_time_left_does_not_multiply_a_slow_beginning() -> None:
    """The first step waits 8 s for imports, every other one takes 0.1 s: 300 of them aren't 2,400 s."""
    written: list[str] = []
    now = [0.0]
    observe = printed_progress("rehearsal", written.append, lambda: now[0])
    observe(Progress("train", 0, 300))
    now[0] += 8.0
    observe(Progress("train", 1, 300))
    assert not any("left" in line for line in written)
    now[0] += 3.0
    observe(Progress("train", 31, 300))
    assert written[-1].endswith("31/300  27 s left")
    now[0] += 1.0
    observe(Progress("vote", 1, 50))
    assert "left" not in written[-1], "another phase has steps of its own"
