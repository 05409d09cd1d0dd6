"""How a long list is cut into messages of equal length, so that a full list fills its line of the manifest."""


def chunk_length(bound: int, batch: int) -> int:
    """The length (at least 1) of parts that cut `bound` rows into as few messages of at most `batch` as possible."""
    messages = max(1, -(-bound // batch))
    return max(1, -(-bound // messages))


def chunks(size: int, bound: int, batch: int) -> list[slice]:
    """The consecutive parts, of equal length but for the last, in which up to `bound` rows are sent; none for `size` 0.

    `chunk_length` fixes the length from the bound, so that a full group fills its releases.
    """
    length = chunk_length(bound, batch)
    return [slice(start, min(start + length, size)) for start in range(0, size, length)]
