"""A word now and then from something that takes long, for somebody who waits at a terminal or a notebook."""

import sys
import time
from collections.abc import Callable

from protocols.program import Observe, Progress

SECONDS = 10.0


def _to_standard_error(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def slow_progress(
    who: str,
    *,
    write: Callable[[str], None] = _to_standard_error,
    now: Callable[[], float] = time.monotonic,
) -> Observe:
    """An `Observe` that writes phase and step, but nothing in the first SECONDS and at most a line in SECONDS then."""
    last = now()

    def observe(progress: Progress) -> None:
        nonlocal last
        if now() - last >= SECONDS:
            last = now()
            write(f"{who}: {progress.phase} {progress.step}/{progress.of}")

    return observe
