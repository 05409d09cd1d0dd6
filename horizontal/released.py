"""Reports of a horizontal run in the form of the disclosure rules, which says of each number how many people it is of.

The aggregator's: by round and client, how far that client moved the model and in which direction, or of a sum how far
all of its clients moved it. A client's: by round, its training loss and FedBSS's numbers of unbiased and biased rows,
and what the final model is worth on its test rows.
Lists of numbers of single epochs stay at the client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from protocols.program import Json

Report = Mapping[str, Json]


def aggregator_report(report: Report) -> dict[str, Json]:
    """The aggregator's report, each client's numbers in a group with the rows that it trained on."""
    return {
        **report,
        "rounds": {number: _round(record) for number, record in _groups(report["rounds"]).items()},
    }


def client_report(report: Report, test_classes: Mapping[str, int]) -> dict[str, Json]:
    """A client's report: of each round the loss of its last local epoch, and the scores on its test rows.

    `test_classes` are their numbers by class: scores would tell a small one's size.
    """
    rounds = {number: _training(notes) for number, notes in _groups(report["rounds"]).items()}
    found: dict[str, Json] = {**report, "rounds": rounds}
    if "test" in report:
        found["test"] = {**cast(Report, report["test"]), "classes": dict(test_classes)}
    return found


def _round(record: Report) -> dict[str, Json]:
    rows, drift, cosine = (
        cast(Mapping[str, Json], record.get(name, {})) for name in ("rows", "drift", "cosine")
    )
    clients: dict[str, Json] = {
        client: {"people": rows[client], "drift": drift[client], "cosine": cosine[client]} for client in drift
    }
    found: dict[str, Json] = {"clients": clients}
    found.update(
        {
            name: record[name]
            for name in ("failures", "undescribed", "busy", "sum", "void")
            if record.get(name)
        }
    )
    return found


def _training(notes: Report) -> dict[str, Json]:
    losses = cast(list[float], notes["losses"])
    found: dict[str, Json] = {name: notes[name] for name in ("people", "green", "red") if name in notes}
    return {**found, "loss": losses[-1]} if losses else found


def _groups(rounds: Json) -> Mapping[str, Report]:
    return cast(Mapping[str, Report], rounds)
