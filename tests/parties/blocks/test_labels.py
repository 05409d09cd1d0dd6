"""Class codes and splits, with the labels that are refused."""

import pyarrow as pa
import pytest

from parties.blocks.columns import CellRules
from parties.blocks.labels import class_codes, split_codes
from protocols.errors import BlockError

RULES = CellRules()


def cells(values, kind=None):
    return pa.chunked_array([pa.array(values, kind or pa.large_string())])


def labels(values, arrow=None):
    codes, classes = class_codes("y", cells(values, arrow), RULES)
    return codes.tolist(), classes


def test_classes_of_any_spelling():
    assert labels(["yes", "no", "maybe", "no"]) == ([2, 1, 0, 1], ("maybe", "no", "yes"))
    assert labels(["1", "-1", "", "1"]) == ([1, 0, -1, 1], ("-1", "1"))
    assert labels(["10", "9", "1"]) == ([2, 1, 0], ("1", "9", "10"))
    assert labels([1, -1, None], pa.int64()) == ([1, 0, -1], ("-1", "1"))
    assert labels([1.0, None, 3.0], pa.float64()) == ([0, -1, 1], ("1", "3"))
    assert labels([True, False], pa.bool_()) == ([1, 0], ("false", "true"))
    assert labels(["no", "no"]) == ([0, 0], ("no",))


def test_impossible_labels():
    with pytest.raises(BlockError, match="no labelled row"):
        labels(["", "?"])
    with pytest.raises(BlockError, match="101 classes"):
        labels([str(i) for i in range(101)])
    with pytest.raises(BlockError, match="3 classes are only 2 different numbers"):
        labels(["1", "1.0", "0"])


def test_a_nearly_unique_label_is_refused():
    with pytest.raises(BlockError, match="'y' has 21 classes in 209 labelled rows") as caught:
        labels([str(i % 21) for i in range(209)] + [""])
    assert "right column" in caught.value.remedy
    assert len(labels([str(i % 21) for i in range(210)])[1]) == 21
    assert len(labels([str(i) for i in range(20)])[1]) == 20


def test_splits():
    assert split_codes("part", cells(["train", "test", " validation"])).tolist() == [0, 2, 1]
    with pytest.raises(BlockError, match="'part': 3 of 4 rows") as caught:
        split_codes("part", cells(["train", "dev", "", None]))
    assert "dev" not in str(caught.value)
