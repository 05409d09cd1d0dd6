"""What every use of a trained model begins with, as steps of its two programs.

1. `SameModel` both ways: each party tells which training its part of the model is of; two parts of different runs
   don't fit together, and then nothing else is sent.
2. The messages of `protocols.psi`, over the keys of the asked split only. Fewer common people than the request's
   smallest overlap end the run here, at both.
3. `CommonShown` and `AloneShown` P -> A, where the use needs them: the passive party's views of the common people, and
   of all its others, in evaluation form, and for predictions its principal components of them. The others come in an
   order that only P knows.

Shapes: m common people, q others of the passive party, w width of what it shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from protocols.chunks import chunks
from protocols.errors import ModelError
from protocols.program import Json, Observe, Program, Send, receive, silent
from protocols.psi import ALONE, Alignment, Crew, psi_client, psi_server
from protocols.seeds import PrivateSeed
from vertical.groups import private_order
from vertical.manifest import ANY_ROWS, BlockRows
from vertical.model import ActivePart, PassivePart
from vertical.receiving import receive_alone, receive_rows
from vertical.roles import ACTIVE, PASSIVE
from vertical.table import PartyData, Rows, Split, Table
from vertical.use_config import People, PredictConfig, UseConfig
from vertical.use_manifest import use_terms
from vertical.use_messages import AloneShown, CommonShown, SameModel

Show: TypeAlias = Callable[[Table], NDArray[np.float32]]
"""What the passive party shows of a table's people, (m, w)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UseRun:
    """What the two programs of a use depend on besides data, model and settings.

    `rows` are the published rows of the active and of the passive block, `least` is the smallest number of common
    people, `crew` helps with the alignment.
    """

    seed: PrivateSeed
    observe: Observe = silent
    rows: BlockRows = ANY_ROWS
    least: int = 1
    crew: Crew = ALONE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UsePeople:
    """Own row numbers: the common people (m,) in the order both hold, and this party's others in its own order.

    `left_out` are the others that the request doesn't allow for; they take no part.
    """

    common: Rows
    alone: Rows
    left_out: Rows

    def told(self) -> dict[str, Rows]:
        """Own rows behind a report's numbers."""
        return {
            "people.common": self.common,
            "people.alone": self.alone,
            "people.left_out": self.left_out,
        }


def check_part(part: ActivePart | PassivePart, config: UseConfig) -> None:
    """ModelError unless the request says of the model what this party's part of it is."""
    shape = part.config.passive_view
    asked = {"d": config.d, "width of the passive view": config.view_width}
    found = {"d": part.config.d, "width of the passive view": shape.width}
    if isinstance(config, PredictConfig):
        asked["linear_views"], found["linear_views"] = config.linear_views, part.config.linear_views
    if isinstance(part, ActivePart):
        asked["classes"], found["classes"] = config.classes, len(part.classes)
    for name, value in found.items():
        if asked[name] != value:
            raise ModelError(
                f"{name}: the request says {asked[name]}, the model has {value}",
                remedy="leave it out of the plan: it follows from the model",
            )


def agree_on_model(tag: str, peer: str) -> Program[None]:
    """Message 1; ModelError when the peer's part is of another training."""
    yield Send(peer, SameModel(tag))
    message = yield from receive(peer, SameModel)
    if message.tag != tag:
        raise ModelError(
            f"{peer} holds its part of another run of the training than we do",
            remedy="compare the models' tags: fedaccord model list",
        )


def align_active(data: PartyData, config: UseConfig, run: UseRun) -> Program[UsePeople]:
    """Message 2 as the client of the intersection."""
    rows, terms = rows_asked(data, config.split), use_terms(config, run.rows, run.least)
    keys = [data.keys[row] for row in rows]
    alignment = yield from psi_client(keys, PASSIVE, run.seed, terms, crew=run.crew, observe=run.observe)
    return _people(data, rows, alignment, run.seed)


def align_passive(data: PartyData, config: UseConfig, run: UseRun) -> Program[UsePeople]:
    """Message 2 as the server of the intersection."""
    rows, terms = rows_asked(data, config.split), use_terms(config, run.rows, run.least)
    keys = [data.keys[row] for row in rows]
    alignment = yield from psi_server(keys, ACTIVE, run.seed, terms, crew=run.crew, observe=run.observe)
    return _people(data, rows, alignment, run.seed, config.max_passive_only)


def rows_asked(data: PartyData, split: People) -> Rows:
    """Rows of the asked split, ascending."""
    if split == People.ALL:
        return np.arange(data.table.rows, dtype=np.int64)
    return data.rows_of(Split[split.name])


def _people(
    data: PartyData, rows: Rows, alignment: Alignment, seed: PrivateSeed, most: int | None = None
) -> UsePeople:
    common = rows[alignment.rows]
    alone = private_order(data.keys, np.setdiff1d(rows, common), seed)
    most = len(alone) if most is None else most
    return UsePeople(common=common, alone=alone[:most], left_out=alone[most:])


def show_common(show: Show, data: PartyData, people: UsePeople, config: UseConfig) -> Program[None]:
    """The first half of message 3."""
    for at in chunks(len(people.common), config.max_common, config.evaluation_batch):
        yield Send(ACTIVE, CommonShown(at.start, show(data.table.take(people.common[at]))))


def show_alone(show: Show, data: PartyData, people: UsePeople, config: UseConfig) -> Program[None]:
    """The second half of message 3; one empty message says that there is nobody."""
    total = len(people.alone)
    for at in chunks(total, config.max_passive_only, config.evaluation_batch) or [slice(0, 0)]:
        yield Send(ACTIVE, AloneShown(at.start, total, show(data.table.take(people.alone[at]))))


def shown_report(people: UsePeople) -> dict[str, Json]:
    """The passive party's report: of how many of its others it showed the views, and of how many it didn't."""
    return {"shown": {"people": len(people.alone)}, "left_out": {"people": len(people.left_out)}}


def receive_common(people: UsePeople, config: UseConfig) -> Program[NDArray[np.float32]]:
    """What the passive party shows of the common people, (m, w)."""
    parts = chunks(len(people.common), config.max_common, config.evaluation_batch)
    shown = yield from receive_rows(PASSIVE, CommonShown, lambda part: part.views, parts, config.width)
    return shown


def receive_others(config: UseConfig) -> Program[NDArray[np.float32]]:
    """What the passive party shows of its others, (q, w)."""
    parts = yield from receive_alone(PASSIVE, AloneShown, config.max_passive_only, config.width)
    return np.concatenate(parts)
