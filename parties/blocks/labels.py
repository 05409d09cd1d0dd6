"""Class codes and split codes from the cells of a file. No error holds a cell."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from parties.blocks.columns import CellRules, as_text, distinct, float_cells, present_text
from protocols.errors import BlockError
from vertical.table import Split

MAX_CLASSES = 100
FEW_CLASSES = 20
ROWS_PER_CLASS = 10
"""Classes above so few need so many labelled rows each on average: the names of a nearly unique column, which are
published, would tell its cells."""


def class_codes(
    name: str, cells: pa.ChunkedArray, rules: CellRules
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Codes int64 (rows,), -1 where the label is missing, and the classes of all labelled rows: sorted,
    as numbers where all are."""
    codes, classes = distinct(present_text(cells, rules.missing))
    if not classes:
        raise BlockError(f"label column {name!r} has no labelled row", remedy="name another label column")
    labelled = int(np.count_nonzero(codes >= 0))
    if len(classes) > max(FEW_CLASSES, labelled // ROWS_PER_CLASS):
        raise BlockError(
            f"label column {name!r} has {len(classes)} classes in {labelled} labelled rows; their names are published",
            remedy="a label needs few classes; is it the right column?",
        )
    if len(classes) > MAX_CLASSES:
        raise BlockError(
            f"label column {name!r} has {len(classes)} classes, at most {MAX_CLASSES} are supported",
            remedy="a continuous label must be cut into classes first",
        )
    numbers = _as_floats(classes)
    if numbers is not None and len(set(numbers)) < len(classes):
        raise BlockError(
            f"label column {name!r}: {len(classes)} classes are only {len(set(numbers))} different numbers",
            remedy="write every class in one way",
        )
    order = sorted(range(len(classes)), key=lambda i: numbers[i] if numbers else classes[i])
    rank = np.empty(len(classes) + 1, np.int64)
    rank[np.array(order)] = np.arange(len(classes))
    rank[-1] = -1
    return rank[codes], tuple(classes[i] for i in order)


def split_codes(name: str, cells: pa.ChunkedArray) -> NDArray[np.uint8]:
    """Codes of `vertical.table.Split`, uint8 (rows,).

    Raises BlockError with the number of rows that hold another text.
    """
    words = pa.array([split.name.lower() for split in Split], pa.large_string())
    found = pc.index_in(as_text(cells), value_set=words)
    if found.null_count:
        known = ", ".join(words.to_pylist())
        raise BlockError(
            f"split column {name!r}: {found.null_count} of {len(found)} rows hold none of {known}",
            remedy="correct these rows",
        )
    values = np.array([int(split) for split in Split], np.uint8)
    return np.asarray(values[found.to_numpy()], dtype=np.uint8)


def _as_floats(texts: list[str]) -> list[float] | None:
    values = float_cells(pa.chunked_array([pa.array(texts, pa.large_string())]))
    return None if values is None else [float(value) for value in values.to_pylist()]
