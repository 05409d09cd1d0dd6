"""What a party allows in alignments with one peer: how many runs, and how large a set on either side.

The general rules of the policy hold for every peer; an agreement with one of them can only be stricter. Each party
holds a run against its own: so the stricter party wins.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from protocols.errors import ConfigError
from protocols.psi import aligned_roles
from protocols.request import ComputationRequest, party

RULES = {"max_psi_runs": (0, 100_000), "max_psi_keys": (0, 100_000_000)}
"""Least and most of each rule; 0 allows none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Most alignments with this peer in all, and most keys in a set of either side; ConfigError names a wrong value."""

    peer: str
    max_psi_runs: int
    max_psi_keys: int

    def __post_init__(self) -> None:
        for name, (low, high) in RULES.items():
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise ConfigError(
                    f"policy: {name} for {self.peer} must be a whole number from {low} to {high}, got {value!r:.40}"
                )


def read_agreements(tables: object, where: str) -> tuple[Agreement, ...]:
    """The agreements of the policy file, by peer; ConfigError naming file, peer and rule."""
    if not isinstance(tables, Mapping):
        raise ConfigError(f"{where}: agreements must be tables by peer", remedy="[agreements.PEER]")
    found = []
    for peer, rules in sorted(tables.items()):
        if not isinstance(rules, Mapping) or set(rules) != set(RULES):
            raise ConfigError(
                f"{where}: the agreement with {peer} must have {' and '.join(RULES)}",
                remedy="correct policy.toml",
            )
        found.append(Agreement(peer=peer, **rules))
    return tuple(found)


def own_peers(request: ComputationRequest, own_role: str) -> tuple[str, ...]:
    """The names of the parties with which the party in this role aligns in the request."""
    others = [
        other
        for roles in aligned_roles(request.manifest)
        for own, other in (roles, roles[::-1])
        if own == own_role
    ]
    return tuple(party(request, role).name for role in dict.fromkeys(others))


def beyond(agreement: Agreement, request: ComputationRequest) -> tuple[str, ...]:
    """What in the request goes beyond the agreement with one of its parties, one text each."""
    found = []
    if request.runs > agreement.max_psi_runs:
        found.append(
            f"runs is {request.runs}, our policy allows {agreement.max_psi_runs} alignments with {agreement.peer}"
        )
    largest = max(request.rows.values(), default=0)
    if largest > agreement.max_psi_keys:
        found.append(
            f"a set has up to {largest} keys, our policy allows {agreement.max_psi_keys} in an alignment with "
            f"{agreement.peer}"
        )
    return tuple(found)
