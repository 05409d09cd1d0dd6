"""A worker process of `horizontal.train`: `python -m tests.parties.running.star_worker FOLDER [FAULT]`.

With a fault it is killed, as `kill -9` does it, in round FATAL: before it trains, or when its words are wanted.
"""

import logging
import os
import signal
import sys
from pathlib import Path

from horizontal.messages import Broadcast
from horizontal.work import ClientWork, Prepared
from parties.running.worker import run
from parties.running.worker_tools import Tools
from protocols.masking import Masks
from tests.parties.running.wards import FOUR

FATAL = 3


def killed_in_training() -> None:
    prepare = ClientWork.prepare

    def fatal(work: ClientWork, broadcast: Broadcast, memory: object) -> Prepared:
        if broadcast.round == FATAL:
            os.kill(os.getpid(), signal.SIGKILL)
        return prepare(work, broadcast, memory)  # type: ignore[arg-type]

    ClientWork.prepare = fatal  # type: ignore[method-assign]


def killed_before_its_words() -> None:
    hide = Masks.hide

    def fatal(masks: Masks, *arguments: object) -> object:
        if masks._number == FATAL:
            os.kill(os.getpid(), signal.SIGKILL)
        return hide(masks, *arguments)  # type: ignore[arg-type]

    Masks.hide = fatal  # type: ignore[method-assign,assignment]


FAULTS = {"in training": killed_in_training, "before its words": killed_before_its_words}


def main() -> int:
    os.umask(0o077)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    for fault in sys.argv[2:]:
        FAULTS[fault]()
    tools = Tools(check_code=lambda request: None, open_data=lambda spec, request: FOUR[spec.role])
    return run(Path(sys.argv[1]), tools)


if __name__ == "__main__":
    sys.exit(main())
