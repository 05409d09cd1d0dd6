"""Writes the tables of docs/horizontal.md from the benchmark's files, of those that are there:

python -m benchmarks.horizontal --json docs/horizontal-methods.json
python -m benchmarks.horizontal --poisoning --setting dirichlet0.5 --seeds 3 --json docs/horizontal-poisoning.json
python -m benchmarks.horizontal --against flower --flower-python PATH --repeats 5 --json docs/horizontal-flower.json
python -m docs.horizontal_benchmark
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.documents import between_marks
from benchmarks.horizontal.report import comparison_table, flower_table, poisoning_table

DOCS = Path(__file__).resolve().parent
TABLES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "methods": comparison_table,
    "poisoning": poisoning_table,
    "flower": flower_table,
}
"""What makes the table of each file, `horizontal-NAME.json`, between the marks `horizontal NAME`."""


def conditions(found: Mapping[str, Any]) -> str:
    """A sentence on what was measured, and where."""
    parts = found.get("setting") or found["task"]
    told = ", ".join(f"{name} {value}" for name, value in parts.items())
    return f"Measured with {told} ({found['machine']})."


def main(folder: Path = DOCS) -> None:
    """Replaces what is between the marks of the files that are in the folder."""
    page = folder / "horizontal.md"
    text = page.read_text(encoding="utf-8")
    for name, table in TABLES.items():
        source = folder / f"horizontal-{name}.json"
        if source.exists():
            found = json.loads(source.read_text(encoding="utf-8"))
            text = between_marks(text, f"horizontal {name}", f"{conditions(found)}\n\n{table(found)}")
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
