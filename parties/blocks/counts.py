"""Counts in words, for error texts."""


def plural(count: int, noun: str) -> str:
    """The count with its noun, as in "1 row" or "2 rows"."""
    return f"{count} {noun}" + ("" if count == 1 else "s")
