"""Which people stood behind what this party released before, so that a difference of two releases tells of nobody.

Two counts that are each large enough give a small group away when one is subtracted from the other: before and after a
person was erased, or of people who nearly all are the same. So numbers are held back

- when the block's people differ from those of an earlier release from any version of it by fewer than k: all numbers of
  the run, wherever the few are in it, since the place that is missing would tell just that;
- when those who count in one number, or in several that can be added, differ so from those of an earlier number or sum:
  all numbers of a run of several parties, in which who is counted depends on the other's people; of a party of its own
  only what stands on these;
- when a vote by the same model on as many people gives a class nearly as many as an earlier one did: votes with
  slightly different thresholds;
- when the run uses a model whose training's numbers were held back, of which it could repeat some.

It doesn't matter which analyst asks: two may talk. What was told of exactly the same people may be told again.

A group is kept as sorted 8-byte tags of its people's keys under a secret of this party, in `released/` of the state
folder. Tags are personal data too: they stay here, and nobody without the secret can make one. A group is recorded
before it is released; what is held back isn't recorded.
"""

import fcntl
import hashlib
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parties.home.private_files import make_private_folder, read_json, write_json, write_private
from parties.running.nearness import Tags, near, told
from protocols.held_back import held_back, held_number
from protocols.program import Json
from protocols.records import utc_text
from protocols.request import ComputationRequest, digest
from protocols.wire import pack_arrays, unpack_arrays

RELEASED = "released"
"""The folder within the state folder."""
EVERYBODY = "everybody"
"""The group of all people of the block, in a record."""
BLOCK, GROUP, VOTES, MODEL, PEER = (
    "the block's people are nearly those of an earlier release",
    "people behind a number are nearly those of an earlier one",
    "the votes are nearly those of an earlier run of the model",
    "the numbers of the model's training were held back",
    "another party of the run holds back, or didn't part",
)
"""Why a run's numbers are held back, for the party's own reading: the analyst is given one reason for all."""
Groups = Mapping[str, NDArray[np.int64]]
Votes = Mapping[str, Mapping[str, int]]
"""By place in the report: number of people and of those with each vote."""
_SECRET = "secret"
_TAG_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What a run is about to release of one block's people: `facts` are for the party's own reading.

    `model` is the digest of the training whose model it uses, if any; `alone`: no other party's people count in it.
    """

    block: str
    name: str
    """Of the run, unique: taken up again it is the same one."""
    facts: Mapping[str, str | int]
    model: str = ""
    alone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What must not be told exactly: for a reason `everything` of the run, or else these groups."""

    everything: str = ""
    groups: frozenset[str] = field(default_factory=frozenset)

    def of(self, released: Mapping[str, Json], report: Mapping[str, Json], k: int) -> dict[str, Json]:
        """The released report without it; `report` is the one before the disclosure rules.

        A group that isn't a name of the report may stand behind any of its numbers, so all are held back then.
        """
        if self.everything or not self.groups <= released.keys():
            return held_back(released, report, k)
        return {name: held_number(k) if name in self.groups else value for name, value in released.items()}


