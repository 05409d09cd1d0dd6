"""What a method is to the aggregator: the state between rounds, and the rules by which a round moves it on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from horizontal.average import Arrays, Contribution
from horizontal.client import Notes
from horizontal.masked_sum import Summed, SumTerms


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class State:
    """What the aggregator has between rounds: the global model, what is sent along with it, what it keeps to itself."""

    model: Arrays
    shared: Arrays = field(default_factory=dict)
    kept: Arrays = field(default_factory=dict)


Metrics: TypeAlias = Mapping[str, float]
"""What a model is worth, by name; `loss` among them is used for early stopping and progress."""
Validate: TypeAlias = Callable[[Arrays], Metrics]
"""The metrics of a model on rows that the aggregator may have, such as public ones."""


def nobody_asks(number: int) -> bool:
    """Rounds before which clients describe their data: none."""
    return False


def accepted(contribution: Contribution) -> None:
    """Finds nothing wrong."""


def unchanged(state: State, contributions: Sequence[Contribution], metrics: Metrics | None = None) -> State:
    """The state as it was."""
    return state


def never_enough(state: State) -> str:
    """No reason to stop."""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """What a method does with sums alone: what they are made of, and (round, state, sum) -> as `Rules.advance`."""

    terms: SumTerms
    advance: Callable[[int, State, Summed], tuple[State, Notes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a method does at the aggregator.

    `choose` (round, state, clients that can be asked) -> those that train; `advance` (round, state, contributions) ->
    the next state, and what to report of the round. `extras` is the layout of what clients send beside the model, whose
    values it may `check` (UpdateError: the client's failure). Before rounds that it `asks` for, all clients describe
    their data in the layout `described`, and it `hears` them. It may `judge` a round by its metrics, and say of a state
    that it is `enough`, and why. With `sums` (secure aggregation) these take the place of `advance` and `check`.
    """

    choose: Callable[[int, State, Sequence[str]], Sequence[str]]
    advance: Callable[[int, State, Sequence[Contribution]], tuple[State, Notes]]
    extras: Arrays = field(default_factory=dict)
    check: Callable[[Contribution], None] = accepted
    asks: Callable[[int], bool] = nobody_asks
    described: Arrays = field(default_factory=dict)
    hear: Callable[[State, Sequence[Contribution]], State] = unchanged
    judge: Callable[[State, Sequence[Contribution], Metrics], State] = unchanged
    enough: Callable[[State], str] = never_enough
    sums: Sums | None = None
