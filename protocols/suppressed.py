"""What of a released report is suppressed, in numbers of places by reason: the log holds no released number."""

from collections import Counter
from collections.abc import Mapping

from protocols.program import Json

SUPPRESSED = frozenset({"suppressed", "reason"})
"""The fields of what stands in place of a number that isn't told."""
REASONS = 20
"""Different reasons that are told apart; the rarest beyond them count as others."""
_TEXT = 60
_OTHERS = "others"


def suppressions(released: Mapping[str, Json]) -> dict[str, int]:
    """How many places of a released report hold no number for each reason, as short plain text, the commonest first."""
    counts: Counter[str] = Counter()
    _count(released, counts)
    told = dict(counts.most_common(REASONS))
    others = counts.total() - sum(told.values())
    return told | ({_OTHERS: told.get(_OTHERS, 0) + others} if others else {})


def _count(value: Json, counts: Counter[str]) -> None:
    if isinstance(value, Mapping):
        if value.keys() == SUPPRESSED:
            counts[_plain(str(value["reason"]))] += 1
            return
        for part in value.values():
            _count(part, counts)
    elif isinstance(value, list | tuple):
        for part in value:
            _count(part, counts)


def _plain(reason: str) -> str:
    """The reason as an entry of the log can hold it, whatever a program wrote."""
    text = "".join(letter if letter.isascii() and letter.isprintable() else " " for letter in reason)
    return " ".join(text.split())[:_TEXT].strip() or "none given"