class EarlierReleases:
    """The releases of one party, in one folder; safe for several workers at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = make_private_folder(folder)

    def compare(
        self, release: Release, keys: tuple[bytes, ...], groups: Groups, k: int, votes: Votes | None = None
    ) -> Held:
        """What of groups (rows of `keys`) and votes must not be told; the rest is recorded as told from now on."""
        with self._locked() as secret:
            tags = _tags(keys, secret)
            counted = told({name: np.unique(tags[rows]) for name, rows in groups.items()}, k)
            counted[EVERYBODY] = np.unique(tags)
            found = {name for earlier in self._earlier(release) for name in near(earlier, counted, k)}
            why = self._why(release, found, votes or {}, k)
            held = Held(everything=why) if why else Held(groups=frozenset(found))
            kept = {name: each for name, each in counted.items() if name not in found}
            self._write(release, held, kept, votes)
        return held

    def hold(self, release: Release) -> None:
        """Records that nothing of this release was told: another party of its run holds back."""
        with self._locked():
            self._write(release, Held(everything=PEER), {}, None)

    def _why(self, release: Release, found: set[str], votes: Votes, k: int) -> str:
        if EVERYBODY in found:
            return BLOCK
        if found and not release.alone:
            return GROUP
        if not release.model:
            return ""
        for record in self._records(release):
            if record.get("request") == release.model and record.get("held"):
                return MODEL
            before = record.get("votes")
            if (
                record.get("model") == release.model
                and isinstance(before, Mapping)
                and _near_votes(before, votes, k)
            ):
                return VOTES
        return ""

    def _write(self, release: Release, held: Held, kept: Mapping[str, Tags], votes: Votes | None) -> None:
        place = make_private_folder(self._folder / release.block)
        facts = {
            **release.facts,
            "model": release.model,
            "held": held.everything,
            "suppressed": sorted(held.groups),
            "votes": {} if held.everything else dict(votes or {}),
        }
        write_private(place / f"{release.name}.bin", pack_arrays({} if held.everything else dict(kept)))
        write_json(place / f"{release.name}.json", facts)

    def _earlier(self, release: Release) -> Iterator[dict[str, Tags]]:
        for path in sorted((self._folder / release.block).glob("*.bin")):
            if path.stem != release.name:
                found = unpack_arrays(path.read_bytes())
                yield {name: tags.astype(np.uint64) for name, tags in found.items()}

    def _records(self, release: Release) -> Iterator[Mapping[str, object]]:
        for path in sorted((self._folder / release.block).glob("*.json")):
            if path.stem != release.name:
                yield read_json(path)

    @contextmanager
    def _locked(self) -> Iterator[bytes]:
        """The party's secret, while no other worker compares or records."""
        descriptor = os.open(self._folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            path = self._folder / _SECRET
            if not path.exists():
                write_private(path, secrets.token_bytes(32))
            yield path.read_bytes()
        finally:
            os.close(descriptor)


def release_of(request: ComputationRequest, role: str, run: int, now: datetime) -> Release | None:
    """What this run is about to release of the role's block; None for a role without one."""
    block = next((block for block in request.blocks if block.role == role), None)
    if block is None:
        return None
    return Release(
        block=block.block,
        name=f"{digest(request)}-{run}",
        model=str(dict(request.parameters).get("model", "")),
        alone=len(request.parties) == 1,
        facts={
            "analyst": request.analyst.name,
            "request": digest(request),
            "run": run,
            "version": block.version,
            "time": utc_text(now),
        },
    )


def votes_in(released: Mapping[str, Json], at: str = "") -> dict[str, dict[str, int]]:
    """The counts by class in a released report, with the number of people beside them, by place."""
    found: dict[str, dict[str, int]] = {}
    classes, people = released.get("classes"), released.get("people")
    if isinstance(classes, Mapping) and isinstance(people, int):
        counts = {f"class {name}": count for name, count in classes.items() if isinstance(count, int)}
        found[at] = {"people": people, **counts}
    for name, value in released.items():
        if isinstance(value, Mapping):
            found |= votes_in(value, f"{at}.{name}" if at else name)
    return found


def _near_votes(earlier: Mapping[str, object], now: Votes, k: int) -> bool:
    for place, counts in now.items():
        before = earlier.get(place)
        if isinstance(before, Mapping) and before.get("people") == counts["people"]:
            both = [(count, before[name]) for name, count in counts.items() if name in before]
            if any(0 < abs(count - int(other)) < k for count, other in both):
                return True
    return False


def _tags(keys: tuple[bytes, ...], secret: bytes) -> Tags:
    """The tag of each row's person, (rows,)."""
    made = [hashlib.blake2b(key, key=secret, digest_size=_TAG_BYTES).digest() for key in keys]
    return np.frombuffer(b"".join(made), np.uint64)
