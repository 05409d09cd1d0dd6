"""Measured tables in documents: each stands between two marks, so that its script can write it anew."""

from benchmarks.results_file import Paired


def between_marks(document: str, name: str, table: str) -> str:
    """The document with the table between the marks of that name. Raises ValueError where a mark is missing."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if begin not in document or end not in document:
        raise ValueError(f"the document has no marks {begin} ... {end}")
    before, _, rest = document.partition(begin)
    return f"{before}{begin}\n{table}\n{end}{rest.partition(end)[2]}"


def signed(difference: Paired | None, digits: int = 3) -> str:
    """A paired difference with its standard error, "?" for that of a single seed; "" where there is none."""
    if difference is None or difference["mean"] is None:
        return ""
    error = difference["standard_error"]
    return f"{difference['mean']:+.{digits}f} ± {'?' if error is None else f'{error:.{digits}f}'}"
