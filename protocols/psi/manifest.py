"""The releases of one alignment: bounds of the largest possible message of each kind, from the terms."""

from collections.abc import Iterable

import numpy as np

from protocols.chunks import chunk_length
from protocols.psi.curve import POINT_BYTES
from protocols.psi.messages import (
    TAG_BYTES,
    Part,
    PsiMatches,
    PsiRequest,
    PsiResponse,
    PsiSecret,
    PsiSetup,
    PsiSize,
)
from protocols.psi.terms import PART, PsiTerms
from protocols.releases import release
from protocols.request import Release

_BUCKET = ", up to the next multiple of {} (dummies fill the set up)"


def psi_manifest(client: str, server: str, terms: PsiTerms) -> tuple[Release, ...]:
    """The five releases of an alignment in which both sides learn who is common."""
    common = terms.most_common
    matches = _list(
        PsiMatches,
        client,
        server,
        common,
        chunk_length(common, PART),
        "which of its own keys are common, and the order of the common rows",
    )
    secret = release(PsiSecret(bytes(TAG_BYTES)), client, server, 1, matches.learns)
    learns = "which of its own keys are common (it learns this first)"
    return (*_exchange(client, server, terms, learns), matches, secret)


def size_manifest(client: str, server: str, terms: PsiTerms) -> tuple[Release, ...]:
    """The four releases of an alignment in which both sides learn a number."""
    learns = (
        "how many of its keys are common (its process learns this exactly, and tells it rounded), not which"
    )
    told = release(
        PsiSize(terms.most_common, 0),
        client,
        server,
        1,
        "how many keys are common, rounded down, or that it is hidden because too few are or too few are not",
    )
    return (*_exchange(client, server, terms, learns), told)


def aligned_roles(manifest: Iterable[Release]) -> tuple[tuple[str, str], ...]:
    """Client and server of every alignment that the manifest allows; none when it has none."""
    return tuple((line.sender, line.receiver) for line in manifest if line.kind == PsiRequest.__name__)


def _exchange(client: str, server: str, terms: PsiTerms, learns: str) -> tuple[Release, ...]:
    offers = "how many keys the other party offers" + (_BUCKET.format(terms.bucket) if terms.bucket else "")
    asked, held = terms.padded(terms.client_rows), terms.padded(terms.server_rows)
    return (
        _list(PsiRequest, client, server, asked, terms.client_part, offers),
        _list(PsiSetup, server, client, held, terms.server_part, offers),
        _list(PsiResponse, server, client, asked, terms.client_part, learns),
    )


def _list(kind: type[Part], sender: str, receiver: str, of: int, length: int, learns: str) -> Release:
    """A list of up to `of` items in parts of `length`."""
    width = TAG_BYTES if kind is PsiMatches else POINT_BYTES
    largest = kind(of, np.zeros((min(of, length), width), np.uint8))
    return release(largest, sender, receiver, -(-of // length), learns)
