"""Ways of writing that are made equal: accents, case, punctuation.

ASCII cells are folded a whole column at a time. Others go through Python's `unicodedata` one by one: pyarrow's
`utf8_normalize` leaves text decomposed in the composed forms too (17.0), and keys may not depend on a version's slip.
"""

import unicodedata
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from parties.blocks.keys.rule import only_where

_UNDECOMPOSED = str.maketrans(
    {
        "æ": "ae",
        "œ": "oe",
        "ø": "o",
        "đ": "d",
        "ð": "d",
        "þ": "th",
        "ł": "l",
        "ħ": "h",
        "ı": "i",
        "ŋ": "n",
        "ŧ": "t",
    }
)
"""Letters that Unicode doesn't take apart into a plain letter and a mark, and what stands for them."""


def flat(cells: pa.ChunkedArray) -> pa.LargeStringArray:
    """The cells (large_string) in one piece."""
    return pa.chunked_array(cells.chunks, pa.large_string()).combine_chunks()


def folded(
    cells: pa.ChunkedArray,
    columnwise: Callable[[pa.LargeStringArray], pa.LargeStringArray],
    one: Callable[[str], str],
) -> pa.ChunkedArray:
    """The cells folded: ASCII ones by `columnwise`, the others by `one`; on ASCII the two must agree."""
    texts = flat(cells)
    whole = columnwise(texts)
    other = pc.fill_null(pc.invert(pc.string_is_ascii(texts)), False)
    if pc.any(other).as_py():
        whole = pc.replace_with_mask(whole, other, each(texts.filter(other), one))
    return pa.chunked_array([whole])


def each(texts: pa.LargeStringArray, change: Callable[[str], str | None]) -> pa.LargeStringArray:
    """The texts changed one by one, each different one once; null stays null."""
    coded = texts.dictionary_encode()
    made = [None if text is None else change(text) for text in coded.dictionary.to_pylist()]
    return pa.array(made, pa.large_string()).take(coded.indices)


def lower_without_accents(text: str) -> str:
    """Case folded, compatibility forms resolved, marks of Latin, Greek and Cyrillic letters left out.

    Marks of other scripts stay: there they make other letters. "Ångström" -> "angstrom", "が" -> "が".
    """
    return without_marks(without_marks(text).casefold().translate(_UNDECOMPOSED))


def without_marks(text: str) -> str:
    """The text without those marks and in compatibility forms, composed again (NFKC)."""
    apart = unicodedata.normalize("NFKD", text)
    return unicodedata.normalize("NFKC", "".join(c for c in apart if not "\u0300" <= c <= "\u036f"))


def only_letters_and_digits(text: str) -> str:
    """The text's letters, their marks and digits, of every script."""
    return "".join(c for c in text if unicodedata.category(c)[0] in "LMN")


def ascii_letters_and_digits(cells: pa.LargeStringArray) -> pa.LargeStringArray:
    """The same for a column of ASCII cells."""
    return pc.replace_substring_regex(cells, pattern="[^0-9A-Za-z]", replacement="")


def with_text(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """The cells, null where nothing is left."""
    return only_where(pc.greater(pc.binary_length(cells), 0), cells)
