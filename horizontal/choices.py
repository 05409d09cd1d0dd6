"""The parts of a horizontal method, the choices for each, and which of them don't combine. No torch here.

A method is one choice per part: who trains (selection), on what loss (objective), pulled back by a penalty or not, with
which optimizer, gradients adjusted or not, on which rows (admission), and how the server aggregates. All parts are
independent of each other but for the pairs in `REFUSED`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class Selection(StrEnum):
    """Which clients train in a round."""

    UNIFORM = "uniform"
    FLASH = "flash"


class Loss(StrEnum):
    """What clients minimise."""

    CROSS_ENTROPY = "cross_entropy"
    ROBUST = "robust"


class Penalty(StrEnum):
    """What is added to the loss: nothing, or FedProx's term (`mu` above 0)."""

    NONE = "none"
    FEDPROX = "fedprox"


class Optimizer(StrEnum):
    """The local optimizer, new in each round."""

    SGD = "sgd"
    MOMENTUM = "momentum"
    ADAM = "adam"


class Adjustment(StrEnum):
    """What is done to gradients."""

    NONE = "none"
    SCAFFOLD = "scaffold"


class Admission(StrEnum):
    """Which rows a local epoch trains on, in which order."""

    ALL = "all"
    FEDBSS = "fedbss"


class Aggregation(StrEnum):
    """How the server makes the next model of what clients send."""

    SIZE = "size"
    MEAN = "mean"
    FEDOUI = "fedoui"
    FEDALIGN = "fedalign"
    FEDOUI_FEDALIGN = "fedoui_fedalign"
    FEDNOVA = "fednova"
    MEDIAN = "median"
    TRIMMED = "trimmed"
    CLIPPED = "clipped"


Parts: TypeAlias = Mapping[str, str]
"""For each part, by its name in `PARTS`, the choice."""
PARTS: Mapping[str, type[StrEnum]] = {
    "selection": Selection,
    "objective": Loss,
    "penalty": Penalty,
    "optimizer": Optimizer,
    "adjustment": Adjustment,
    "admission": Admission,
    "aggregation": Aggregation,
}


@dataclass(frozen=True, slots=True)
class Refused:
    """Choices of one part that don't combine with choices of another, and why."""

    part: str
    choices: frozenset[str]
    other: str
    others: frozenset[str]
    reason: str

    def holds(self, parts: Parts) -> bool:
        """Whether these parts are such a pair."""
        return parts[self.part] in self.choices and parts[self.other] in self.others


def _all_but(kind: type[StrEnum], *fine: StrEnum) -> frozenset[str]:
    return frozenset(kind) - frozenset(fine)


REFUSED = (
    Refused(
        "adjustment",
        frozenset({Adjustment.SCAFFOLD}),
        "optimizer",
        _all_but(Optimizer, Optimizer.SGD),
        "SCAFFOLD corrects plain gradient steps: with momentum or an adaptive rate its control variates are no mean "
        "gradients",
    ),
    Refused(
        "adjustment",
        frozenset({Adjustment.SCAFFOLD}),
        "aggregation",
        _all_but(Aggregation, Aggregation.MEAN),
        "SCAFFOLD's server takes the plain mean of models and of control variates: with other weights for the models "
        "the two no longer fit (aggregation = mean)",
    ),
    Refused(
        "aggregation",
        frozenset({Aggregation.FEDNOVA}),
        "optimizer",
        _all_but(Optimizer, Optimizer.SGD),
        "FedNova divides by the number of plain gradient steps: with momentum or an adaptive rate a step has no fixed "
        "length",
    ),
)

_EACH_UPDATE: Mapping[str, str] = {
    Selection.FLASH: "its reward needs each client's alignment",
    Aggregation.FEDOUI: "its weights need each client's indicator, so a round of scalars first",
    Aggregation.FEDALIGN: "it compares each client's change with the mean",
    Aggregation.FEDOUI_FEDALIGN: "it compares each client's change with the mean",
    Aggregation.FEDNOVA: "its weights need each client's number of steps, so a round of scalars first",
    Aggregation.MEDIAN: "it sorts the clients' values",
    Aggregation.TRIMMED: "it sorts the clients' values",
    Aggregation.CLIPPED: "it measures each client's change",
}
STOP_NEEDS = "it reads each client's losses"
"""Why an early stop needs more than sums of updates."""


def problems(parts: Parts) -> tuple[str, ...]:
    """Why these parts don't combine, a reason for each refused pair; empty if they do."""
    return tuple(
        f"{pair.part} {parts[pair.part]} with {pair.other} {parts[pair.other]}: {pair.reason}"
        for pair in REFUSED
        if pair.holds(parts)
    )


def needs_each_update(parts: Parts) -> tuple[str, ...]:
    """Why an aggregator that only learns sums (secure aggregation) can't do this; empty if sums are enough."""
    return tuple(f"{choice}: {_EACH_UPDATE[choice]}" for choice in parts.values() if choice in _EACH_UPDATE)
