"""Codes of keys count as the texts themselves would."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from parties.blocks.keys.counting import coded, combined, merged

cell = st.one_of(st.none(), st.sampled_from(["", "a", "b", "ab"]))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(cell, cell, cell, cell), max_size=20))
def test_codes_agree_with_sets_of_rows(rows):
    columns = [coded(pa.array([row[i] for row in rows], pa.large_string())) for i in range(4)]
    now, then = combined(columns[:3]), combined(columns[1:])
    assert [code >= 0 for code in now] == [None not in row[:3] for row in rows]
    both = [row for row in rows if None not in row]
    assert merged(now, then) == len(set(both)) - len({row[1:] for row in both})
