"""Two parties' key rules and the forms of their keys, compared before any message about a key is sent."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from parties.blocks.keys.form import KeyFormat, cannot_match
from parties.blocks.keys.recipe import parse_recipe
from protocols.errors import SubjectKeyError
from protocols.psi import PSI_KINDS, PSI_SIZE_KINDS
from protocols.request import ComputationRequest, Release, party


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOffer:
    """What a party publishes about its keys: key columns as named, rule identifier, and the form of each part."""

    party: str
    column: str
    rule: str
    forms: tuple[KeyFormat, ...]


def check_rules(sides: Sequence[tuple[str, str]]) -> None:
    """Raises SubjectKeyError, naming what differs, when two of the (side, rule) make different keys of one person.

    How each party's own cells are read (the region of telephone numbers, the order of day and month) may differ.
    """
    for (first, one), (second, other) in combinations(sides, 2):
        if parse_recipe(one).common_form != parse_recipe(other).common_form:
            raise SubjectKeyError(
                f"{first} and {second} have different key rules: {one} and {other}",
                remedy="register both blocks with one --key-rule",
            )


def check_agreement(first: KeyOffer, second: KeyOffer) -> None:
    """Raises SubjectKeyError naming both columns when the rules differ, or when the forms show that
    equal people would not match."""
    sides = [f"{side.party} column {side.column!r}" for side in (first, second)]
    check_rules(((sides[0], first.rule), (sides[1], second.rule)))
    for part, (one, other) in enumerate(zip(first.forms, second.forms, strict=True), start=1):
        if cannot_match(one, other):
            which = f" in part {part}" if len(first.forms) > 1 else ""
            raise SubjectKeyError(
                f"the formats of {' and '.join(sides)} differ{which}: {one.describe()} against {other.describe()}",
                remedy=_remedy(one, other),
            )


def _remedy(first: KeyFormat, second: KeyFormat) -> str:
    if first.digits and second.digits:
        return "register both blocks with --key-rule digits:WIDTH"
    return "register both blocks with a rule that makes them equal (docs/keys.md), or see if these are the same keys"


def aligns(manifest: Sequence[Release]) -> bool:
    """Whether a computation with this manifest compares keys."""
    kinds = {kind.__name__ for kind in (*PSI_KINDS, *PSI_SIZE_KINDS)}
    return any(release.kind in kinds for release in manifest)


def check_request(request: ComputationRequest) -> None:
    """SubjectKeyError when the request compares keys that were made by different rules."""
    if aligns(request.manifest):
        check_rules(
            [
                (f"{party(request, block.role).name} column {block.subject_key!r}", block.key_rule)
                for block in request.blocks
            ]
        )
