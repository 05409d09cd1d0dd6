"""Writes `progress.json` while a run goes on: often enough to follow, seldom enough not to be felt."""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from parties.running.runspec import Snapshot, State, read_snapshot, save_snapshot
from parties.running.time_left import TimeLeft
from parties.running.traffic import Traffic
from protocols.program import Progress

_BETWEEN_S: Final = 0.2


class ProgressFile:
    """The worker's side of `progress.json`; `seq` goes on from what is there."""

    def __init__(
        self, folder: Path, traffic: Traffic, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder = folder
        self._traffic = traffic
        self._clock = clock
        before = read_snapshot(folder)
        self._now = Snapshot(seq=before.seq if before else 0, state=State.RUNNING)
        self._written = -1.0
        self._left = TimeLeft(clock)
        self._warnings: list[str] = []
        self.phase("start")

    def warn(self, text: str) -> None:
        """Something that stands before each note from now on; "" is nothing."""
        self._warnings += [text] if text else []

    def phase(self, name: str) -> None:
        """A step of the worker itself, such as "connect"."""
        self.observe(Progress(phase=name, step=0, of=0))

    def observe(self, progress: Progress) -> None:
        """What the program tells; a new phase is written at once, other news at most 5 times a second.

        A loss that isn't a number any more is left out: what is told must be JSON for everybody who reads it.
        """
        now = self._clock()
        fresh = progress.phase != self._now.phase
        self._now = replace(
            self._now,
            phase=progress.phase,
            step=progress.step,
            of=progress.of,
            loss=progress.loss if progress.loss is not None and math.isfinite(progress.loss) else None,
            eta=self._left.after(progress),
            note=self._noted(progress.note),
        )
        if fresh or now - self._written >= _BETWEEN_S or progress.step == progress.of:
            self._written = now
            self._now = self._counted()
            save_snapshot(self._folder, self._now)

    def end(self, state: State, reason: str, note: str, *, logged: bool) -> None:
        """The last word, on the disk when this returns."""
        self._now = replace(
            self._counted(), state=state, reason=reason, note=self._noted(note), eta=None, logged=logged
        )
        save_snapshot(self._folder, self._now)

    def _noted(self, note: str) -> str:
        return "; ".join([*self._warnings, *([note] if note else [])])

    def _counted(self) -> Snapshot:
        return replace(
            self._now,
            seq=self._now.seq + 1,
            bytes_sent=self._traffic.bytes_sent,
            bytes_received=self._traffic.bytes_received,
        )
