"""The release manifest of a horizontal run, from its settings and the layout of its model.

Every client may be chosen in every round, since who is chosen depends on who is there: a client's bounds are those of a
client that always is.
"""

from __future__ import annotations

from collections.abc import Sequence

from horizontal.config import HorizontalConfig
from horizontal.messages import AGGREGATOR, Broadcast, Task, Update
from horizontal.rounds import Rules, State
from protocols.request import Release
from protocols.wire import Message, encoded_size, shapes

_LONGEST_CODE = 40
"""Characters of a code that says why a client could not train."""
MODEL = (
    "the common model before each round and at the end: means of what clients sent, from which much about the others "
    "can be inferred when they are few"
)
UPDATE = (
    "this client's model after each training, and on how many rows: weights reveal something of the rows "
    "behind them"
)
BESIDE = "; besides what the method asks of each client: {}"


def manifest(
    start: State, rules: Rules, clients: Sequence[str], config: HorizontalConfig
) -> tuple[Release, ...]:
    """Two lines for each client. `start` and `rules` are those of the run's method, which have the layouts."""
    asked = sum(rules.asks(number) for number in range(1, config.rounds + 1))
    last, most = config.rounds, config.maximum_examples
    down = [
        Broadcast.of(last, Task.TRAIN, start.model, start.shared),
        Broadcast.of(last, Task.FINISH, start.model),
    ]
    up = [
        Update.of(last, Task.TRAIN, most, start.model, rules.extras),
        Update.failed(last, Task.TRAIN, "x" * _LONGEST_CODE),
    ]
    if asked:
        down.append(Broadcast.of(last, Task.DESCRIBE, start.model))
        up.append(Update.of(last, Task.DESCRIBE, most, {}, rules.described))
    beside = sorted({name.partition(".")[0] for name in (*rules.extras, *rules.described)})
    learns = UPDATE + (BESIDE.format(", ".join(beside)) if beside else "")
    lines = []
    for client in clients:
        lines.append(_line(down, AGGREGATOR, client, config.rounds + asked + 1, MODEL))
        lines.append(_line(up, client, AGGREGATOR, config.rounds + asked, learns))
    return tuple(lines)


def _line(messages: Sequence[Message], sender: str, receiver: str, repetitions: int, learns: str) -> Release:
    """The release of messages that are each no larger than one of these."""
    largest: dict[str, tuple[int, ...]] = {}
    for message in messages:
        for field, shape in shapes(message).items():
            largest[field] = max(shape, largest.get(field, shape))
    return Release(
        kind=type(messages[0]).__name__,
        sender=sender,
        receiver=receiver,
        shapes=tuple(sorted(largest.items())),
        repetitions=repetitions,
        max_bytes=max(map(encoded_size, messages)),
        learns=learns,
    )
