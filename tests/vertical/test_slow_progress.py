"""A fit that takes long says so now and then, and a quick one says nothing."""

from collections.abc import Iterator

import pytest

from protocols.program import Progress
from vertical.slow_progress import SECONDS, slow_progress


def test_a_line_comes_after_ten_seconds_and_then_at_most_every_ten() -> None:
    times: Iterator[float] = iter([0.0, 9.9, 10.0, 10.0, 19.9, 20.0, 20.0])
    lines: list[str] = []
    observe = slow_progress("FedCVT", write=lines.append, now=lambda: next(times))
    assert SECONDS == 10.0
    for step in range(4):
        observe(Progress(phase="fedcvt", step=step, of=200))
    assert lines == ["FedCVT: fedcvt 1/200", "FedCVT: fedcvt 3/200"]


def test_it_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([0.0, 30.0, 30.0])
    slow_progress("FedCVT", now=lambda: next(times))(Progress(phase="align", step=2, of=10))
    assert capsys.readouterr() == ("", "FedCVT: align 2/10\n")
