"""A manifest's line bounds exactly the message that it was made from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from protocols.errors import GateError
from protocols.gate import Gate
from protocols.releases import floats, parts, release
from protocols.wire import Message, array, encoded_size


@dataclass(frozen=True, slots=True, eq=False)
class Sheet(Message):
    note: str
    rows: NDArray[np.float32] = array(np.float32, 2)


def test_the_largest_message_passes_and_a_larger_one_does_not():
    largest = Sheet("abc", floats(4, 2))
    line = release(largest, "active", "passive", 2, "a sheet")
    assert line.shapes == (("note", (3,)), ("rows", (4, 2)))
    assert (line.kind, line.repetitions, line.max_bytes) == ("Sheet", 2, encoded_size(largest))
    gate = Gate([line], "active")
    gate.outbound("passive", largest, encoded_size(largest))
    for message in (Sheet("abcd", floats(4, 2)), Sheet("abc", floats(5, 2)), Sheet("", floats(1, 3))):
        with pytest.raises(GateError):
            gate.outbound("passive", message, encoded_size(message))


@pytest.mark.parametrize(
    ("rows", "bound", "batch", "expected"),
    [
        (10, 10, 4, (4, 3)),  # 3 messages of at most 4: 4 + 4 + 2
        (10, 10, 100, (10, 1)),
        (3, 10, 4, (3, 1)),  # fewer rows than one part
        (8, 10, 4, (4, 2)),  # parts of the bound's length, 4, of which 8 rows fill two
        (0, 10, 4, (0, 1)),
        (0, 0, 4, (0, 1)),
    ],
)
def test_length_and_number_of_parts(rows, bound, batch, expected):
    assert parts(rows, bound, batch) == expected
