"""The programs of both roles for a configured method: what a worker runs, and a simulation too."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from horizontal import client, flash, rounds
from horizontal.average import Arrays
from horizontal.client import silent
from horizontal.config import HorizontalConfig
from horizontal.masked_client import Masking
from horizontal.masked_sum import SumTerms
from horizontal.round_rules import Validate
from horizontal.rules import Method
from horizontal.work import ClientWork
from protocols.errors import ConfigError
from protocols.masking import Identity
from protocols.program import Observe, Outcome, Program
from protocols.seeds import PrivateSeed


def aggregator_program(
    model: nn.Module,
    clients: Sequence[str],
    config: HorizontalConfig,
    public_seed: int,
    private_seed: PrivateSeed,
    *,
    validate: Validate | None = None,
    context: flash.Context = flash.default_context,
    reward: flash.Reward | None = None,
    observe: Observe = silent,
    resume: Arrays | None = None,
    identity: Identity | None = None,
) -> Program[Outcome]:
    """The aggregator's program, from the model's present weights on; see `rounds.aggregator_program`."""
    method = Method.of(model, clients, config, public_seed, private_seed, context=context, reward=reward)
    start = method.start(model)
    return rounds.aggregator_program(
        start,
        clients,
        method.rules(start.model),
        config,
        validate=validate,
        observe=observe,
        resume=resume,
        identity=identity,
    )


def client_program(
    work: ClientWork,
    *,
    observe: Observe = silent,
    resume: Arrays | None = None,
    identity: Identity | None = None,
) -> Program[Outcome]:
    """A client's program: its work in each round, and the final model on its own test rows.

    ConfigError for secure aggregation without an `identity`.
    """
    config, masking = work.config, None
    if config.secure_aggregation:
        if identity is None:
            raise ConfigError("secure aggregation needs an identity: who signs this client's keys")
        masking = Masking(identity=identity, terms=SumTerms.of(config))
    return client.client_program(
        work, config.rounds, observe, evaluate=work.evaluate, resume=resume, masking=masking
    )
