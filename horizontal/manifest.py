"""The release manifest of a horizontal run, from its settings and the layout of its model.

Every client may be chosen in every round, since who is chosen depends on who is there: a client's bounds are those of a
client that always is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from horizontal.config import HorizontalConfig
from horizontal.masked_messages import GroupKeys, Masked, MaskStep, Ready, Revealed, Step
from horizontal.masked_sum import count
from horizontal.messages import AGGREGATOR, Broadcast, Task, Update
from horizontal.round_rules import Rules, State
from protocols.masking import SEED_BYTES, MaskKey
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
READY = "that this client has trained, or a code that says why it could not; a public key for one round"
STEPS = "how far a sum is: words are wanted, all have come, or this client isn't in it"
GROUP = "which clients take part in a sum, and their public keys for one round"
MASKED = "nothing alone: this client's model and number of rows, under masks that cancel only in a sum with all others'"
REVEALED = (
    "with those of all others the sum over {}: the mean model and the number of rows in all; sums of rounds in which "
    "other clients took part differ by those clients"
)
BESIDE = "; besides what the method asks of each client: {}"


def manifest(
    start: State, rules: Rules, clients: Sequence[str], config: HorizontalConfig
) -> tuple[Release, ...]:
    """The lines of each client. `start` and `rules` are those of the run's method, which have the layouts."""
    asked = sum(rules.asks(number) for number in range(1, config.rounds + 1))
    last = config.rounds
    down = [
        Broadcast.of(last, Task.TRAIN, start.model, start.shared),
        Broadcast.of(last, Task.FINISH, start.model),
    ]
    if asked:
        down.append(Broadcast.of(last, Task.DESCRIBE, start.model))
    lines: list[Release] = []
    for client in clients:
        lines.append(_line(down, AGGREGATOR, client, config.rounds + asked + 1, MODEL))
        if rules.sums is None:
            lines.append(_updates(start, rules, client, config, asked))
        else:
            lines += _under_masks(start, rules, client, clients, config)
    return tuple(lines)


def spare_attempts(clients: int, config: HorizontalConfig) -> int:
    """How often in a run words are asked for again at most: each time one is lost, and the fewest have to stay."""
    return clients - config.minimum_clients


def _updates(start: State, rules: Rules, client: str, config: HorizontalConfig, asked: int) -> Release:
    last, most = config.rounds, config.maximum_examples
    up = [
        Update.of(last, Task.TRAIN, most, start.model, rules.extras),
        Update.failed(last, Task.TRAIN, "x" * _LONGEST_CODE),
    ]
    if asked:
        up.append(Update.of(last, Task.DESCRIBE, most, {}, rules.described))
    beside = sorted({name.partition(".")[0] for name in (*rules.extras, *rules.described)})
    learns = UPDATE + (BESIDE.format(", ".join(beside)) if beside else "")
    return _line(up, client, AGGREGATOR, config.rounds + asked, learns)


def _under_masks(
    start: State, rules: Rules, client: str, clients: Sequence[str], config: HorizontalConfig
) -> list[Release]:
    """The lines of secure aggregation, in the order of their messages."""
    rounds, spare = config.rounds, spare_attempts(len(clients), config)
    keys = [MaskKey(role=name, public="0" * 64, signature="0" * 128) for name in clients]
    failed = Ready(rounds, "x" * _LONGEST_CODE, "", "")
    ready = Ready(rounds, "", keys[0].public, keys[0].signature)
    words = np.zeros(count(start.model, rules.extras), np.uint64)
    step = MaskStep.of(rounds, spare + 1, Step.REVEAL)
    group = GroupKeys.of(rounds, spare + 1, keys)
    masked, told = Masked(rounds, spare + 1, words), Revealed(rounds, spare + 1, bytes(SEED_BYTES))
    fewest = f"{config.minimum_clients} clients or more"
    return [
        _line([ready, failed], client, AGGREGATOR, rounds, READY),
        _line([step], AGGREGATOR, client, 2 * rounds + spare, STEPS),
        _line([group], AGGREGATOR, client, rounds + spare, GROUP),
        _line([masked], client, AGGREGATOR, rounds + spare, MASKED),
        _line([told], client, AGGREGATOR, rounds, REVEALED.format(fewest)),
    ]


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
