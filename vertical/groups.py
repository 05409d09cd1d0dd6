"""From an alignment to the row groups of a run, and which of their rows a step uses.

Shapes: m common people, n aligned training rows, t aligned test rows, a (q) alone training rows of the active
(passive) party.

| group | at both parties | used for |
|---|---|---|
| aligned train | common, training people at both, the first `max_aligned_train` in the common order | training |
| aligned test | common, test people at both, the first `max_aligned_test` | evaluation by the active party |
| alone train | not common, training people of this party | training |
| anything else | common people of other splits or of splits that differ, other alone people | never touched |
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from protocols.errors import OverlapError, ProtocolError
from protocols.program import Program, Send, receive
from protocols.psi import Alignment
from protocols.seeds import PrivateSeed
from vertical.config import FedCVTConfig
from vertical.messages import Splits
from vertical.table import PartyData, Rows, Split

_SPLIT_NAMES = tuple(split.name.lower() for split in Split)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Groups:
    """Own row indices of each group. Row i of an aligned group is the same person at both parties.

    common: people in the intersection; split_differs: those whose splits differ; tag: the alignment's tag.
    per_split: common people by split, where both parties agree.
    """

    aligned_train: Rows
    aligned_test: Rows
    alone: Rows
    common: int
    split_differs: int
    per_split: Mapping[str, int]
    tag: str

    def training(self) -> Rows:
        """All rows that training may see, aligned ones first, (n + a,)."""
        return np.concatenate([self.aligned_train, self.alone])

    def pack(self) -> dict[str, NDArray[np.generic]]:
        """The groups as arrays, for a checkpoint."""
        numbers = [self.common, self.split_differs, *(self.per_split[name] for name in _SPLIT_NAMES)]
        return {
            "group.aligned_train": self.aligned_train,
            "group.aligned_test": self.aligned_test,
            "group.alone": self.alone,
            "group.numbers": np.array(numbers, dtype=np.int64),
            "group.tag": np.frombuffer(self.tag.encode(), dtype=np.uint8),
        }

    @classmethod
    def unpack(cls, state: Mapping[str, NDArray[np.generic]]) -> Groups:
        """The groups of `pack`."""
        common, split_differs, *per_split = state["group.numbers"].tolist()
        return cls(
            aligned_train=state["group.aligned_train"].astype(np.int64),
            aligned_test=state["group.aligned_test"].astype(np.int64),
            alone=state["group.alone"].astype(np.int64),
            common=common,
            split_differs=split_differs,
            per_split=dict(zip(_SPLIT_NAMES, per_split, strict=True)),
            tag=state["group.tag"].tobytes().decode(),
        )


def exchange_groups(
    data: PartyData,
    alignment: Alignment,
    config: FedCVTConfig,
    seed: PrivateSeed,
    *,
    peer: str,
    max_alone: int | None = None,
) -> Program[Groups]:
    """Tells the peer the common people's splits, hears its own, and gives back the groups.

    Raises OverlapError at both parties, before anything else is sent, if fewer than `minimum_overlap`
    aligned training rows remain.
    """
    own = data.split[alignment.rows]
    yield Send(peer, Splits(own))
    other = (yield from receive(peer, Splits)).split
    if other.shape != own.shape or np.any(other > Split.TEST):
        raise ProtocolError(f"{peer} sent splits of {other.size} people, {own.size} are common")
    groups = form_groups(data, alignment, other, config, seed, max_alone=max_alone)
    check_overlap(groups, config)
    return groups


def check_overlap(groups: Groups, config: FedCVTConfig) -> None:
    """OverlapError unless there are `minimum_overlap` aligned training people."""
    if len(groups.aligned_train) < config.minimum_overlap:
        raise OverlapError(
            f"overlap {len(groups.aligned_train)}, FedCVT needs at least {config.minimum_overlap} people to train on"
            f" ({groups.common} people are common: {len(groups.aligned_test)} for the test, {groups.split_differs} in"
            " differing splits)",
            remedy="check that both blocks hold the same kind of subject key, leave fewer people to the test, or ask"
            " with a smaller minimum_overlap",
        )


def form_groups(
    data: PartyData,
    alignment: Alignment,
    other: NDArray[np.uint8],
    config: FedCVTConfig,
    seed: PrivateSeed,
    *,
    max_alone: int | None = None,
) -> Groups:
    """The groups, from the peer's splits `other` (m,) of the common people.

    Alone rows are in their party's private order.
    """
    own = data.split[alignment.rows]
    agreed = own == other
    by_split = {split: alignment.rows[agreed & (own == split)] for split in Split}
    alone = data.split == Split.TRAIN
    alone[alignment.rows] = False
    order = private_order(data.keys, np.flatnonzero(alone), seed)
    return Groups(
        aligned_train=by_split[Split.TRAIN][: config.max_aligned_train],
        aligned_test=by_split[Split.TEST][: config.max_aligned_test],
        alone=order[:max_alone],
        common=len(alignment.rows),
        split_differs=int(np.count_nonzero(~agreed)),
        per_split={name: len(by_split[split]) for name, split in zip(_SPLIT_NAMES, Split, strict=True)},
        tag=alignment.tag,
    )


def private_order(keys: Sequence[bytes], rows: Rows, seed: PrivateSeed) -> Rows:
    """The rows in the order of a keyed hash of their key: one that only this party knows, whatever its file's order."""
    secret = hmac.digest(seed, b"order of alone rows", hashlib.sha256)
    order = sorted(rows.tolist(), key=lambda row: hmac.digest(secret, keys[row], "sha256"))
    return np.array(order, dtype=np.int64)
