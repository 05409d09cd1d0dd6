"""The two programs of a horizontal run, whatever the algorithm: aggregator and client.

Messages in order, for each round from 1 on:

1. `Broadcast` aggregator -> each chosen client: the global model. Clients learn means of what all clients sent, from
   which much about the others can be inferred when they are few.
2. `Update` client -> aggregator: the client's weights after training and on how many rows; or, if the client could
   not, a code that says why. The aggregator learns them per client: weights reveal something of the rows behind
   them. A client that could not train is asked again in later rounds.

At the end `Broadcast` with `last` to all clients: the final model.

A client whose update is a failure or fails its checks takes no part in its round: nothing of an earlier round stands
in for it. When too few remain the run stops with RoundError, which carries the last good model. An algorithm is
three functions: whom to `Choose`, what a client's `Work` answers, and how to `Advance` from updates to the next state.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from horizontal.average import Array, Arrays, Contribution, check_contribution
from horizontal.messages import Broadcast, Update
from protocols.errors import ConfigError, FedaccordError, ProtocolError, Stopped, to_wire
from protocols.program import (
    Checkpoint,
    Effect,
    Json,
    Observe,
    Outcome,
    Program,
    Progress,
    Send,
    compute,
    receive,
)
from protocols.seeds import numpy_generator

AGGREGATOR = "aggregator"
"""The aggregator's role."""

Choose: TypeAlias = Callable[[int], Sequence[str]]
"""The clients of a round, by its number from 1."""
Work: TypeAlias = Callable[[Broadcast], Update]
"""What a client answers. What it raises becomes a failure of this client in this round."""
Advance: TypeAlias = Callable[[Arrays, Sequence[Contribution]], Arrays]
"""(state, contributions of a round) -> the next state, of the same names, dtypes and shapes."""
Validate: TypeAlias = Callable[[Arrays], float]
"""The loss of a state on rows that the aggregator may have, such as public ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What happened in one round: whose updates were used, a code for each other chosen client, and the loss."""

    number: int
    clients: tuple[str, ...]
    failures: Mapping[str, str]
    loss: float | None = None

    def report(self) -> dict[str, Json]:
        """The round as a report has it: texts only, but for the loss."""
        loss: dict[str, Json] = {} if self.loss is None else {"loss": self.loss}
        return {"clients": list(self.clients), "failures": dict(self.failures), **loss}


class RoundError(FedaccordError):
    """A round had too few usable updates. `outcome` has the last good model and what happened until then."""

    code = "round"

    def __init__(self, message: str, outcome: Outcome) -> None:
        super().__init__(message, remedy="the failures of its clients say why; the last good model is kept")
        self.outcome = outcome


def silent(progress: Progress) -> None:
    """An observer that does nothing."""


def choose_uniformly(clients: Sequence[str], fraction: float, at_least: int, public_seed: int) -> Choose:
    """A choice of `fraction` of the clients, halves up, but of `at_least` so many; in their given order.

    It depends on these values and the round alone. Raises ConfigError if there are fewer than `at_least`.
    """
    if not 0 < at_least <= len(clients):
        raise ConfigError(f"a round needs at least {at_least} clients, there are {len(clients)}")
    size = min(len(clients), max(at_least, math.floor(fraction * len(clients) + 0.5 + 1e-9)))

    def choose(number: int) -> Sequence[str]:
        generator = numpy_generator(public_seed, f"clients of round {number}")
        return [clients[i] for i in sorted(generator.permutation(len(clients))[:size])]

    return choose


