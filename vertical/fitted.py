"""A model fitted by a researcher, and its one file: arrays by dotted name and a JSON text. Nothing is pickled.

The file holds both parties' parts, memory included: it is for somebody who holds both parties' data. Between parties
each one keeps its own part (`vertical.model`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from protocols.errors import ConfigError, FedaccordError, ModelError
from protocols.program import Json
from protocols.wire import pack_arrays, unpack_arrays
from vertical.arrays import Arrays, as_text
from vertical.config import FedCVTConfig
from vertical.conversion import Kinds
from vertical.model import ActivePart, PassivePart
from vertical.roles import ACTIVE, PASSIVE
from vertical.table import CategoricalColumn, Column, DateColumn, NumericColumn

_FACTS = "fitted"
_KINDS: Mapping[str, type[Column]] = {
    "numeric": NumericColumn,
    "date": DateColumn,
    "categorical": CategoricalColumn,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fitted:
    """What a fit leaves: both parts, each table's kinds of columns, the report, and what class codes stand for.

    `on` are the columns that identified people; `config` and `seed` are those that the fit was asked for with.
    """

    config: FedCVTConfig
    seed: int
    on: tuple[str, ...]
    active: ActivePart
    passive: PassivePart
    kinds: Mapping[str, Kinds]
    report: Mapping[str, Json]
    classes: tuple[object, ...]

    def to_bytes(self) -> bytes:
        """The contents of its file. ConfigError for labels that JSON doesn't tell apart."""
        facts = {
            "config": dict(self.config.to_parameters()),
            "seed": self.seed,
            "on": self.on,
            "kinds": {role: _words(kinds) for role, kinds in self.kinds.items()},
            "report": self.report,
            "classes": [_plain(label) for label in self.classes],
        }
        return pack_arrays(
            {
                _FACTS: as_text(json.dumps(facts)),
                **_under(ACTIVE, self.active.pack()),
                **_under(PASSIVE, self.passive.pack()),
            }
        )

    @classmethod
    def from_bytes(cls, contents: bytes) -> Fitted:
        """The model in the contents of its file. ModelError if they aren't such a file's, or are damaged."""
        try:
            arrays = unpack_arrays(contents)
            facts = json.loads(arrays[_FACTS].tobytes())
            return cls(
                config=FedCVTConfig.from_parameters(facts["config"].items()),
                seed=facts["seed"],
                on=tuple(facts["on"]),
                active=ActivePart.unpack(_below(ACTIVE, arrays)),
                passive=PassivePart.unpack(_below(PASSIVE, arrays)),
                kinds={role: _classes(facts["kinds"][role]) for role in (ACTIVE, PASSIVE)},
                report=facts["report"],
                classes=tuple(facts["classes"]),
            )
        except (FedaccordError, KeyError, TypeError, ValueError, AttributeError) as problem:
            what = problem if isinstance(problem, FedaccordError) else type(problem).__name__
            raise ModelError(
                f"this is no saved FedCVT of this release, or it is damaged: {what}",
                remedy="give a file that FedCVT.save has written; fit and save again after an upgrade",
            ) from problem


def _plain(label: object) -> object:
    """A label as JSON keeps it. ConfigError for one that it doesn't."""
    value = label.item() if isinstance(label, np.generic) else label
    if not isinstance(value, str | bool | int | float):
        raise ConfigError(
            f"labels of type {type(label).__name__} can't be saved",
            remedy="fit with labels that are texts, numbers or truth values",
        )
    return value


def _words(kinds: Kinds) -> dict[str, str]:
    word_of = {kind: word for word, kind in _KINDS.items()}
    return {name: word_of[kind] for name, kind in kinds.items()}


def _classes(words: Mapping[str, str]) -> Kinds:
    return {name: _KINDS[word] for name, word in words.items()}


def _under(role: str, arrays: Arrays) -> Arrays:
    return {f"{role}.{name}": array for name, array in arrays.items()}


def _below(role: str, arrays: Arrays) -> Arrays:
    start = f"{role}."
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
