"""How a simulation runs what many programs want computed: one by one, or the trainings among it together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from horizontal.config import HorizontalConfig
from horizontal.messages import Broadcast, Task
from horizontal.together import train_together
from horizontal.work import ClientWork, Prepared
from protocols.program import Compute

AT_ONCE = 64
"""Clients that train together: so many models are in memory at a time."""


class Computing:
    """A `ComputeAll` of `program.simulate`. It keeps the errors: on one machine the researcher may see them."""

    def __init__(self, config: HorizontalConfig, *, together: bool) -> None:
        self.problems: list[Exception] = []
        self._config, self._together = config, together

    def __call__(self, effects: Sequence[Compute]) -> Sequence[object]:
        """The result or the exception of each."""
        results: list[object] = [None] * len(effects)
        waiting: list[tuple[int, ClientWork, Prepared]] = []
        for index, effect in enumerate(effects):
            work = effect.function
            if self._together and isinstance(work, ClientWork) and _trains(effect):
                results[index] = prepared = self._attempt(work.prepare, *effect.arguments)
                if isinstance(prepared, Prepared):
                    waiting.append((index, work, prepared))
            else:
                results[index] = self._attempt(work, *effect.arguments)
        for start in range(0, len(waiting), AT_ONCE):
            for index, result in self._train(waiting[start : start + AT_ONCE]):
                results[index] = result
        return results

    def _train(self, waiting: Sequence[tuple[int, ClientWork, Prepared]]) -> Iterator[tuple[int, object]]:
        """The answers or exceptions of clients that train together; one by one if that fails, to see whose fault it is.

        Raises what went wrong together if nobody fails alone: then it is no client's fault.
        """
        model = waiting[0][1].model
        try:
            trained = train_together(model, [prepared.job for _, _, prepared in waiting], self._config)
        except Exception:
            alone = [(index, self._attempt(work.complete, prepared)) for index, work, prepared in waiting]
            if not any(isinstance(result, Exception) for _, result in alone):
                raise
            yield from alone
            return
        for (index, work, prepared), done in zip(waiting, trained, strict=True):
            yield index, self._attempt(work.finish, prepared, done)

    def _attempt(self, function: Callable[..., object], *arguments: object) -> object:
        try:
            return function(*arguments)
        except (
            Exception
        ) as problem:  # raised in the program that asked, as if it had called the function itself
            self.problems.append(problem)
            return problem


def _trains(effect: Compute) -> bool:
    broadcast = effect.arguments[0]
    return isinstance(broadcast, Broadcast) and broadcast.task == Task.TRAIN
