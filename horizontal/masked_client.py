"""How a client adds its update to a sum without showing it; `masked_rounds` is the aggregator's side."""

from __future__ import annotations

import os
from collections.abc import Generator
from dataclasses import dataclass

from horizontal.masked_messages import GroupKeys, Masked, MaskStep, Ready, Revealed, Step
from horizontal.masked_sum import SumTerms, words_of
from horizontal.messages import AGGREGATOR, Update
from protocols.errors import FedaccordError, ProtocolError, to_wire
from protocols.masking import Draw, Identity, Masks
from protocols.program import Effect, Send, compute, receive

LEFT_OUT = "left_out"
"""The code of an update that the aggregator went on without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Masking:
    """Who this client is, what a sum is made of, and where keys and seeds come from."""

    identity: Identity
    terms: SumTerms
    draw: Draw = os.urandom


def add_update(update: Update, masking: Masking) -> Generator[Effect, object, str]:
    """Takes part in the round's sum with this update; "" if it is in it, else a code that says why not.

    Raises ApprovalError or ProtocolError for keys, attempts or groups by which the aggregator could learn more than
    the sum: nothing was sent then that shows anything, and the run should end.
    """
    number, failure, words = update.round, update.failure, None
    if not failure:
        try:
            words = yield from compute(words_of, update, masking.terms)
        except FedaccordError as problem:
            failure = to_wire(problem)
    masks = Masks(masking.identity, number, least=masking.terms.least, draw=masking.draw)
    key, signature = ("", "") if failure else (masks.key.public, masks.key.signature)
    yield Send(AGGREGATOR, Ready(number, failure, key, signature))
    while True:
        step = yield from receive(AGGREGATOR, MaskStep)
        if step.round != number:
            raise ProtocolError(f"MaskStep from {AGGREGATOR}: expected round {number}, came {step.round}")
        if step.step == Step.OVER:
            return failure or LEFT_OUT
        if words is None:
            raise ProtocolError(f"round {number}: asked to add an update that there isn't")
        if step.step == Step.REVEAL:
            yield Send(AGGREGATOR, Revealed(number, step.attempt, masks.tell_seed(step.attempt)))
            return ""
        group = yield from receive(AGGREGATOR, GroupKeys)
        if group.topic != step.topic:
            raise ProtocolError(
                f"GroupKeys from {AGGREGATOR}: they aren't for the attempt that was asked for"
            )
        hidden = yield from compute(masks.hide, words, step.attempt, group.mask_keys())
        yield Send(AGGREGATOR, Masked(number, step.attempt, hidden))
