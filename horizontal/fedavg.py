"""Federated averaging: McMahan et al., "Communication-efficient learning of deep networks from decentralized data",
arXiv 1602.05629, algorithm 1. Settings, the programs of both roles, and `simulate` for research on one machine.

    clients = {"client-1": Examples(x1, y1), "client-2": Examples(x2, y2)}
    result = fedavg.simulate(nn.Linear(20, 2), clients, FedAvgConfig(rounds=50))
    result.model(x), result.report["rounds"]

A client's weights travel whole, not as a change, so that the mean of one client is that client's model bit for bit;
the aggregator, which knows the model they started from, can still take differences. No torch is loaded before a program
is made: a request is made and reviewed without it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias, cast

from horizontal import rounds
from horizontal.average import Arrays, Contribution, size_weighted_mean, uniform_mean
from horizontal.messages import Broadcast, Update
from horizontal.rounds import AGGREGATOR, RoundError, silent
from protocols import program
from protocols.errors import ConfigError
from protocols.program import Json, Observe, Outcome, Program
from protocols.seeds import PrivateSeed, derive, injected

if TYPE_CHECKING:
    from torch import nn

    from horizontal.local import Examples, Objective

Scalar: TypeAlias = str | int | float | bool


class Weighting(StrEnum):
    """How much a client's weights count: by its number of rows, or all the same."""

    SIZE = "size"
    UNIFORM = "uniform"


@dataclass(frozen=True, slots=True, kw_only=True)
class FedAvgConfig:
    """Settings of one run; validated, the bad value stands in the ConfigError.

    `rounds`; `fraction` C of the clients per round, but never fewer than `minimum_clients`, without which
    a round fails (the mean of one client is that client's model). Per client and round: `epochs` E, `batch` B
    rows (a large one: full batches), `learning_rate` of plain SGD. `weighting` of the mean.
    """

    rounds: int = 20
    fraction: float = 1.0
    minimum_clients: int = 2
    epochs: int = 1
    batch: int = 32
    learning_rate: float = 0.1
    weighting: Weighting = Weighting.SIZE

    def __post_init__(self) -> None:
        if self.weighting not in tuple(Weighting):
            raise ConfigError(f"weighting must be one of {', '.join(Weighting)}, came {self.weighting!r}")
        object.__setattr__(self, "weighting", Weighting(self.weighting))
        for name, (low, high) in _RANGES.items():
            value, kind = getattr(self, name), type(low)
            if type(value) is not kind:
                raise ConfigError(f"{name}: expected {kind.__name__}, came {value!r}")
            if not (math.isfinite(value) and low <= value <= high):
                raise ConfigError(f"{name} must lie in [{low:g}, {high:g}], came {value!r}")

    def to_parameters(self) -> tuple[tuple[str, Scalar], ...]:
        """Every setting as (name, scalar), sorted by name: what a request carries."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return tuple(sorted((name, str(v) if isinstance(v, StrEnum) else v) for name, v in values))

    @classmethod
    def from_parameters(cls, parameters: Iterable[tuple[str, Scalar]]) -> FedAvgConfig:
        """The settings of a request; each one must be there once, so that no default changes an approved run."""
        given = list(parameters)
        known = sorted(field.name for field in fields(cls))
        if sorted(name for name, _ in given) != known:
            raise ConfigError(
                f"expected each once: {', '.join(known)}; came {', '.join(n for n, _ in given)}"
            )
        return cls(**dict(given))  # type: ignore[arg-type]  # __post_init__ checks each type


_LARGE = 10_000_000
_RANGES: Mapping[str, tuple[int, int] | tuple[float, float]] = {
    "rounds": (1, _LARGE),
    "fraction": (0.0, 1.0),
    "minimum_clients": (1, _LARGE),
    "epochs": (1, _LARGE),
    "batch": (1, _LARGE),
    "learning_rate": (1e-9, 100.0),
}
_MEANS = {Weighting.SIZE: size_weighted_mean, Weighting.UNIFORM: uniform_mean}


def aggregator_program(
    model: nn.Module,
    clients: Sequence[str],
    config: FedAvgConfig,
    public_seed: int,
    observe: Observe = silent,
    *,
    validate: rounds.Validate | None = None,
) -> Program[Outcome]:
    """The aggregator's program, from the model's present weights on; see `rounds.aggregator_program`."""
    from horizontal.weights import model_arrays

    def advance(state: Arrays, contributions: Sequence[Contribution]) -> Arrays:
        return _MEANS[config.weighting](contributions)

    return rounds.aggregator_program(
        model_arrays(model),
        clients,
        rounds=config.rounds,
        minimum_clients=config.minimum_clients,
        choose=rounds.choose_uniformly(clients, config.fraction, config.minimum_clients, public_seed),
        advance=advance,
        validate=validate,
        observe=observe,
    )


def client_program(
    model: nn.Module,
    examples: Examples,
    config: FedAvgConfig,
    private_seed: PrivateSeed,
    observe: Observe = silent,
    *,
    objective: Objective | None = None,
) -> Program[Outcome]:
    """A client's program; `model` gives the architecture and is overwritten, `objective` None is cross-entropy."""
    work = client_work(model, examples, config, private_seed, objective)
    return rounds.client_program(work, config.rounds, observe)


