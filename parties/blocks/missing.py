"""Which text cells mean "nothing here"; one list for features and labels, a longer one for keys."""

import pyarrow as pa
import pyarrow.compute as pc

MISSING_TOKENS = ("", "?", "#n/a", "<na>", "n/a", "na", "nan", "nat", "null")
"""Compared without case and surrounding blanks. "none" and "-" are not among them: both are used as real
levels."""

KEY_MISSING_TOKENS = (*MISSING_TOKENS, "-", "none", "unknown")


def missing(cells: pa.ChunkedArray, tokens: tuple[str, ...]) -> pa.ChunkedArray:
    """Boolean (rows,): True where the text cell is null, blank, or one of the tokens."""
    plain = pc.utf8_lower(pc.utf8_trim_whitespace(cells))
    listed = pc.is_in(plain, value_set=pa.array([*tokens, ""], pa.large_string()))
    return pc.or_(pc.is_null(cells), pc.fill_null(listed, True))
