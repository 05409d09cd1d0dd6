"""Processor time to read keys under each rule, from cells to distinct keys with their counts.

    python -m benchmarks.key_rules [--rows 1000000] [--json FILE] [--write docs/keys.md]

Every key is another one, which is the slowest case: equal texts are worked on once. A quarter of the names has an
accent, the other columns are ASCII. `--write` puts the table between the marks in the document.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from benchmarks.documents import between_marks
from parties.blocks.keys.reading import KeyPolicy, read_keys
from parties.blocks.keys.recipe import parse_recipe

SURNAMES = ("Müller", "O'Brien", "Lang", "Schmidt", "Garcia", "Öztürk", "van der Berg", "Nowak")
FIGURES = "key rule figures"


def columns(rows: int) -> dict[str, pa.ChunkedArray]:
    """One column of invented cells for each kind of key."""
    made = {
        "id": [f"C{row:08d}" for row in range(rows)],
        "number": [str(row) for row in range(rows)],
        "surname": [f"{SURNAMES[row % 8]}{row:x}" for row in range(rows)],
        "mail": [f"First.Last{row}+x@GMail.com" for row in range(rows)],
        "phone": [f"0{150 + row % 30} {1000000 + row}" for row in range(rows)],
        "born": [
            f"{1 + row % 28:02d}.{1 + row // 28 % 12:02d}.{1930 + row // 336 % 80}" for row in range(rows)
        ],
    }
    return {name: pa.chunked_array([pa.array(cells, pa.large_string())]) for name, cells in made.items()}


CASES: tuple[tuple[str, str], ...] = (
    ("id", "text"),
    ("id", "text:trim"),
    ("number", "digits:10"),
    ("id", "code"),
    ("surname", "name"),
    ("mail", "email"),
    ("mail", "email:gmail"),
    ("phone", "phone:DE"),
    ("id,born", "code+date:DD.MM.YYYY"),
    ("surname,born,number", "name+date:DD.MM.YYYY+digits:10"),
)


def seconds(table: Mapping[str, pa.ChunkedArray], names: str, rule: str) -> float:
    """Processor time of one reading."""
    start = time.process_time()
    read_keys({name: table[name] for name in names.split(",")}, parse_recipe(rule), KeyPolicy())
    return time.process_time() - start


def markdown(times: Mapping[str, float]) -> str:
    """The table as it stands in the document."""
    lines = ["| rule | seconds |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{rule}` | {spent:.1f} |" for rule, spent in times.items())])


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, prints the table and writes what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args(arguments)
    table = columns(given.rows)
    times = {rule: seconds(table, names, rule) for names, rule in CASES}
    text = markdown(times)
    sys.stdout.write(text + "\n")
    if given.json:
        given.json.write_text(
            json.dumps({"rows": given.rows, "seconds": times}, indent=2) + "\n", encoding="utf-8"
        )
    if given.write:
        document = given.write.read_text(encoding="utf-8")
        given.write.write_text(between_marks(document, FIGURES, text), encoding="utf-8")


if __name__ == "__main__":
    main()
