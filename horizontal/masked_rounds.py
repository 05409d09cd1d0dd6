"""A round in which the aggregator learns the sum of the clients' updates and nothing of one (`protocols.masking`).

Messages in order, in place of the plain `Update`:

1. `Broadcast` train aggregator -> each chosen client, as ever; `Ready` back when it has trained: a signed key for this
   round, or the code of a failure. The aggregator learns who can add an update; clients without rows can't.
2. `MaskStep` mask and `GroupKeys` aggregator -> each that is ready: the signed keys of all of them, which each
   verifies by the roster. Clients learn who takes part. `Masked` back: its words under masks. The aggregator learns
   nothing from them yet.
3. `MaskStep` reveal, when all of the group have sent their words; `Revealed` back: the seed of the own mask. With all
   seeds the aggregator learns the sum over the group: number of rows, weighted models.

A client that fails in 2 isn't asked any more in this run, and step 2 is repeated among the others with new masks, as a
further attempt. One that fails in 3 makes the round void, since the others' seeds are told: the model stays as it was.
Every asked client that is still there gets a last step: `reveal` or `over`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass

from horizontal.average import Arrays, UpdateError
from horizontal.masked_messages import GroupKeys, Masked, MaskStep, Ready, Revealed, Step
from horizontal.masked_sum import Summed, SumTerms, count, summed
from horizontal.messages import Broadcast
from horizontal.peers import Peers, failure_code, in_order
from protocols.errors import FedaccordError, ProtocolError
from protocols.masking import Attempt, Identity, MaskKey, Words, check_key, unmasked_sum
from protocols.program import Effect, compute


@dataclass(frozen=True, slots=True, kw_only=True)
class SumAnswer:
    """What a round gave: the words of the sum, None if too few clients were left or (`void`) one was lost when it was
    to be opened; who is in it, and a code for each other client that was asked."""

    total: Words | None
    clients: tuple[str, ...]
    failures: Mapping[str, str]
    void: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SumRound:
    """What the aggregator needs for a round's sum: the layouts of model and extras, the terms, and who is who."""

    model: Arrays
    extras: Arrays
    terms: SumTerms
    identity: Identity

    def ask(
        self, peers: Peers, chosen: Sequence[str], message: Broadcast
    ) -> Generator[Effect, object, SumAnswer]:
        """The sum over the chosen clients, or over those of them that are left."""
        number = message.round
        answers, failures = yield from peers.exchange(chosen, message, Ready)
        group: dict[str, MaskKey] = {}
        for client, ready in answers.items():
            key = self._key(client, ready)
            if isinstance(key, str):
                failures[client] = key
            else:
                group[client] = key
        yield from _over(peers, number, failures)
        attempt = 0
        while len(group) >= self.terms.least:
            attempt += 1
            keys = tuple(group.values())
            lost = yield from _tell(peers, group, MaskStep.of(number, attempt, Step.MASK))
            told = tuple(client for client in group if client not in lost)
            hidden, failed = yield from peers.exchange(told, GroupKeys.of(number, attempt, keys), Masked)
            lost.update(failed)
            expected = count(self.model, self.extras)
            lost.update({c: UpdateError.code for c, m in hidden.items() if len(m.words) != expected})
            if not lost:
                words = {client: masked.words for client, masked in hidden.items()}
                terms = Attempt(context=self.identity.context, number=number, attempt=attempt, keys=keys)
                return (yield from self._open(peers, terms, words, in_order(chosen, failures)))
            _leave_out(peers, lost)
            failures.update(lost)
            group = {client: key for client, key in group.items() if client not in lost}
        yield from _over(peers, number, group)
        return SumAnswer(total=None, clients=tuple(group), failures=in_order(chosen, failures))

    def read(self, answer: SumAnswer) -> Summed:
        """What the sum says. UpdateError for one that the clients can't have sent, ProtocolError if there is none."""
        if answer.total is None:
            raise ProtocolError("there is no sum to go on with")
        return summed(answer.total, answer.clients, self.model, self.extras, self.terms)

    def _key(self, client: str, ready: Ready) -> MaskKey | str:
        """The client's key, or a code that says why it can't take part."""
        if ready.failure:
            return failure_code(ready.failure)
        key = MaskKey(role=client, public=ready.key, signature=ready.signature)
        try:
            check_key(key, ready.round, self.identity)
        except FedaccordError as problem:
            return problem.code
        return key

    def _open(
        self, peers: Peers, terms: Attempt, words: Mapping[str, Words], failures: Mapping[str, str]
    ) -> Generator[Effect, object, SumAnswer]:
        """The sum of the words, with the seeds of all."""
        step = MaskStep.of(terms.number, terms.attempt, Step.REVEAL)
        told, lost = yield from peers.exchange(tuple(words), step, Revealed)
        if lost:
            _leave_out(peers, lost)
            return SumAnswer(total=None, clients=(), failures={**failures, **lost}, void=True)
        seeds = {client: revealed.seed for client, revealed in told.items()}
        total = yield from compute(unmasked_sum, terms, words, seeds)
        return SumAnswer(total=total, clients=tuple(words), failures=failures)


def _over(peers: Peers, number: int, clients: Iterable[str]) -> Generator[Effect, object, None]:
    """Tells those of the clients that are there that the round goes on without them."""
    present = set(peers.present)
    yield from _tell(peers, (c for c in clients if c in present), MaskStep.of(number, 0, Step.OVER))


def _tell(peers: Peers, clients: Iterable[str], step: MaskStep) -> Generator[Effect, object, dict[str, str]]:
    """Sends the step to each; a code for each that it didn't reach."""
    codes: dict[str, str] = {}
    for client in clients:
        if code := (yield from peers.tell(client, step)):
            codes[client] = code
    return codes


def _leave_out(peers: Peers, lost: Mapping[str, str]) -> None:
    for client, code in lost.items():
        peers.leave_out(client, code)
