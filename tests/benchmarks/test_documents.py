"""A table takes the place between its marks, and only there."""

import pytest

from benchmarks.documents import between_marks


def test_the_table_goes_between_its_marks() -> None:
    begin, end = "<!-- x: begin -->", "<!-- x: end -->"
    assert between_marks(f"a\n{begin}\nold\n{end}\nb\n", "x", "new") == f"a\n{begin}\nnew\n{end}\nb\n"
    with pytest.raises(ValueError, match="no marks <!-- y: begin -->"):
        between_marks(f"{begin}{end}", "y", "new")
