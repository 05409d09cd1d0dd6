"""The alignment in which both sides learn who is common, and one order of the common rows; see `protocols.psi`.

Both sides order the common rows by HMAC-SHA256(session secret, key), so row i is the same person at both without a key
ever being sent and independently of the order of the input. `Alignment.tag` is an HMAC of that order under the same
secret: safe to log, and equal at both.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from protocols.chunks import chunk_length
from protocols.errors import OverlapError, ProtocolError
from protocols.program import Observe, Program, Send, compute, receive, silent
from protocols.psi.blinding import Items, as_texts, check_keys, collect, cut, find, secret_for
from protocols.psi.crew import ALONE, Crew
from protocols.psi.exchange import answer, ask
from protocols.psi.messages import TAG_BYTES, PsiMatches, PsiSecret
from protocols.psi.terms import ANY, PART, PsiTerms

_SESSION = "psi session"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """Own row indices of the common people, (m,) int64, in the order both parties share; `tag` names that order.

    `other_rows` is how many people the other side has, at least.
    """

    rows: NDArray[np.int64]
    tag: str
    other_rows: int


def psi_client(
    keys: Sequence[bytes],
    server: str,
    seed: bytes,
    terms: PsiTerms = ANY,
    *,
    crew: Crew = ALONE,
    observe: Observe = silent,
) -> Program[Alignment]:
    """The client's side; `protocols.psi` has the messages.

    `seed` is this party's private seed; the session secret comes from it. Raises SubjectKeyError for an unusable or
    repeated key before any message; OverlapError, at both sides and with nobody named, when fewer than the terms'
    `least` people are common, and here when more than `most` are.
    """
    asked = yield from ask(keys, server, seed, terms, crew=crew, observe=observe)
    crew.rest()
    common = asked.own.rows[find(asked.answered, asked.setup) >= 0]
    if len(common) > terms.most:
        raise OverlapError(
            f"{len(common)} people are common, the request allows {terms.most}",
            remedy="ask with a larger bound",
        )
    if len(common) < terms.least:
        yield Send(server, PsiMatches(0, np.zeros((0, TAG_BYTES), np.uint8)))
        raise too_few(str(len(common)), terms)
    secret = secret_for(seed, _SESSION)
    tags = yield from compute(_tags, secret, [keys[row] for row in common])
    order = np.argsort(as_texts(tags))
    for part in cut(tags[order], chunk_length(terms.most_common, PART)):
        yield Send(server, PsiMatches(len(tags), part))
    yield Send(server, PsiSecret(secret))
    other = terms.least_rows(len(asked.setup))
    return _alignment(secret, tags[order], common[order], other)


def psi_server(
    keys: Sequence[bytes],
    client: str,
    seed: bytes,
    terms: PsiTerms = ANY,
    *,
    crew: Crew = ALONE,
    observe: Observe = silent,
) -> Program[Alignment]:
    """The server's side; raises like the client, and ProtocolError for a tag of a key that it doesn't hold."""
    shown = yield from answer(keys, client, seed, terms, crew=crew, observe=observe)
    crew.rest()
    tags = yield from collect(client, PsiMatches, ascending=True)
    if len(tags) < terms.least:
        raise too_few(f"<{terms.least}", terms)
    if len(tags) > terms.most:
        raise ProtocolError(f"{client} names {len(tags)} common people, the request allows {terms.most}")
    secret = (yield from receive(client, PsiSecret)).secret
    own = yield from compute(_tags, secret, keys)
    order = np.argsort(as_texts(own))
    place = find(tags, own[order])
    if np.any(place < 0):
        raise ProtocolError(f"{client} sent psi tags that match no key here")
    return _alignment(secret, tags, order[place], terms.least_rows(shown))


def align_in_clear(
    client_keys: Sequence[bytes], server_keys: Sequence[bytes], seed: bytes
) -> tuple[Alignment, Alignment]:
    """Both sides' alignments, as the two programs give them, for somebody who holds both sets of keys anyway.

    Only where the data are public or invented (research, benchmarks); a test compares it with the programs.
    """
    check_keys(client_keys)
    check_keys(server_keys)
    secret = secret_for(seed, _SESSION)
    place = {key: row for row, key in enumerate(server_keys)}
    common = [row for row, key in enumerate(client_keys) if key in place]
    tags = _tags(secret, [client_keys[row] for row in common])
    order = np.argsort(as_texts(tags))
    rows = np.array(common, np.int64)[order]
    theirs = np.array([place[client_keys[row]] for row in rows], np.int64)
    return (
        _alignment(secret, tags[order], rows, len(server_keys)),
        _alignment(secret, tags[order], theirs, len(client_keys)),
    )


def too_few(shown: str, terms: PsiTerms) -> OverlapError:
    """The error of both sides; the server, which doesn't know the number, shows the bound that it is below."""
    nobody = "no common customers" if shown == "0" else "too few common customers, or none"
    return OverlapError(
        f"overlap {shown}: {nobody}; the request asks for at least {terms.least}",
        remedy="compare the key columns and key rules of both blocks; nobody was named to the other side",
    )


def _tags(secret: bytes, keys: Sequence[bytes]) -> Items:
    """The tag of each key, (n, 32)."""
    tags = b"".join(hmac.digest(secret, key, hashlib.sha256) for key in keys)
    return np.frombuffer(tags, np.uint8).reshape(-1, TAG_BYTES)


def _alignment(secret: bytes, tags: Items, rows: NDArray[np.int64], other_rows: int) -> Alignment:
    order = np.array(rows, dtype=np.int64)
    order.setflags(write=False)
    tag = hmac.new(secret, b"alignment" + tags.tobytes(), hashlib.sha256).hexdigest()
    return Alignment(rows=order, tag=tag, other_rows=other_rows)
