"""How a round's updates come to the aggregator: one by one, or as their sum alone."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from horizontal.average import Contribution
from horizontal.client import Notes
from horizontal.masked_rounds import SumAnswer, SumRound
from horizontal.messages import Broadcast
from horizontal.peers import Peers
from horizontal.round_rules import Rules, State
from protocols.errors import ProtocolError
from protocols.masking import Identity
from protocols.program import Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """What the clients of a round sent, each alone or as a sum, and how the run goes on with it."""

    clients: Sequence[str]
    trained: int
    failures: Mapping[str, str]
    advance: Callable[[], tuple[State, Notes]]
    used: Sequence[Contribution] = ()
    void: bool = False


def gather(
    peers: Peers,
    chosen: Sequence[str],
    message: Broadcast,
    state: State,
    rules: Rules,
    identity: Identity | None,
) -> Generator[Effect, object, Gathered]:
    """One round trip of training with the chosen clients; under masks if the rules say so."""
    number, sums = message.round, rules.sums
    if sums is None or identity is None:
        used, failures = yield from peers.ask(chosen, message, state.model, rules.extras)
        return Gathered(
            clients=[contribution.client for contribution in used],
            trained=sum(contribution.examples > 0 for contribution in used),
            failures=failures,
            advance=partial(rules.advance, number, state, used),
            used=used,
        )
    asking = SumRound(model=state.model, extras=rules.extras, terms=sums.terms, identity=identity)
    answer = yield from asking.ask(peers, chosen, message)
    return Gathered(
        clients=answer.clients,
        trained=len(answer.clients),
        failures=answer.failures,
        advance=partial(_advance_sum, rules, asking, number, state, answer),
        void=answer.void,
    )


def _advance_sum(
    rules: Rules, asking: SumRound, number: int, state: State, answer: SumAnswer
) -> tuple[State, Notes]:
    if rules.sums is None:
        raise ProtocolError("these rules know no sums")
    return rules.sums.advance(number, state, asking.read(answer))


def check_enough(gathered: Gathered, minimum_clients: int) -> None:
    """ProtocolError if fewer clients than the minimum have trained on any rows."""
    if gathered.trained < minimum_clients and (
        gathered.trained or not gathered.clients
    ):  # all used ones without rows: the mean says so itself
        raise ProtocolError(
            f"{gathered.trained} clients sent a usable update, the minimum is {minimum_clients}"
        )
