"""The alignment in which both sides learn a number, and not who is common; see `protocols.psi`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from protocols.disclosure import Hidden, coarse_overlap
from protocols.errors import ProtocolError
from protocols.program import Observe, Program, Send, receive, silent
from protocols.psi.blinding import find
from protocols.psi.crew import ALONE, Crew
from protocols.psi.exchange import answer, ask
from protocols.psi.messages import PsiSize
from protocols.psi.terms import ANY, PsiTerms


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapSize:
    """How many people are common, as both sides may know it: rounded down, or 0 and why it is hidden."""

    size: int
    hidden: Hidden


def size_client(
    keys: Sequence[bytes],
    server: str,
    seed: bytes,
    terms: PsiTerms = ANY,
    *,
    group: int,
    crew: Crew = ALONE,
    observe: Observe = silent,
) -> Program[OverlapSize]:
    """The client's side; `group` is the smallest number of people that may be told, and what is rounded to.

    Raises like `psi_client`, but too few common people are a result here and no error.
    """
    asked = yield from ask(keys, server, seed, terms, crew=crew, observe=observe, shuffled=True)
    crew.rest()
    common = int(np.count_nonzero(find(asked.answered, asked.setup) >= 0))
    sets = (len(keys), terms.least_rows(len(asked.setup)))
    size, hidden = coarse_overlap(common, sets, group)
    yield Send(server, PsiSize(size, hidden.value))
    return OverlapSize(size=size, hidden=hidden)


def size_server(
    keys: Sequence[bytes],
    client: str,
    seed: bytes,
    terms: PsiTerms = ANY,
    *,
    group: int,
    crew: Crew = ALONE,
    observe: Observe = silent,
) -> Program[OverlapSize]:
    """The server's side; it knows of the number what the client tells.

    ProtocolError for a number that no client could find between these sets, or that isn't rounded as agreed.
    """
    shown = yield from answer(keys, client, seed, terms, crew=crew, observe=observe, shuffled=True)
    crew.rest()
    told = yield from receive(client, PsiSize)
    if told.size % group or told.size > max(0, min(len(keys), shown) - group):
        raise ProtocolError(
            f"{client} told a number of common people that can't be, or isn't rounded to {group}"
        )
    return OverlapSize(size=told.size, hidden=Hidden(told.hidden))
