"""How long a phase of a program will go on, from how long its steps have taken so far."""

from collections.abc import Callable

from protocols.program import Progress


class TimeLeft:
    """Seconds to the end of the phase that is told of, by a clock in seconds.

    Steps are timed from the first one that has ended: what comes before it (imports, a first and slow step) happens
    once, and multiplied by the number of steps would announce hours at the start of a minute's work.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._phase = ""
        self._first = 0
        self._began = 0.0

    def after(self, progress: Progress) -> float | None:
        """None while it isn't known: before two steps have ended, or for a phase whose length isn't told."""
        now = self._clock()
        if progress.phase != self._phase or self._first == 0 or progress.step < self._first:
            self._phase, self._first, self._began = progress.phase, progress.step, now
            return None
        done = progress.step - self._first
        if done == 0 or progress.of < progress.step:
            return None
        return round((now - self._began) / done * (progress.of - progress.step), 1)
