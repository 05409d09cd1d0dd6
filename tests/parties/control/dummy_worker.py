"""A worker without a protocol: `python dummy_worker.py BEHAVIOUR RUNFOLDER`, as the supervisor has to bear with.

quick: one message, a result, DONE.        steps: works until told to stop.      unmet: FAILED before its first message.
expired: FAILED after its first message, since the request's date came; with a checkpoint and its seed.
full: FAILED after its first message, and it couldn't log that.
vanish: one message, half a result, then gone at once.    stubborn: ignores every word.
resume: like steps at first, like quick when it is taken up.
"""

import os
import select
import signal
import sys
import time
from pathlib import Path

from parties.control.socket import call
from parties.home.private_files import write_json
from parties.running.runspec import ExitCode, load_spec

seq = 0


def progress(folder: Path, state: str, **more: object) -> None:
    global seq
    seq += 1
    write_json(folder / "progress.json", {"seq": seq, "state": state, **more})


def end(folder: Path, state: str, reason: str = "", **more: object) -> None:
    progress(folder, state, reason=reason, **more)
    sys.exit(ExitCode[state])


def word(seconds: float) -> str | None:
    """A line from the supervisor, "" at the end of file, None when it says nothing."""
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    return os.read(0, 100).decode().strip() if ready else None


def work(folder: Path) -> None:
    (folder / "checkpoints").mkdir(exist_ok=True)
    (folder / "private.seed").write_bytes(b"x" * 32)
    for step in range(1, 2000):
        progress(folder, "RUNNING", phase="train", step=step, of=2000, loss=1.0 / 3, bytes_sent=40 * step)
        told = word(0.02)
        if told is not None:
            state = {"": "INTERRUPTED", "cancel": "CANCELLED", "revoke": "REVOKED"}[told]
            (folder / "checkpoints" / str(step)).write_bytes(b"")
            end(folder, state, state.lower())


def main(behaviour: str, folder: Path) -> None:
    spec = load_spec(folder)
    (folder / "environment").write_text("\n".join(f"{name}={value}" for name, value in os.environ.items()))
    (folder / "open-files").write_text(" ".join(os.listdir("/proc/self/fd")))
    if behaviour == "unmet":
        end(folder, "FAILED", "peer_refused")
    if behaviour == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        progress(folder, "RUNNING")
        time.sleep(60)
    with (Path(spec.state) / "opened").open("a") as opened:  # where the real worker would open its block
        opened.write(f"{spec.digest} {spec.run}\n")
    answer = call(Path(spec.state), {"action": "run_committed", "digest": spec.digest, "run": spec.run})
    assert answer["ok"], answer
    if behaviour == "expired":
        (folder / "checkpoints").mkdir()
        (folder / "private.seed").write_bytes(b"x" * 32)
        end(folder, "FAILED", "expired", bytes_sent=40)
    if behaviour == "full":
        (folder / "artifacts.bin").write_bytes(b"x")
        end(folder, "FAILED", "audit", bytes_sent=40, logged=False)
    taken_up = (folder / "checkpoints").exists()
    if behaviour == "vanish":
        (folder / "temporary").mkdir()
        for half in ("temporary/part", "artifacts.bin", "result.json", "private.seed"):
            (folder / half).write_bytes(b"x")
        progress(folder, "RUNNING")
        os.kill(os.getpid(), signal.SIGKILL)
    if behaviour == "steps" or (behaviour == "resume" and not taken_up):
        work(folder)
    write_json(folder / "result.json", {"auc": 0.75, "run": spec.run})
    end(folder, "DONE")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
