"""docs/review-rows.md tells the truth: each row has its tests, or stands in THREATS.md as not built."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
IDS = [*(f"P{number}" for number in range(1, 13)), *(f"R{number}" for number in range(1, 26))]
BUILT = 36
"""Rows that have tests; it only grows."""


@cache
def rows() -> dict[str, str]:
    """What the third column says, by id."""
    text = (ROOT / "docs" / "review-rows.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| ([PR]\d+) \| [^|]+ \| ([^|]+) \|$", text, flags=re.M)
    assert [row for row, _ in found] == IDS
    return dict(found)


@cache
def names_of_tests() -> frozenset[str]:
    """The names of all tests."""
    return frozenset(
        node.name
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )


@cache
def not_built() -> str:
    """The section of THREATS.md that lists them."""
    text = (ROOT / "THREATS.md").read_text(encoding="utf-8")
    return text.split("## Rows of the review list that are not built yet", 1)[1]


def named_after(row: str) -> list[str]:
    return [name for name in names_of_tests() if row in name.split("_")]


@pytest.mark.parametrize("row", IDS)
def test_a_row_is_tested_or_listed_as_not_built(row: str) -> None:
    where, listed = rows()[row], re.search(rf"\b{row}\b", not_built()) is not None
    if where == "not built":
        assert listed, f"{row} is missing in THREATS.md"
        assert not named_after(row), f"{row} has tests: correct docs/review-rows.md and THREATS.md"
        return
    assert not listed, f"THREATS.md says that {row} isn't built"
    wanted = named_after(row) if where == "by id" else re.findall(r"`(test_\w+)`", where)
    assert wanted, f"no test carries {row} in its name"
    assert set(wanted) <= names_of_tests(), f"no such test: {set(wanted) - names_of_tests()}"


def test_so_many_rows_are_built() -> None:
    assert sum(where != "not built" for where in rows().values()) >= BUILT
