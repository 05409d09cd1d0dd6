"""How a demo ends when it is told to."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

TERMINATED = 128 + signal.SIGTERM
"""The exit status of a command that SIGTERM ended, as a shell has it."""


@contextmanager
def ends_in_order() -> Iterator[None]:
    """Inside the block SIGTERM is raised as SystemExit: what was started is ended and what is temporary removed.

    A second one doesn't interrupt that. For the main thread.
    """

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise SystemExit(TERMINATED)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
