"""Works off the parts of a benchmark in as many processes as asked for, and writes each into its file when ready."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import Protocol, TypeVar

from benchmarks.results_file import ResultsFile, Scores


class Unit(Protocol):
    """One part of one seed of one cell; it is sent to another process."""

    @property
    def place(self) -> tuple[str, int, int, str]:
        """Data set, number of aligned people, seed and part: where its scores stand in the file."""
        ...

    def run(self) -> tuple[Scores, str]:
        """Its scores by name, and what is noted of it ("" for nothing)."""
        ...


U = TypeVar("U", bound=Unit)


def work_off(
    waiting: Sequence[U],
    file: ResultsFile,
    *,
    jobs: int,
    tell: Callable[[str], None],
    clock: Callable[[], float],
) -> None:
    """Runs all units, puts their scores into `file` and tells after each what is left."""
    start = clock()
    for done, (unit, found, note) in enumerate(finish(waiting, jobs), 1):
        file.put(*unit.place, found, note)
        rest = (clock() - start) / done * (len(waiting) - done)
        data, aligned, seed, part = unit.place
        figures = ", ".join(f"{name} {value:.4f}" for name, value in found.items())
        tell(
            f"[{done}/{len(waiting)}, {rest / 60:.0f} min left] {data} n={aligned} seed {seed} {part}: {figures} {note}"
        )


def finish(waiting: Sequence[U], jobs: int) -> Iterator[tuple[U, Scores, str]]:
    """The units' scores as they are ready; with one job in this process."""
    if jobs == 1:
        for unit in waiting:
            yield unit, *unit.run()
        return
    with ProcessPoolExecutor(jobs) as pool:
        left: dict[Future[tuple[Scores, str]], U] = {pool.submit(unit.run): unit for unit in waiting}
        while left:
            done, _ = wait(left, return_when=FIRST_COMPLETED)
            for future in done:
                yield left.pop(future), *future.result()
