"""A horizontal run as the aggregator sees it, whatever the method; `client` has the other side.

Messages in order, for each round from 1 on:

0. Where the method wants it (FLASH), `Broadcast` describe aggregator -> each client, and `Update` back with a few
   numbers about its data and how the model fits them.
1. `Broadcast` train aggregator -> each chosen client: the global model. Clients learn means of what all clients sent,
   from which much about the others can be inferred when they are few.
2. `Update` client -> aggregator: the client's model after training, on how many rows, and what the method sends
   besides; or, if the client could not, a code that says why. The aggregator learns them per client: weights reveal
   something of the rows behind them. A client that could not train is asked again in later rounds.

At the end `Broadcast` finish to all clients: the final model.

A client whose update is a failure, fails its checks or doesn't come takes no part in its round: nothing of an earlier
round stands in for it (`peers`). When too few remain the run stops with RoundError, which carries the last good model:
a run that failed never says that it is done. A method is, at the aggregator, its `Rules`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from horizontal.average import Array, Arrays, Contribution, named, unnamed
from horizontal.client import Notes, silent
from horizontal.config import HorizontalConfig
from horizontal.messages import Broadcast, Task
from horizontal.peers import Peers, failed_text
from protocols.errors import ConfigError, FedaccordError, ProtocolError
from protocols.program import (
    Checkpoint,
    Effect,
    Json,
    Observe,
    Outcome,
    Program,
    Progress,
    compute,
)


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
class Rules:
    """What a method does at the aggregator.

    `choose` (round, state, clients that can be asked) -> those that train; `advance` (round, state, contributions) ->
    the next state, and what to report of the round. `extras` is the layout of what clients send beside the model, whose
    values it may `check` (UpdateError: the client's failure). Before rounds that it `asks` for, all clients describe
    their data in the layout `described`, and it `hears` them. It may `judge` a round by its metrics, and say of a state
    that it is `enough`, and why.
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


class RoundError(FedaccordError):
    """A round had too few usable updates. `outcome` has the last good model and what happened until then."""

    code = "round"

    def __init__(self, message: str, outcome: Outcome) -> None:
        super().__init__(message, remedy="the failures of its clients say why; the last good model is kept")
        self.outcome = outcome


@dataclass(slots=True)
class _Run:
    """What changes while the aggregator runs: the state, the last finished round, and what is reported of each."""

    state: State
    finished: int = 0
    history: dict[str, Json] = field(default_factory=dict)
    ended: str = ""

    def outcome(self, end: str, gone: Mapping[str, str]) -> Outcome:
        report: dict[str, Json] = {
            "end": end,
            "last_good": f"round {self.finished}" if self.finished else "the initial model",
            "rounds": self.history,
        }
        report.update({"gone": dict(gone)} if gone else {})
        report.update({"ended_early": self.ended} if self.ended else {})
        return Outcome(report, named("model", self.state.model))

    def pack(self) -> dict[str, Array]:
        text = json.dumps(self.history).encode()
        parts = (("model", self.state.model), ("shared", self.state.shared), ("kept", self.state.kept))
        packed = {"round": np.array(self.finished), "history": np.frombuffer(text, np.uint8)}
        return packed | {name: value for part, arrays in parts for name, value in named(part, arrays).items()}

    @classmethod
    def unpack(cls, packed: Arrays) -> _Run:
        state = State(**{part: unnamed(part, packed) for part in ("model", "shared", "kept")})
        return cls(state, int(packed["round"]), json.loads(packed["history"].tobytes()))


def aggregator_program(
    initial: State,
    clients: Sequence[str],
    rules: Rules,
    config: HorizontalConfig,
    *,
    validate: Validate | None = None,
    observe: Observe = silent,
    resume: Arrays | None = None,
) -> Program[Outcome]:
    """The run as the aggregator sees it; its Outcome has the final model, under `model.`, and all rounds.

    `resume` is the state of one of its checkpoints; clients then resume from their newest one of that round or before.
    Raises RoundError after a round in which fewer than `minimum_clients` clients trained on any rows, or whose updates
    the rules refuse; ConfigError if there never are so many clients.
    """
    if not 0 < config.minimum_clients <= len(clients):
        raise ConfigError(
            f"a round needs at least {config.minimum_clients} clients, there are {len(clients)}"
        )
    run = _Run(initial) if resume is None else _Run.unpack(resume)
    peers = Peers(clients, config.maximum_examples, rules.check)
    for number in range(run.finished + 1, config.rounds + 1):
        if reason := rules.enough(run.state):
            run.ended = f"before round {number}: {reason}"
            break
        failures = yield from _round(number, run, peers, rules, config, validate)
        if number % config.checkpoint_every == 0 or number == config.rounds:
            yield Checkpoint(number, run.pack())
        loss = _loss(run.history[str(number)])
        observe(Progress("rounds", number, config.rounds, loss, failed_text(failures)))
    last = Broadcast.of(run.finished, Task.FINISH, run.state.model)
    for client in peers.present:
        yield from peers.tell(client, last)
    yield from peers.settle()
    return run.outcome("done", peers.gone)


def _round(
    number: int, run: _Run, peers: Peers, rules: Rules, config: HorizontalConfig, validate: Validate | None
) -> Generator[Effect, object, Mapping[str, str]]:
    """One round: moves `run` on, or RoundError. Its result is the failures."""
    undescribed: Mapping[str, str] = {}
    if rules.asks(number):
        message = Broadcast.of(number, Task.DESCRIBE, run.state.model)
        heard, undescribed = yield from peers.ask(peers.present, message, {}, rules.described)
        run.state = rules.hear(run.state, heard)
    chosen = rules.choose(number, run.state, peers.present)
    message = Broadcast.of(number, Task.TRAIN, run.state.model, run.state.shared)
    used, failures = yield from peers.ask(chosen, message, run.state.model, rules.extras)
    record: dict[str, Json] = {"clients": [c.client for c in used], "failures": failures}
    record.update({"undescribed": undescribed} if undescribed else {})
    run.history[str(number)] = record
    try:
        _check_enough(used, config.minimum_clients)
        state, notes = yield from compute(rules.advance, number, run.state, used)
        metrics = {} if validate is None else (yield from compute(validate, state.model))
    except FedaccordError as problem:
        stopped = run.outcome("stopped", peers.gone)
        raise RoundError(f"round {number}: {problem}{failed_text(failures)}", stopped) from problem
    record.update({**notes, **metrics})
    run.state, run.finished = rules.judge(state, used, metrics), number
    return failures


def _check_enough(used: Sequence[Contribution], minimum_clients: int) -> None:
    trained = sum(contribution.examples > 0 for contribution in used)
    if trained < minimum_clients and (
        trained or not used
    ):  # all used ones without rows: the mean says so itself
        raise ProtocolError(f"{trained} clients sent a usable update, the minimum is {minimum_clients}")


def _loss(record: Json) -> float | None:
    loss = record.get("loss") if isinstance(record, Mapping) else None
    return loss if isinstance(loss, float) else None
