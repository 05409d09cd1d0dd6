"""A horizontal run as the aggregator sees it, whatever the method; `client` has the other side.

Messages in order, for each round from 1 on:

0. Where the method wants it (FLASH), `Broadcast` describe aggregator -> each client, and `Update` back with a few
   numbers about its data and how the model fits them.
1. `Broadcast` train aggregator -> each chosen client: the global model. Clients learn means of what all clients sent,
   from which much about the others can be inferred when they are few.
2. `Update` client -> aggregator: the client's model after training, on how many rows, and what the method sends
   besides; or, if the client could not, a code that says why. The aggregator learns them per client: weights reveal
   something of the rows behind them. A client that could not train is asked again in later rounds.

With secure aggregation 2 is replaced by the messages of `masked_rounds`, and the aggregator learns sums only.

At the end `Broadcast` finish to all clients: the final model.

A client whose update is a failure, fails its checks or doesn't come by the round's deadline takes no part in its round,
and a late one in none until it has answered: nothing of an earlier round stands in for it (`peers`). When too few
remain the run stops with RoundError, which carries the last good model: a run that failed never says that it is done. A
method is, at the aggregator, its `Rules`.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from horizontal.average import Array, Arrays, named, unnamed
from horizontal.client import silent
from horizontal.config import HorizontalConfig
from horizontal.gathering import check_enough, gather
from horizontal.messages import Broadcast, Task
from horizontal.peers import Peers, failed_text
from horizontal.round_rules import Rules, State, Validate
from protocols.errors import ConfigError, FedaccordError
from protocols.masking import Identity
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
    identity: Identity | None = None,
) -> Program[Outcome]:
    """The run as the aggregator sees it; its Outcome has the final model, under `model.`, and all rounds.

    `resume` is the state of one of its checkpoints; clients then resume from their newest one of that round or before.
    Raises RoundError after a round in which fewer than `minimum_clients` clients trained on any rows, or whose updates
    the rules refuse; ConfigError if there never are so many clients, or for sums without an `identity`.
    """
    if not 0 < config.minimum_clients <= len(clients):
        raise ConfigError(
            f"a round needs at least {config.minimum_clients} clients, there are {len(clients)}"
        )
    if rules.sums is not None and identity is None:
        raise ConfigError("secure aggregation needs an identity: whose signatures clients' keys must have")
    run = _Run(initial) if resume is None else _Run.unpack(resume)
    peers = Peers(clients, config.maximum_examples, rules.check, config.round_deadline_s)
    for number in range(run.finished + 1, config.rounds + 1):
        if reason := rules.enough(run.state):
            run.ended = f"before round {number}: {reason}"
            break
        failures = yield from _round(number, run, peers, rules, config, validate, identity)
        if number % config.checkpoint_every == 0 or number == config.rounds:
            yield Checkpoint(number, run.pack())
        loss = _loss(run.history[str(number)])
        observe(Progress("rounds", number, config.rounds, loss, failed_text(failures)))
    yield from peers.settle()
    last = Broadcast.of(run.finished, Task.FINISH, run.state.model)
    for client in peers.present:
        yield from peers.tell(client, last)
    return run.outcome("done", peers.gone)


def _round(
    number: int,
    run: _Run,
    peers: Peers,
    rules: Rules,
    config: HorizontalConfig,
    validate: Validate | None,
    identity: Identity | None,
) -> Generator[Effect, object, Mapping[str, str]]:
    """One round: moves `run` on, or RoundError. Its result is the failures."""
    undescribed: Mapping[str, str] = {}
    if rules.asks(number):
        free = yield from peers.free()
        message = Broadcast.of(number, Task.DESCRIBE, run.state.model)
        heard, undescribed = yield from peers.ask(free, message, {}, rules.described)
        run.state = rules.hear(run.state, heard)
    free = yield from peers.free()
    busy = [client for client in peers.present if client not in free]
    chosen = rules.choose(number, run.state, free)
    message = Broadcast.of(number, Task.TRAIN, run.state.model, run.state.shared)
    gathered = yield from gather(peers, chosen, message, run.state, rules, identity)
    failures = gathered.failures
    record: dict[str, Json] = {"clients": list(gathered.clients), "failures": failures}
    record.update({"undescribed": undescribed} if undescribed else {})
    record.update({"busy": busy} if busy else {})
    run.history[str(number)] = record
    if gathered.void:
        record["void"] = "a client was lost when the sum was to be opened"
        run.finished = number
        return failures
    try:
        check_enough(gathered, config.minimum_clients)
        state, notes = yield from compute(gathered.advance)
        metrics = {} if validate is None else (yield from compute(validate, state.model))
    except FedaccordError as problem:
        stopped = run.outcome("stopped", peers.gone)
        raise RoundError(f"round {number}: {problem}{failed_text(failures)}", stopped) from problem
    record.update({**notes, **metrics})
    run.state, run.finished = rules.judge(state, gathered.used, metrics), number
    return failures


def _loss(record: Json) -> float | None:
    loss = record.get("loss") if isinstance(record, Mapping) else None
    return loss if isinstance(loss, float) else None
