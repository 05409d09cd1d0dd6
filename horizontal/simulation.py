"""A whole run of any combination on any number of clients in this thread, for research.

    clients = {"client-1": Examples(x1, y1), "client-2": Examples(x2, y2)}
    result = simulate(nn.Linear(20, 2), clients, method("fedprox", rounds=50))
    result.model(x), result.curve("loss")

The programs are those that run between parties, with injected private seeds: one by one the numbers are the same bits.
With `together` equal small models of many clients are trained as one, which is faster and equal to 1e-5. Memory grows
with the clients' rows, with what each remembers (SCAFFOLD: a control variate) and with the updates of one round, not
with clients times models.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, cast

import numpy as np
from torch import nn

from horizontal import flash
from horizontal.average import Arrays, unnamed
from horizontal.client import silent
from horizontal.client_data import ClientData
from horizontal.computing import Computing
from horizontal.config import HorizontalConfig
from horizontal.job import MakeOptimizer
from horizontal.local import Examples, Objective
from horizontal.messages import AGGREGATOR
from horizontal.programs import aggregator_program, client_program
from horizontal.round_rules import Metrics, Validate
from horizontal.rounds import RoundError
from horizontal.together import why_apart
from horizontal.weights import set_model
from horizontal.work import ClientWork, Effort
from protocols import program
from protocols.errors import ConfigError
from protocols.masking import Identity, identities
from protocols.program import Checkpoint, Json, Observe, Outcome, Program
from protocols.seeds import injected
from protocols.wire import Message, encoded_size, pack_arrays, unpack_arrays

Save: TypeAlias = Callable[[int, bytes], None]
"""Stores the state of a whole simulation after a round, as bytes that `resume` takes."""


@dataclass(slots=True)
class Traffic:
    """Bytes of all messages of a run, to clients and back."""

    to_clients: int = 0
    to_aggregator: int = 0

    def add(self, sender: str, to: str, message: Message) -> None:
        """Counts one message."""
        if sender == AGGREGATOR:
            self.to_clients += encoded_size(message)
        else:
            self.to_aggregator += encoded_size(message)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Simulation:
    """What a simulated run leaves: the final model, the aggregator's report, each client's, and the bytes sent."""

    model: nn.Module
    report: Mapping[str, Json]
    clients: Mapping[str, Mapping[str, Json]]
    traffic: Traffic

    def curve(self, name: str) -> list[tuple[int, float]]:
        """(round, value) of a metric of the aggregator's validation; rounds without it are left out."""
        history = cast(Mapping[str, Mapping[str, float]], self.report["rounds"])
        return [(int(number), record[name]) for number, record in history.items() if name in record]


@dataclass(frozen=True, slots=True, kw_only=True)
class Research:
    """What research may replace and requests can't: the objective, the optimizer, FLASH's context and reward.

    `efforts` are clients' numbers of local epochs by round (`latency`), where they aren't all of them.
    """

    objective: Objective | None = None
    optimizer: MakeOptimizer | None = None
    context: flash.Context = flash.default_context
    reward: flash.Reward | None = None
    efforts: Mapping[str, Effort] = field(default_factory=dict)


def simulate(
    model: nn.Module,
    clients: Mapping[str, ClientData | Examples],
    config: HorizontalConfig,
    *,
    seed: int = 0,
    research: Research | None = None,
    validate: Callable[[nn.Module], Metrics] | None = None,
    together: bool = False,
    observe: Observe = silent,
    save: Save | None = None,
    resume: bytes | None = None,
) -> Simulation:
    """A run from the model's present weights on; the model itself is left as it is.

    With equal arguments all numbers are equal. `validate` gets the global model after each round, in evaluation mode;
    its metrics stand in the report. `save` gets the state of everything every `checkpoint_every` rounds, from which
    `resume` goes on to the same end.

    Raises RoundError, caused by the last error of a client if there was one; ConfigError if these clients can't be
    trained `together`, with the reason.
    """
    research = research or Research()
    if AGGREGATOR in clients:
        raise ConfigError(f"a client can't be called {AGGREGATOR}")
    if together and (reason := why_apart(model, config, research.optimizer)):
        raise ConfigError(f"these clients can't be trained together: {reason}")
    states = {} if resume is None else _unpack(resume, clients)
    result = copy.deepcopy(model)
    judge = None if validate is None else _judge(result, validate)
    who = identities((AGGREGATOR, *clients)) if config.secure_aggregation else {}
    aggregator = aggregator_program(
        model,
        tuple(clients),
        config,
        seed,
        injected(seed, AGGREGATOR),
        validate=judge,
        context=research.context,
        reward=research.reward,
        observe=observe,
        resume=states.get(AGGREGATOR),
        identity=who.get(AGGREGATOR),
    )
    programs = {AGGREGATOR: aggregator, **_clients(model, clients, config, seed, research, states, who)}
    traffic, computing = Traffic(), Computing(config, together=together)
    keep = _Keeper(states, save).keep
    try:
        outcomes = program.simulate(programs, observe=traffic.add, compute_all=computing, keep=keep)
    except RoundError as error:
        raise error from (computing.problems[-1] if computing.problems else error.__cause__)
    final = cast(Outcome, outcomes[AGGREGATOR])
    set_model(result, unnamed("model", final.artifacts), AGGREGATOR)
    reports = {name: cast(Outcome, outcomes[name]).report for name in clients}
    return Simulation(model=result.eval(), report=final.report, clients=reports, traffic=traffic)


def _clients(
    model: nn.Module,
    clients: Mapping[str, ClientData | Examples],
    config: HorizontalConfig,
    seed: int,
    research: Research,
    states: Mapping[str, Arrays],
    who: Mapping[str, Identity],
) -> dict[str, Program[object]]:
    """The clients' programs, with one model for all: each sets all of its weights first."""
    scratch, programs = copy.deepcopy(model), dict[str, Program[object]]()
    for name, data in clients.items():
        work = ClientWork(
            scratch,
            ClientData(training=data) if isinstance(data, Examples) else data,
            config,
            injected(seed, name),
            objective=research.objective,
            optimizer=research.optimizer,
            effort=research.efforts.get(name),
        )
        programs[name] = client_program(work, resume=states.get(name), identity=who.get(name))
    return programs


def _judge(model: nn.Module, validate: Callable[[nn.Module], Metrics]) -> Validate:
    def judge(arrays: Arrays) -> Metrics:
        set_model(model, arrays, AGGREGATOR)
        return validate(model.eval())

    return judge


class _Keeper:
    """The newest checkpoint of each role; the aggregator's, which is the last of a round, saves all of them."""

    def __init__(self, states: Mapping[str, Arrays], save: Save | None) -> None:
        self._states, self._save = dict(states), save

    def keep(self, role: str, checkpoint: Checkpoint) -> None:
        if self._save is None:
            return
        self._states[role] = checkpoint.state
        if role == AGGREGATOR:
            packed = {
                name: np.frombuffer(pack_arrays(state), np.uint8) for name, state in self._states.items()
            }
            self._save(checkpoint.step, pack_arrays(packed))


def _unpack(saved: bytes, clients: Container[str]) -> dict[str, Arrays]:
    """The states by role. WireError for other bytes, ConfigError for those of a run with other clients."""
    packed = unpack_arrays(saved)
    states: dict[str, Arrays] = {role: unpack_arrays(state.tobytes()) for role, state in packed.items()}
    if strangers := [role for role in states if role != AGGREGATOR and role not in clients]:
        raise ConfigError(f"the saved state is of a run with other clients, such as {strangers[0]}")
    return states