def aggregator_program(
    initial: Arrays,
    clients: Sequence[str],
    *,
    rounds: int,
    minimum_clients: int,
    choose: Choose,
    advance: Advance,
    validate: Validate | None = None,
    observe: Observe = silent,
) -> Program[Outcome]:
    """The run as the aggregator sees it; its Outcome has the final state, under `model.`, and all rounds.

    Every good state is a checkpoint. Raises RoundError after a round in which fewer than `minimum_clients` clients
    trained on any rows, or whose updates `advance` refuses.
    """
    state: Arrays = initial
    history: list[Round] = []
    for number in range(1, rounds + 1):
        used, failures = yield from _collect(number, choose(number), state)
        record = Round(number=number, clients=tuple(c.client for c in used), failures=failures)
        try:
            _check_enough(used, minimum_clients)
            state = yield from compute(advance, state, used)
        except FedaccordError as problem:
            stopped = _outcome("stopped", state, [*history, record], last_good=number - 1)
            raise RoundError(f"round {number}: {problem}{_failed(failures)}", stopped) from problem
        loss = None if validate is None else (yield from compute(validate, state))
        history.append(Round(number=number, clients=record.clients, failures=failures, loss=loss))
        yield Checkpoint(number, {"round": np.array(number), **_artifacts(state)})
        observe(Progress("rounds", number, rounds, loss, _failed(failures)))
    for client in clients:
        yield Send(client, Broadcast.of(rounds, state, last=True))
    return _outcome("done", state, history, last_good=rounds)


def _collect(
    number: int, chosen: Sequence[str], state: Arrays
) -> Generator[Effect, object, tuple[list[Contribution], dict[str, str]]]:
    """One round trip with all chosen clients: usable contributions, and a code for each other client."""
    message = Broadcast.of(number, state)
    for client in chosen:
        yield Send(client, message)
    used: list[Contribution] = []
    failures: dict[str, str] = {}
    for client in chosen:
        update = yield from receive(client, Update)
        if update.round != number:
            raise ProtocolError(f"Update from {client}: expected round {number}, came {update.round}")
        if update.failure:
            failures[client] = _code(update.failure)
            continue
        try:
            contribution = Contribution(client=client, examples=update.examples, arrays=update.arrays())
            check_contribution(contribution, state)
        except FedaccordError as problem:
            failures[client] = problem.code
        else:
            used.append(contribution)
    return used, failures


def _code(failure: str) -> str:
    # It comes from another machine: only something shaped like a code may reach our report.
    return failure if re.fullmatch(r"[a-z][a-z_]{0,39}", failure) else "unknown"


def _check_enough(used: Sequence[Contribution], minimum_clients: int) -> None:
    trained = sum(contribution.examples > 0 for contribution in used)
    if trained < minimum_clients and (
        trained or not used
    ):  # all used ones without rows: the mean says so itself
        raise ProtocolError(f"{trained} clients sent a usable update, the minimum is {minimum_clients}")


def _failed(failures: Mapping[str, str]) -> str:
    return "; failed: " + ", ".join(f"{c} ({code})" for c, code in failures.items()) if failures else ""


def _artifacts(state: Arrays) -> dict[str, Array]:
    return {f"model.{name}": value for name, value in state.items()}


def _outcome(end: str, state: Arrays, history: Sequence[Round], *, last_good: int) -> Outcome:
    report: dict[str, Json] = {
        "end": end,
        "last_good": f"round {last_good}" if last_good else "the initial model",
        "rounds": {str(entry.number): entry.report() for entry in history},
    }
    return Outcome(report, _artifacts(state))


def client_program(work: Work, rounds: int, observe: Observe = silent) -> Program[Outcome]:
    """The run as a client sees it; its Outcome has the final model, under `model.`, and its own failed rounds.

    An error of `work` costs the client this round; the aggregator learns its code only. Raises ProtocolError for a
    message out of turn.
    """
    before, taken, failures = 0, 0, dict[str, str]()
    while True:
        broadcast = yield from receive(AGGREGATOR, Broadcast)
        if broadcast.last:
            report: dict[str, Json] = {"end": "done", "took_part": f"{taken} rounds", "failures": failures}
            return Outcome(report, _artifacts(broadcast.arrays()))
        if not before < broadcast.round <= rounds:
            expected = f"expected round {before + 1} to {rounds}, came {broadcast.round}"
            raise ProtocolError(f"Broadcast from {AGGREGATOR}: {expected}")
        before = broadcast.round
        try:
            update = yield from compute(work, broadcast)
            taken += 1
        except Stopped:
            raise
        except Exception as problem:  # whatever goes wrong in here, the other clients can go on without it
            update = Update.failed(before, to_wire(problem))
            failures[str(before)] = update.failure
        yield Send(AGGREGATOR, update)
        observe(Progress("rounds", before, rounds, note=update.failure))
