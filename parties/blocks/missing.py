"""Which text cells mean "nothing here"; one list for features and labels, a longer one for keys."""

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from protocols.errors import FedaccordError

MISSING_TOKENS = ("", "?", "#n/a", "<na>", "n/a", "na", "nan", "nat", "null")
"""Compared without case and surrounding blanks. "none" and "-" are not among them: both are used as real
levels."""

LONGEST_TOKEN = 100
KEY_MISSING_TOKENS = tuple(sorted({*MISSING_TOKENS, "-", "none", "unknown"} - {""}))
"""Published, so without the blank cell, which always means it."""


def missing(cells: pa.ChunkedArray, tokens: tuple[str, ...]) -> pa.ChunkedArray:
    """Boolean (rows,): True where the text cell is null, blank, or one of the tokens."""
    plain = pc.utf8_lower(pc.utf8_trim_whitespace(cells))
    listed = pc.is_in(plain, value_set=pa.array([*tokens, ""], pa.large_string()))
    return pc.or_(pc.is_null(cells), pc.fill_null(listed, True))


def present(cells: pa.ChunkedArray, tokens: tuple[str, ...]) -> pa.ChunkedArray:
    """The text cells, null where missing."""
    return pc.if_else(missing(cells, tokens), pa.scalar(None, pa.large_string()), cells)


def key_tokens(further: Iterable[str], present: Iterable[str]) -> tuple[str, ...]:
    """The usual texts for "no key", with `further` ones and without those that are `present` keys, sorted."""
    plain = [{token.strip().lower() for token in tokens} for tokens in (further, present)]
    return tuple(sorted((set(KEY_MISSING_TOKENS) | plain[0]) - plain[1] - {""}))


def check_tokens(tokens: tuple[str, ...], error: type[FedaccordError]) -> None:
    """Raises `error` for a token that could never match, or that can't be shown."""
    if any(token != token.strip().lower() for token in tokens):
        raise error("missing tokens must be lower case and without blanks around them")
    if any(len(token) > LONGEST_TOKEN or not token.isprintable() for token in tokens):
        raise error(f"missing tokens must be printable texts of up to {LONGEST_TOKEN} characters")
