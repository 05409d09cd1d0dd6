"""What a worker is told: the `run.json` in its run folder, written by the supervisor, read by the worker.

A run folder (0700) holds, besides `run.json`: `progress.json` (`Snapshot`, replaced atomically, `seq` only grows),
`result.json` (what the analyst may read), `artifacts.bin` (model parts, 0600, stay here), `traffic.json` (messages and
bytes for each release, for the party itself), `checkpoints/`, `temporary/`, `private.seed` (0600) and the worker's
log.  Every file but `run.json` and the log is the worker's while it lives.
"""

import json
from dataclasses import MISSING, asdict, dataclass, fields
from enum import IntEnum, StrEnum
from pathlib import Path

from parties.home.private_files import read_json, write_json
from protocols.errors import ConfigError

RUN_FILE = "run.json"
PROGRESS_FILE = "progress.json"
RESULT_FILE = "result.json"
RESULT_DETAIL = "result sha256"
"""Under which name the SHA-256 of `result.json`, in hex, stands in the log's entries of a run."""
ARTIFACTS_FILE = "artifacts.bin"
TRAFFIC_FILE = "traffic.json"
CHECKPOINTS = "checkpoints"
TEMPORARY = "temporary"
SEED_FILE = "private.seed"


class State(StrEnum):
    """How a worker's run stands; RUNNING is the only one that isn't an end."""

    RUNNING = "RUNNING"
    DONE = "DONE"
    FAILED = "FAILED"
    INTERRUPTED = "INTERRUPTED"
    CANCELLED = "CANCELLED"
    REVOKED = "REVOKED"


class ExitCode(IntEnum):
    """The worker's exit status for each end; any other status means that it died without a word."""

    DONE = 0
    FAILED = 10
    INTERRUPTED = 11
    CANCELLED = 12
    REVOKED = 13
    DISK_FULL = 14
    """FAILED too, but without room for the last word in `progress.json`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """All a worker needs to know; paths are absolute.

    `request` is the signed request's text, `approvals` the text that `approval.parse_approvals` reads.  Peers and
    their pinned certificates are those of the request's roster, which the supervisor compared with the address book.
    """

    digest: str
    run: int
    """Number of this run of the request, from 1."""
    attempt: int = 0
    """Number of this attempt of the run, from 1; 0: not told."""
    request: str
    approvals: str
    role: str
    state: str
    """The party's state folder: the supervisor's socket is found from it."""
    store: str
    audit: str
    link_key: str
    """PEM file (0600) of the private key of the party's link certificate."""
    link_certificate: str
    """PEM file of the certificate itself."""
    organisation: str = ""
    """The party's full name, for its audit log; empty: its name in the roster."""
    bind: str = ""
    """Host to listen on when it isn't the roster's (for example 0.0.0.0 behind a published name)."""
    model: str = ""
    """The artifacts of the training whose model this run uses; empty: it uses none."""
    seed: str = ""
    """An injected private seed, 64 hex digits; empty: the worker draws one from the operating system."""
    cores: int = 0
    """How many an alignment uses; 0 for all."""
    connect_s: float = 25.0
    """Both workers must have met and shaken hands within this time."""
    silence_s: float = 25.0
    """A peer that sends nothing for this long, not even a keep-alive, is lost."""
    heads_s: float = 60.0
    """At a checkpoint the peers are given a new head of this party's log, unless they have one of the last so many
    seconds."""
    message_s: float = 1800.0
    """The longest wait for one message of a living peer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One state of `progress.json`."""

    seq: int
    state: State
    phase: str = ""
    step: int = 0
    of: int = 0
    loss: float | None = None
    eta: float | None = None
    """Seconds to the end of the phase, or None."""
    bytes_sent: int = 0
    bytes_received: int = 0
    note: str = ""
    reason: str = ""
    """For an end: a code from `protocols.errors`, `peer_stopped:<code>` for one that the peer gave."""
    logged: bool = True
    """For an end: whether the worker could write it into the audit log."""


def save_spec(folder: Path, spec: RunSpec) -> None:
    """Writes `run.json` (0600: it may hold an injected seed)."""
    write_json(folder / RUN_FILE, asdict(spec))


def load_spec(folder: Path) -> RunSpec:
    """Reads `run.json`; ConfigError names a field that is missing, unknown or of a wrong type."""
    values = read_json(folder / RUN_FILE)
    known = {field.name: field for field in fields(RunSpec)}
    for name, value in values.items():
        if name not in known:
            raise ConfigError(f"{RUN_FILE}: unknown field {name}")
        accepted = (int, float) if known[name].type is float else (known[name].type,)
        if type(value) not in accepted:
            raise ConfigError(f"{RUN_FILE}: {name} has a wrong type")
    for name, field in known.items():
        if field.default is MISSING and name not in values:
            raise ConfigError(f"{RUN_FILE}: field {name} is missing")
    return RunSpec(**values)  # type: ignore[arg-type]  # each was just compared with the field's type


def read_snapshot(folder: Path) -> Snapshot | None:
    """The newest `progress.json`; None before the worker's first, and for one that can't be read or isn't a snapshot.

    A worker replaces it whole, but a disk can damage it: then the worker gave no word.
    """
    try:
        values = json.loads((folder / PROGRESS_FILE).read_bytes())
        snapshot = Snapshot(**{**values, "state": State(values["state"])})
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return snapshot if all(_fits(getattr(snapshot, f.name), f.type) for f in fields(Snapshot)) else None


def begin_again(folder: Path) -> None:
    """Puts a first word of progress in the place of an earlier attempt's last one, if there is one."""
    before = read_snapshot(folder)
    if before is not None:
        save_snapshot(folder, Snapshot(seq=before.seq + 1, state=State.RUNNING, phase="start"))


def save_snapshot(folder: Path, snapshot: Snapshot) -> None:
    """Writes `progress.json`."""
    write_json(folder / PROGRESS_FILE, asdict(snapshot))


def _fits(value: object, wanted: object) -> bool:
    """Whether the value is of a snapshot's field of this type; a float may be written as a whole number."""
    if isinstance(value, bool) or wanted is bool:
        return isinstance(value, bool) and wanted is bool
    if wanted == float | None:
        return value is None or isinstance(value, int | float)
    return isinstance(wanted, type) and isinstance(value, wanted)
