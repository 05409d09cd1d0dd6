"""How often this party aligned with which peer, on which sets: the budget of alignments, and whether a set changed.

Every run whose manifest allows an intersection counts once it may have sent a message, whatever it computes; taking an
interrupted one up again doesn't count again, since its blocks are the same ones. A set is known by its block's name,
version, published rows and commitment: a peer who fills a block anew to try out other keys shows here.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from parties.control.database import transaction
from parties.control.run_state import RunState
from parties.home.agreements import own_peers
from parties.home.policy import Policy
from protocols.audit import AuditEvent, Entry
from protocols.errors import AlignmentsUsedError
from protocols.records import Scalar
from protocols.request import ComputationRequest, party_named, set_in_words

SCHEMA = """
CREATE TABLE IF NOT EXISTS alignments (
    digest TEXT NOT NULL, run INTEGER NOT NULL, peer TEXT NOT NULL, own_set TEXT NOT NULL, peer_set TEXT NOT NULL,
    number INTEGER NOT NULL, PRIMARY KEY (digest, run, peer)) STRICT
"""
_COUNTED = "(r.committed OR r.state = ?)"
FIRST, SAME, CHANGED = "first alignment", "same as in the last alignment", "changed since the last alignment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """An alignment with one peer that a request asks for: how many are allowed, and the sets of both sides in words."""

    peer: str
    allowed: int
    own_set: str
    peer_set: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How an alignment stands to the earlier ones with its peer: `used` with it or, before its start, without it."""

    planned: Planned
    used: int
    own_change: str
    peer_change: str

    def detail(self) -> dict[str, Scalar]:
        """As an entry of the audit log has it."""
        return {
            "peer": self.planned.peer,
            "used": self.used,
            "allowed": self.planned.allowed,
            "own set": f"{self.planned.own_set}, {self.own_change}",
            "peer's set": f"{self.planned.peer_set}, {self.peer_change}",
        }

    def line(self) -> str:
        """As a reviewer reads it."""
        return (
            f"with {self.planned.peer}: used {self.used} of {self.planned.allowed}; own set {self.planned.own_set}, "
            f"{self.own_change}; its set {self.planned.peer_set}, {self.peer_change}"
        )


class Alignments:
    """The alignments in the supervisor's SQLite file; may be used by several threads and processes at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with transaction(path) as database:
            database.execute(SCHEMA)

    def standing(self, digest: str, run: int, planned: Sequence[Planned]) -> tuple[Standing, ...]:
        """How each stands now; `run` 0 for one that hasn't begun."""
        with transaction(self._path) as database:
            return tuple(_standing(database, digest, run, each) for each in planned)


def planned_alignments(request: ComputationRequest, own_name: str, policy: Policy) -> tuple[Planned, ...]:
    """What the request asks of the party of this name; none when it compares no keys with anybody."""
    own = party_named(request, own_name)
    return tuple(
        Planned(
            peer=peer,
            allowed=policy.agreement(peer).max_psi_runs,
            own_set=set_in_words(request, own.role),
            peer_set=set_in_words(request, party_named(request, peer).role),
        )
        for peer in own_peers(request, own.role)
    )


def left_open(entries: Iterable[Entry], target: str, run: int) -> tuple[str, ...]:
    """The peers with whom this run of the target began an alignment, by the log, whose end isn't in it."""
    peers: dict[str, None] = {}
    for entry in entries:
        detail = dict(entry.detail)
        if entry.object != target or detail.get("run") != run:
            continue
        if entry.event is AuditEvent.PSI_STARTED:
            peers[str(detail["peer"])] = None
        elif entry.event is AuditEvent.PSI_FINISHED:
            peers.clear()
    return tuple(peers)


def use(database: sqlite3.Connection, digest: str, run: int, planned: Sequence[Planned]) -> None:
    """Notes the alignments of a run that is being reserved, in the reservation's own transaction.

    AlignmentsUsedError when one isn't left; then nothing is reserved.
    """
    for each in planned:
        used = _used(database, digest, run, each.peer)
        if used >= each.allowed:
            raise AlignmentsUsedError(
                f"alignments with {each.peer}: used {used} of {each.allowed}",
                used=used,
                allowed=each.allowed,
                remedy="agree on more with that party, then raise max_psi_runs in policy.toml",
            )
        (last,) = database.execute("SELECT coalesce(max(number), 0) FROM alignments").fetchone()
        database.execute(
            "INSERT INTO alignments VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (digest, run, each.peer, each.own_set, each.peer_set, last + 1),
        )


def _used(database: sqlite3.Connection, digest: str, run: int, peer: str) -> int:
    """Counted alignments with the peer, without those of this run."""
    (used,) = database.execute(
        "SELECT count(*) FROM alignments a JOIN runs r USING (digest, run)"
        f" WHERE a.peer = ? AND NOT (a.digest = ? AND a.run = ?) AND {_COUNTED}",
        (peer, digest, run, RunState.RUNNING),
    ).fetchone()
    return int(used)


def _standing(database: sqlite3.Connection, digest: str, run: int, planned: Planned) -> Standing:
    last = database.execute(
        "SELECT a.own_set, a.peer_set FROM alignments a JOIN runs r USING (digest, run)"
        f" WHERE a.peer = ? AND NOT (a.digest = ? AND a.run = ?) AND {_COUNTED} ORDER BY a.number DESC LIMIT 1",
        (planned.peer, digest, run, RunState.RUNNING),
    ).fetchone()
    return Standing(
        planned=planned,
        used=_used(database, digest, run, planned.peer) + (run > 0),
        own_change=_change(None if last is None else last["own_set"], planned.own_set),
        peer_change=_change(None if last is None else last["peer_set"], planned.peer_set),
    )


def _change(before: str | None, now: str) -> str:
    if before is None:
        return FIRST
    return SAME if before == now else CHANGED
