"""Writes the table of settings compared on training people into docs/fedcvt-defaults.md, from their JSON file:

python -m benchmarks.choose_defaults --json docs/fedcvt-defaults.json
python -m docs.fedcvt_defaults
"""

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.documents import between_marks, signed

DOCS = Path(__file__).resolve().parent


def table(found: Mapping[str, object]) -> str:
    """The Markdown between the marks: a line for each data set, number of aligned people and variant."""
    variants, notes = found["variants"], found["notes"]
    assert isinstance(variants, dict)
    assert isinstance(notes, dict)
    lines = [
        "| data | aligned | settings | seeds | both views | to the defaults | joint head | A's view | chosen |",
        "|" + "---|" * 9,
    ]
    for data, cells in variants.items():
        for n, by_variant in cells.items():
            for variant, entry in by_variant.items():
                names = [chosen[variant] for chosen in notes[data][n].values() if variant in chosen]
                row = [
                    f"{data} ({entry['metric']})",
                    n,
                    variant,
                    str(entry["n_seeds"]),
                    f"{entry['both']:.4f}",
                    "" if variant == "defaults" else signed(entry["to_defaults"], digits=4),
                    f"{entry['joint']:.4f}",
                    f"{entry['active_only']:.4f}",
                    ", ".join(f"{name} {times}" for name, times in sorted(Counter(names).items())),
                ]
                lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    """Replaces what is between the marks of docs/fedcvt-defaults.md."""
    source = Path(arguments[0]) if arguments else DOCS / "fedcvt-defaults.json"
    page = DOCS / "fedcvt-defaults.md"
    content = table(json.loads(source.read_text(encoding="utf-8")))
    page.write_text(
        between_marks(page.read_text(encoding="utf-8"), "compared settings", content), encoding="utf-8"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
