"""Waiting for what must come, as long as it may take on a machine that is ten times slower than usual."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE = 180.0
"""Seconds after which what must come is given up: no test's success depends on its being soon."""


def until(
    look: Callable[[], T], good: Callable[[T], bool], seconds: float = PATIENCE, pause: float = 0.02
) -> T:
    """The first value that is good; AssertionError with the last one when none came in time."""
    end = time.monotonic() + seconds
    while True:
        value = look()
        if good(value):
            return value
        assert time.monotonic() < end, value
        time.sleep(pause)
