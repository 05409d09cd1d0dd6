"""A researcher's labels: read as class codes, and refused when they can't be what was meant."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocols.errors import BlockError
from vertical.conversion import to_codes

MANY_CLASSES = 20
"""From more classes than this, which are more than half as many as the labelled rows, nothing can be learnt."""
ENOUGH_TO_TELL = 20
"""With fewer labelled rows a column may agree with the labels by chance."""


def read_labels(
    labels: ArrayLike, missing_label: object, rows: int
) -> tuple[NDArray[np.int64], tuple[object, ...]]:
    """Class codes (rows,), -1 where missing, and the labels behind the codes.

    BlockError for what is no label of each row, for numbers that are no classes, and for fewer than two classes.
    """
    if isinstance(labels, str | bytes):
        raise BlockError(
            "labels is a text, expected one label for each row of the active table",
            remedy="labels=table['column'], and leave that column out of the features: table.drop(columns='column')",
        )
    try:
        shape = np.shape(labels)
    except ValueError:
        raise BlockError(
            "labels: their lengths differ, expected one label for each row",
            remedy="give one value for each row that names its class",
        ) from None
    if len(shape) != 1:
        raise BlockError(
            f"labels: expected one dimension, came shape {shape}",
            remedy="labels of one column: table['column'], or array[:, 0]",
        )
    codes, classes = to_codes(labels, missing_label)
    if len(codes) != rows:
        raise BlockError(f"{rows} rows of the active party, {len(codes)} labels")
    _check_classes(classes, int(np.count_nonzero(codes >= 0)))
    return codes, classes


def array_of(classes: tuple[object, ...]) -> NDArray[np.generic]:
    """Labels (k,) as an array that holds each as it is: of its own type where they have one, else of objects."""
    array: NDArray[np.generic] = np.array(classes)
    if array.shape == (len(classes),) and array.tolist() == list(classes):
        return array
    objects = np.empty(len(classes), object)
    for code, label in enumerate(classes):
        objects[code] = label
    return objects


def check_no_label_among(columns: Mapping[str, object], codes: NDArray[np.int64]) -> None:
    """BlockError naming a feature column that says the same as the labels: the model would learn nothing but that."""
    known = codes >= 0
    if np.count_nonzero(known) < ENOUGH_TO_TELL:
        return
    for name, cells in columns.items():
        if _says_the_same(cells, codes, known):
            raise BlockError(
                f"column {name!r} of the active table says the same as the labels",
                remedy=f"leave it out of the features: table.drop(columns={name!r})",
            )


def _check_classes(classes: tuple[object, ...], labelled: int) -> None:
    if len(classes) < 2:
        raise BlockError(
            f"different labels: {len(classes)}, at least 2 are needed",
            remedy="give a label with two different values or more; if one class is called -1, say missing_label=None",
        )
    if len(set(map(str, classes))) < len(classes):
        raise BlockError(
            "two classes have the same name, of one kind each, such as the number 1 and the text '1'",
            remedy="make all labels text: astype(str)",
        )
    if any(isinstance(label, float | np.floating) and not float(label).is_integer() for label in classes):
        raise BlockError(
            "labels are numbers with a fraction, expected classes: FedCVT predicts no amounts",
            remedy="cut them into classes, such as labels > 0.5 or pandas.cut; names of classes as text: astype(str)",
        )
    if len(classes) > MANY_CLASSES and 2 * len(classes) > labelled:
        raise BlockError(
            f"labels of {len(classes)} classes on {labelled} rows: a class has fewer than two rows on average",
            remedy="give the column with classes; this one holds names, numbers or amounts",
        )


def _says_the_same(cells: object, codes: NDArray[np.int64], known: NDArray[np.bool_]) -> bool:
    """Whether each value of a column goes with one class and each class with one value, on the labelled rows."""
    values, _ = to_codes(np.asarray(cells, object)[known], None)
    pairs = set(zip(values.tolist(), codes[known].tolist(), strict=True))
    return len(pairs) == len({value for value, _ in pairs}) == len({code for _, code in pairs})
