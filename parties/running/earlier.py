"""Which people stood behind what this party released before, so that a difference of two releases tells of nobody.

Two counts that are each large enough give a small group away when one is subtracted from the other: before and after a
person was erased, or of people who nearly all are the same. So a number is suppressed whose people differ from those of
an earlier release of the same name, on any version of the block and to any analyst (two may talk), by fewer than k.

A group is kept as sorted 8-byte tags of its people's keys under a secret of this party, in `released/` of the state
folder. Tags are personal data too: they stay here, and nobody without the secret can make one. A group is recorded
before it is released; what is suppressed isn't recorded.
"""

import fcntl
import hashlib
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parties.home.private_files import make_private_folder, write_json, write_private
from protocols.program import Json
from protocols.records import utc_text
from protocols.request import ComputationRequest, digest
from protocols.wire import pack_arrays, unpack_arrays

RELEASED = "released"
"""The folder within the state folder."""
Tags = NDArray[np.uint64]
_SECRET = "secret"
_TAG_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What a run is about to release of one block's people: `facts` are for the party's own reading."""

    block: str
    name: str
    """Of the run, unique: taken up again it is the same one."""
    facts: Mapping[str, str | int]


class EarlierReleases:
    """The releases of one party, in one folder; safe for several workers at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = make_private_folder(folder)

    def differing(
        self, release: Release, keys: tuple[bytes, ...], groups: Mapping[str, NDArray[np.int64]], k: int
    ) -> frozenset[str]:
        """Names of the groups (rows of `keys`) that must not be told; the others are recorded as told from now on."""
        with self._locked() as secret:
            tags = {name: _tags(keys, rows, secret) for name, rows in groups.items()}
            refused = {
                name
                for earlier in self._earlier(release)
                for name, before in earlier.items()
                if name in tags and 0 < len(np.setxor1d(before, tags[name], assume_unique=True)) < k
            }
            told = {name: each for name, each in tags.items() if name not in refused}
            place = make_private_folder(self._folder / release.block)
            write_private(place / f"{release.name}.bin", pack_arrays(told))
            write_json(place / f"{release.name}.json", {**release.facts, "suppressed": sorted(refused)})
        return frozenset(refused)

    def _earlier(self, release: Release) -> Iterator[dict[str, Tags]]:
        for path in sorted((self._folder / release.block).glob("*.bin")):
            if path.stem != release.name:
                yield {
                    name: tags.astype(np.uint64) for name, tags in unpack_arrays(path.read_bytes()).items()
                }

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


def release_of(request: ComputationRequest, role: str, run: int, now: datetime) -> Release:
    """What this run is about to release of the role's block."""
    (block,) = (block for block in request.blocks if block.role == role)
    return Release(
        block=block.block,
        name=f"{digest(request)}-{run}",
        facts={
            "analyst": request.analyst.name,
            "request": digest(request),
            "run": run,
            "version": block.version,
            "time": utc_text(now),
        },
    )


def split_groups(
    artifacts: Mapping[str, NDArray[np.generic]], begin: str
) -> tuple[dict[str, NDArray[np.int64]], dict[str, NDArray[np.generic]]]:
    """The artifacts that hold the rows of released groups, by the rest of their names, and those that stay."""
    groups = {
        name.removeprefix(begin): rows.astype(np.int64)
        for name, rows in artifacts.items()
        if begin and name.startswith(begin)
    }
    return groups, {
        name: array for name, array in artifacts.items() if not begin or not name.startswith(begin)
    }


def without(report: Mapping[str, Json], names: frozenset[str], k: int) -> dict[str, Json]:
    """The released report with what stands on these groups suppressed, and why."""
    reason = f"differs from an earlier release by fewer than {k} people"
    return {
        name: {"suppressed": "difference", "reason": reason} if name in names else value
        for name, value in report.items()
    }


def _tags(keys: tuple[bytes, ...], rows: NDArray[np.int64], secret: bytes) -> Tags:
    made = {hashlib.blake2b(keys[row], key=secret, digest_size=_TAG_BYTES).digest() for row in rows.tolist()}
    return np.sort(np.frombuffer(b"".join(made), np.uint64))
