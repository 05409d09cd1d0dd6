"""Messages 1 to 3 of an alignment, the same whether people or a number are learnt from it; see `protocols.psi`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from protocols.errors import OverlapError, ProtocolError
from protocols.program import Observe, Program, Send, compute
from protocols.psi.blinding import (
    BlindedSet,
    Items,
    Meter,
    as_texts,
    begin_again,
    begin_blinding,
    check_keys,
    collect,
    cut,
    finished,
    finished_part,
    in_order,
)
from protocols.psi.crew import Crew, Wait
from protocols.psi.curve import inverse, new_secret
from protocols.psi.messages import PsiRequest, PsiResponse, PsiSetup
from protocols.psi.terms import PsiTerms


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Asked:
    """What the client has after message 3: its own set, the same points under the server's secret alone (in the order
    of the response), and the server's set under it, ascending. A point of the one in the other is a common key."""

    own: BlindedSet
    answered: Items
    setup: Items


def ask(
    keys: Sequence[bytes],
    server: str,
    seed: bytes,
    terms: PsiTerms,
    *,
    crew: Crew,
    observe: Observe,
    shuffled: bool = False,
) -> Program[Asked]:
    """The client's side of messages 1 to 3; `shuffled` when the response comes in an order of its own.

    Raises SubjectKeyError for an unusable or repeated key and OverlapError for a set of fewer than `least` people,
    before any message; OverlapError for a set of the server's that is that small.
    """
    check_keys(keys)
    _check_own(len(keys), terms)
    shown = terms.padded(len(keys))
    bound = terms.expected(terms.client_rows, shown)
    meter = Meter(observe, (bound, bound))
    secret = yield from compute(new_secret)
    begun = begin_blinding(keys, shown, seed, secret, crew)
    points = yield from finished(begun, meter, "this side")
    own = yield from compute(in_order, points, len(keys))
    for part in cut(own.points, terms.client_part):
        yield Send(server, PsiRequest(shown, part))
    setup = yield from collect(server, PsiSetup, ascending=True)
    _check_other(len(setup), terms, server)
    back, begun = inverse(secret), []
    response = yield from collect(
        server,
        PsiResponse,
        ascending=shuffled,
        take=lambda part: begun.append(begin_again(crew, back, part)),
    )
    if len(response) != shown:
        raise ProtocolError(f"{server} answered {len(response)} psi points, asked were {shown}")
    if len(np.unique(as_texts(response))) != shown:  # different points stay different under any exponent
        raise ProtocolError(f"{server} answered different psi points with one")
    answered = yield from finished(begun, meter, server)
    return Asked(own=own, answered=answered, setup=setup)


def answer(
    keys: Sequence[bytes],
    client: str,
    seed: bytes,
    terms: PsiTerms,
    *,
    crew: Crew,
    observe: Observe,
    shuffled: bool = False,
) -> Program[int]:
    """The server's side of messages 1 to 3: how many keys the client's set shows.

    `shuffled` hides from the client which answer belongs to which of its keys: all answers are sorted before the first
    leaves. Raises like `ask`.
    """
    check_keys(keys)
    _check_own(len(keys), terms)
    own_shown = terms.padded(len(keys))
    secret = yield from compute(new_secret)
    own_bound, bound = (terms.expected(rows, own_shown) for rows in (terms.server_rows, terms.client_rows))
    meter = Meter(observe, (own_bound, bound))
    # Its own set first: that is done while the client blinds its own and sends it.
    begun = begin_blinding(keys, own_shown, seed, secret, crew)
    again: list[Wait] = []
    request = yield from collect(
        client,
        PsiRequest,
        ascending=True,
        take=lambda part: again.append(begin_again(crew, secret, part)),
    )
    shown = len(request)
    _check_other(shown, terms, client)
    points = yield from finished(begun, meter, "this side")
    own = yield from compute(in_order, points, len(keys))
    for part in cut(own.points, terms.server_part):
        yield Send(client, PsiSetup(own_shown, part))
    yield from _respond(client, again, shown, terms, meter, shuffled=shuffled)
    return shown


def _respond(
    client: str, again: list[Wait], shown: int, terms: PsiTerms, meter: Meter, *, shuffled: bool
) -> Program[None]:
    """Message 3: in the order of the request each part as soon as it is done, or all at the end in their own order."""
    if not shuffled:
        for number, wait in enumerate(again, start=1):
            part = yield from finished_part(wait, client)
            yield Send(client, PsiResponse(shown, part))
            if number < len(again):
                meter.add(len(part))
        meter.end()
        return
    points = yield from finished(again, meter, client)
    points = yield from compute(_sorted, points)
    for part in cut(points, terms.client_part):
        yield Send(client, PsiResponse(shown, part))


def _sorted(points: Items) -> Items:
    return points[np.argsort(as_texts(points))]


def _check_own(rows: int, terms: PsiTerms) -> None:
    if rows < terms.least:
        raise OverlapError(
            f"the own set has {rows} people, the request asks for at least {terms.least} in common",
            remedy="take more people in, or ask with a smaller minimum",
        )


def _check_other(shown: int, terms: PsiTerms, peer: str) -> None:
    """A set of very few people would be a question about single ones; it gets no answer."""
    if shown < terms.least:
        raise OverlapError(
            f"the set of {peer} has fewer people than the {terms.least} that the request asks for in common",
            remedy="nothing was answered; ask with a larger set",
        )
