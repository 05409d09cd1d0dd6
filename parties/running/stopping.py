"""How a worker learns that it shall stop: a word on its stdin, the end of stdin, or SIGTERM."""

import os
import signal
import threading
from collections.abc import Callable
from typing import Final

from protocols.errors import CancelledRun, InterruptedRun, RevokedRun, Stopped

_WORDS: Final = {b"cancel": CancelledRun, b"revoke": RevokedRun}
_STRONGER: Final = (InterruptedRun, CancelledRun, RevokedRun)
_TEXTS: Final = {
    InterruptedRun: "the supervisor ended or asked this worker to stop",
    CancelledRun: "the run was cancelled here",
    RevokedRun: "an approval was revoked here",
}


class StopFlag:
    """Whether this side shall stop, and as what; a stronger reason replaces a weaker one."""

    def __init__(self) -> None:
        self._asked: type[Stopped] | None = None
        self._tell: Callable[[str], None] = lambda code: None

    @property
    def asked(self) -> Stopped | None:
        """The stop that was asked for, if any."""
        return None if self._asked is None else self._asked(_TEXTS[self._asked])

    def check(self) -> None:
        """Raises the stop that was asked for."""
        if self._asked is not None:
            raise self._asked(_TEXTS[self._asked])

    def ask(self, kind: type[Stopped]) -> None:
        """Asks for a stop; safe in a signal handler."""
        if self._asked is None or _STRONGER.index(kind) > _STRONGER.index(self._asked):
            self._asked = kind

    def tell(self, told: Callable[[str], None]) -> None:
        """What `watch` calls with the code of a stop, so that peers learn of it even while this side computes."""
        self._tell = told

    def watch(self, descriptor: int) -> None:
        """Reads words from `descriptor` in a thread of its own until it ends; its end asks for InterruptedRun."""
        threading.Thread(target=self._watch, args=(descriptor,), name="stdin", daemon=True).start()

    def on_signal(self) -> None:
        """Takes SIGTERM and SIGINT as InterruptedRun; main thread only."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.ask(InterruptedRun))

    def _watch(self, descriptor: int) -> None:
        line = b""
        while data := os.read(descriptor, 256):
            *words, line = (line + data)[-1024:].split(b"\n")
            for word in words:
                if word.strip() in _WORDS:
                    self._stop(_WORDS[word.strip()])
        self._stop(InterruptedRun)

    def _stop(self, kind: type[Stopped]) -> None:
        self.ask(kind)
        if self._asked is not None:
            self._tell(self._asked.code)