def client_work(
    model: nn.Module,
    examples: Examples,
    config: FedAvgConfig,
    private_seed: PrivateSeed,
    objective: Objective | None = None,
) -> rounds.Work:
    """What a client does in a round: `epochs` of SGD from the broadcast weights on, with the round's own seed."""
    import torch

    from horizontal import local, weights

    def work(broadcast: Broadcast) -> Update:
        weights.set_model(model, broadcast.arrays(), AGGREGATOR)
        order = torch.Generator().manual_seed(derive(private_seed, f"order of round {broadcast.round}"))
        training = local.train(
            model,
            torch.optim.SGD(model.parameters(), lr=config.learning_rate),
            examples,
            local.plan(len(examples), epochs=config.epochs, batch=config.batch, generator=order),
            seed=derive(private_seed, f"model of round {broadcast.round}"),
            objective=objective or local.cross_entropy,
        )
        return Update.trained(broadcast.round, training.examples, weights.model_arrays(model))

    return work


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Simulation:
    """What a simulated run leaves: the final model, the aggregator's report and each client's."""

    model: nn.Module
    report: Mapping[str, Json]
    clients: Mapping[str, Mapping[str, Json]]


def simulate(
    model: nn.Module,
    clients: Mapping[str, Examples],
    config: FedAvgConfig,
    *,
    seed: int = 0,
    objective: Objective | None = None,
    validate: Callable[[nn.Module], float] | None = None,
    observe: Observe = silent,
) -> Simulation:
    """A whole run in this thread, from the model's present weights on; the model itself is left as it is.

    With equal arguments all numbers are equal. `validate` gets the global model after each round, in evaluation mode;
    what it returns stands in the report. Raises RoundError, caused by the last error of a client if there was one.
    """
    from horizontal.weights import set_model

    if AGGREGATOR in clients:
        raise ConfigError(f"a client can't be called {AGGREGATOR}")
    result, scratch = (
        copy.deepcopy(model),
        copy.deepcopy(model),
    )  # one for all clients: each sets all of it first
    problems: list[Exception] = []

    def judge(state: Arrays) -> float:
        assert validate is not None
        set_model(result, state, AGGREGATOR)
        return validate(result.eval())

    judged = None if validate is None else judge
    programs: dict[str, Program[object]] = {
        AGGREGATOR: aggregator_program(model, tuple(clients), config, seed, observe, validate=judged)
    }
    for name, examples in clients.items():
        work = client_work(scratch, examples, config, injected(seed, name), objective)
        programs[name] = rounds.client_program(_remembering(work, problems), config.rounds)
    try:
        outcomes = cast(dict[str, Outcome], program.simulate(programs))
    except RoundError as error:
        if problems:
            raise error from problems[-1]
        raise
    final = outcomes[AGGREGATOR].artifacts
    set_model(result, {name.removeprefix("model."): value for name, value in final.items()}, AGGREGATOR)
    return Simulation(
        model=result.eval(),
        report=outcomes[AGGREGATOR].report,
        clients={name: outcomes[name].report for name in clients},
    )


def _remembering(work: rounds.Work, problems: list[Exception]) -> rounds.Work:
    """The same work, which also keeps its errors: on one machine the researcher may see them."""

    def remember(broadcast: Broadcast) -> Update:
        try:
            return work(broadcast)
        except Exception as problem:
            problems.append(problem)
            raise

    return remember
