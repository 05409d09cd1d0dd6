"""The table of what combines, made from the rules themselves: `python -m horizontal.compatibility` prints it.

The table in docs/horizontal.md is this output; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Iterator

from horizontal.choices import PARTS, REFUSED, STOP_NEEDS, needs_each_update
from protocols.masking import LEAST_CLIENTS


def table() -> str:
    """Markdown: for every choice of every part what it doesn't combine with, and whether it goes with sums alone."""
    lines = ["| part | choice | doesn't combine with | secure aggregation |", "|---|---|---|---|"]
    for part, kind in PARTS.items():
        for choice in kind:
            refused = "; ".join(_refused(part, choice)) or "-"
            alone = needs_each_update({part: choice})
            enough = f"no: {alone[0].partition(': ')[2]}" if alone else "yes"
            lines.append(f"| {part} | {choice.value} | {refused} | {enough} |")
    notes = [f"{number}. {pair.reason}." for number, pair in enumerate(REFUSED, 1)]
    also = (
        f"Secure aggregation doesn't go with `stop_after` either ({STOP_NEEDS}), and needs `minimum_clients` of "
        f"{LEAST_CLIENTS} or more: of the sum of two, each knows the other's update."
    )
    return "\n".join([*lines, "", *notes, "", also])


def _refused(part: str, choice: str) -> Iterator[str]:
    """The choices of other parts that this one doesn't go with, each with the number of the reason."""
    for number, pair in enumerate(REFUSED, 1):
        sides = (
            (pair.part, pair.choices, pair.other, pair.others),
            (pair.other, pair.others, pair.part, pair.choices),
        )
        for own, choices, other, others in sides:
            if own == part and choice in choices:
                yield f"{other} {', '.join(sorted(others))} ({number})"


if __name__ == "__main__":
    print(table())
