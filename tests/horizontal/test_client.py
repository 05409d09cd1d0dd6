"""A client's program: what it remembers, reports and checkpoints, and whom it believes."""

from __future__ import annotations

import numpy as np
import pytest

from horizontal.average import Arrays
from horizontal.client import Answer, client_program
from horizontal.messages import Broadcast, Task, Update
from protocols.errors import ProtocolError
from protocols.program import Checkpoint, Compute, Outcome, Receive, Send

MODEL = {"w": np.ones(1)}


def counting(broadcast: Broadcast, memory: Arrays) -> Answer:
    """Counts its rounds in what it remembers; fails in round 2."""
    count = int(memory.get("count", np.array(0))) + 1
    if broadcast.round == 2:
        raise ValueError("a cell: 42")
    update = Update.of(broadcast.round, Task(broadcast.task), count, MODEL)
    return Answer(update=update, memory={"count": np.array(count)}, notes={"count": count})


def talk(program, *broadcasts: Broadcast) -> tuple[list[Update], list[Checkpoint], Outcome | None]:
    """What a client makes of these broadcasts."""
    sent, kept, waiting = [], [], list(broadcasts)
    action, value = program.send, None
    while True:
        try:
            effect = action(value)
        except StopIteration as end:
            return sent, kept, end.value
        action, value = program.send, None
        match effect:
            case Receive():
                if not waiting:
                    return sent, kept, None
                value = waiting.pop(0)
            case Compute(function, arguments):
                try:
                    value = function(*arguments)
                except Exception as problem:
                    action, value = program.throw, problem
            case Send(_, message):
                sent.append(message)
            case Checkpoint():
                kept.append(effect)


def train(number: int) -> Broadcast:
    return Broadcast.of(number, Task.TRAIN, MODEL)


FINISH = Broadcast.of(3, Task.FINISH, {"w": np.full(1, 7.0)})


def test_a_failure_leaves_what_it_remembers_as_it_was() -> None:
    sent, kept, outcome = talk(client_program(counting, 5), train(1), train(2), train(4), FINISH)
    assert [(u.round, u.examples, u.failure) for u in sent] == [(1, 1, ""), (2, 0, "internal"), (4, 2, "")]
    assert outcome.report == {
        "end": "done",
        "took_part": "2 rounds",
        "failures": {"2": "internal"},
        "rounds": {"1": {"count": 1}, "4": {"count": 2}},
    }
    assert outcome.artifacts["model.w"].tolist() == [7.0]
    assert [c.step for c in kept] == [1, 2, 4]


def test_a_description_is_no_round() -> None:
    ask = Broadcast.of(1, Task.DESCRIBE, MODEL)
    sent, kept, _ = talk(client_program(counting, 5), ask, train(1))
    assert [(u.task, u.round, u.examples) for u in sent] == [("describe", 1, 1), ("train", 1, 2)]
    assert len(kept) == 1


def test_a_resumed_client_goes_on_to_the_same_end() -> None:
    _, kept, unbroken = talk(client_program(counting, 5), train(1), train(2), train(3), FINISH)
    for at in (0, 1):
        rest = [train(n) for n in range(kept[at].step + 1, 4)]
        _, _, outcome = talk(client_program(counting, 5, resume=kept[at].state), *rest, FINISH)
        assert outcome.report == unbroken.report


def test_it_reports_what_the_final_model_is_worth_to_it() -> None:
    program = client_program(
        counting, 5, evaluate=lambda arrays: {"people": 4, "sum": float(arrays["w"].sum())}
    )
    _, _, outcome = talk(program, train(1), FINISH)
    assert outcome.report["test"] == {"people": 4, "sum": 7.0}


@pytest.mark.parametrize(("first", "then"), [(2, 2), (2, 1), (1, 4)])
def test_rounds_out_of_turn_are_refused(first: int, then: int) -> None:
    with pytest.raises(ProtocolError, match=f"Broadcast from aggregator: expected round .* came {then}"):
        talk(client_program(counting, 3), train(first), train(then))
