"""Alignment as a computation of its own: how many people two parties have in common, or which, and nothing else.

The active party is the client of the intersection, the passive one its server; `protocols.psi` lists the messages of
both and what each side learns. Keys are all that is read. A size that the rules hide is a result; for a pairing, fewer
common people than asked for are an error at both parties.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from protocols.disclosure import coarse_overlap, overlap_report
from protocols.errors import ConfigError
from protocols.program import Observe, Outcome, Program, silent
from protocols.psi import (
    ALONE,
    LARGEST_BUCKET,
    Crew,
    PsiTerms,
    psi_client,
    psi_server,
    size_client,
    size_server,
)
from protocols.records import Scalar
from protocols.seeds import PrivateSeed
from vertical.roles import ACTIVE, PASSIVE

EVERYBODY = 10_000_000
"""The default of `max_common`."""
SIZE_SETTINGS: Mapping[str, tuple[int, int, int]] = {"size_bucket": (0, 0, LARGEST_BUCKET)}
"""Default, least and most of each setting. Sets are filled up with dummies to a multiple of the bucket (0: not)."""
PAIRS_SETTINGS: Mapping[str, tuple[int, int, int]] = {
    "max_common": (EVERYBODY, 1, EVERYBODY),
    **SIZE_SETTINGS,
}
"""`max_common` people may be paired at most."""


def complete(
    known: Mapping[str, tuple[int, int, int]], given: Mapping[str, object]
) -> tuple[tuple[str, Scalar], ...]:
    """Every known setting, as given or by default, sorted by name; ConfigError naming one that is unknown or wrong."""
    unknown = sorted(given.keys() - known.keys())
    if unknown:
        raise ConfigError(
            f"unknown parameters: {', '.join(unknown)}", remedy=f"there are: {', '.join(known)}"
        )
    values: list[tuple[str, Scalar]] = []
    for name, (default, low, high) in sorted(known.items()):
        value = given.get(name, default)
        if type(value) is not int or not low <= value <= high:
            raise ConfigError(f"{name} must be a whole number in [{low}, {high}], came {value!r:.40}")
        values.append((name, value))
    return tuple(values)


def align_terms(parameters: tuple[tuple[str, Scalar], ...], rows: Mapping[str, int]) -> PsiTerms:
    """The terms between blocks of these published rows, the same for programs and manifest."""
    settings = {name: int(value) for name, value in parameters}
    terms = PsiTerms(bucket=settings["size_bucket"], most=settings.get("max_common", EVERYBODY))
    return replace(
        terms,
        client_rows=rows.get(ACTIVE, terms.client_rows),
        server_rows=rows.get(PASSIVE, terms.server_rows),
    )


def most_told(terms: PsiTerms, group: int) -> int:
    """The largest number of common people that `size_program` can tell under these terms; below `group`: none ever.

    The client counts itself, but knows of a padded server set only the fewest people that it may hold.
    """
    server = terms.least_rows(terms.padded(terms.server_rows))
    return (min(terms.client_rows, server) - group) // group * group


def useful_bucket(terms: PsiTerms, group: int) -> int:
    """The largest bucket under which some number could be told between sets of these bounds, 0 for none.

    A set of r rows shows r or more, and so is known to hold at least r + 1 - bucket.
    """
    return max(0, min(terms.bucket, terms.server_rows + 1 - 2 * group))


def size_program(
    role: str,
    keys: tuple[bytes, ...],
    seed: PrivateSeed,
    terms: PsiTerms,
    *,
    group: int,
    crew: Crew = ALONE,
    observe: Observe = silent,
) -> Program[Outcome]:
    """How many people are common, as the rules let it be told; `group` is the smallest number that may be.

    Sets of fewer people than that are refused. Raises as `size_client` does.
    """
    asked = replace(terms, least=group)
    if role == ACTIVE:
        found = yield from size_client(keys, PASSIVE, seed, asked, group=group, crew=crew, observe=observe)
    else:
        found = yield from size_server(keys, ACTIVE, seed, asked, group=group, crew=crew, observe=observe)
    return Outcome({"common": overlap_report(found.size, found.hidden, group)}, {})


def pairs_program(
    role: str,
    keys: tuple[bytes, ...],
    seed: PrivateSeed,
    terms: PsiTerms,
    *,
    group: int,
    least: int,
    crew: Crew = ALONE,
    observe: Observe = silent,
) -> Program[Outcome]:
    """Who is common, at both parties, in one order: the artifact `rows.common` (m,) are the own rows.

    Fewer than `least` or `group` common people are an OverlapError at both, and nobody is paired. Raises as
    `psi_client` does.
    """
    asked = replace(terms, least=max(least, group))
    program = psi_client if role == ACTIVE else psi_server
    peer = PASSIVE if role == ACTIVE else ACTIVE
    found = yield from program(keys, peer, seed, asked, crew=crew, observe=observe)
    size, hidden = coarse_overlap(len(found.rows), (len(keys), found.other_rows), group)
    artifacts: dict[str, NDArray[np.generic]] = {
        "rows.common": found.rows,
        "alignment_tag": np.frombuffer(found.tag.encode(), np.uint8),
    }
    return Outcome({"common": overlap_report(size, hidden, group)}, artifacts)
