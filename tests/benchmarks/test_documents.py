"""A table takes the place between its marks, and only there."""

import pytest

from benchmarks.documents import between_marks, signed


def test_the_table_goes_between_its_marks() -> None:
    begin, end = "<!-- x: begin -->", "<!-- x: end -->"
    assert between_marks(f"a\n{begin}\nold\n{end}\nb\n", "x", "new") == f"a\n{begin}\nnew\n{end}\nb\n"
    with pytest.raises(ValueError, match="no marks <!-- y: begin -->"):
        between_marks(f"{begin}{end}", "y", "new")


def test_a_difference_shows_its_error() -> None:
    assert signed({"mean": 0.0123, "standard_error": 0.0044, "n_seeds": 3}) == "+0.012 ± 0.004"
    assert signed({"mean": -0.5, "standard_error": None, "n_seeds": 1}, digits=1) == "-0.5 ± ?"
    assert signed({"mean": None, "standard_error": None, "n_seeds": 0}) == ""
    assert signed(None) == ""
