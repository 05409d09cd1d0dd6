"""Progress as plain lines: readable on a terminal and in a pipe, one line only when there is news worth a line."""

import time
from collections.abc import Callable, Mapping

from parties.running.time_left import TimeLeft
from protocols.program import Observe, Progress

SECONDS_BETWEEN = 2.0
"""Of one phase at one party, at most one line in this time (its last step always gets one)."""


def print_line(line: str) -> None:
    """Prints it at once, also into a pipe."""
    print(line, flush=True)


class ProgressLines:
    """Prints what has changed since the last line of each party."""

    def __init__(
        self,
        write: Callable[[str], None] = print_line,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write = write
        self._now = now
        self._shown: dict[str, tuple[str, str]] = {}  # party -> state and phase of its last line
        self._line: dict[str, str] = {}
        self._when: dict[str, float] = {}

    def show(self, party: str, state: str, facts: Mapping[str, object]) -> None:
        """One line for the party, unless it would say nothing new or comes too soon after its last one."""
        line = f"{party:<10} {state:<9} {progress_text(facts)}".rstrip()
        key = (state, str(facts.get("phase", "")))
        moved = key != self._shown.get(party) or facts.get("step") == facts.get("of")
        due = self._now() - self._when.get(party, float("-inf")) >= SECONDS_BETWEEN
        if line == self._line.get(party) or not (moved or due):
            return
        self._shown[party], self._line[party], self._when[party] = key, line, self._now()
        self._write(line)


def progress_text(facts: Mapping[str, object]) -> str:
    """Phase, step, loss and time left, as far as they are known."""
    parts = [str(facts["phase"])] if facts.get("phase") else []
    if facts.get("of"):
        parts.append(f"{facts.get('step')}/{facts['of']}")
    loss, eta = facts.get("loss"), facts.get("eta")
    if isinstance(loss, int | float):
        parts.append(f"loss {loss:.4f}")
    if isinstance(eta, int | float) and eta > 0:
        parts.append(f"{eta:.0f} s left")
    if facts.get("note"):
        parts.append(str(facts["note"]))
    return "  ".join(parts)


def printed_progress(
    who: str, write: Callable[[str], None] = print_line, clock: Callable[[], float] = time.monotonic
) -> Observe:
    """An `Observe` that writes lines for a run in this process, with the time left in the phase."""
    lines, left = ProgressLines(write, clock), TimeLeft(clock)

    def observe(progress: Progress) -> None:
        facts = {name: getattr(progress, name) for name in ("phase", "step", "of", "loss", "note")}
        lines.show(who, "", facts | {"eta": left.after(progress)})

    return observe
