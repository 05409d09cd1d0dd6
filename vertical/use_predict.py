"""Joint inference with a trained model, for people of whom both parties know something or only one: two programs.

Messages in order (A active, P passive): 1 to 3 of `vertical.use`, of 3 `CommonShown` and, when P receives and not
`only_common`, `AloneShown`.

4. When P receives: `Probabilities` A -> P in parts, for the people that P showed, in the order in which it showed
   them, then `ExpertWeights` A -> P.

Who receives gets calibrated probabilities for its own people, as artifacts of the run, and nobody else does: the active
party for the common people and its others (P's views filled), the passive party for the common people and its
others (A's views filled). A learns which of its own keys are common, and the representations and principal components
of all whom P shows (with `AloneShown` how many others P has), from which features can partly be inferred; P which of
its own keys are common, how many keys A offered, and, when it receives, probabilities, from which labels and A's
features can partly be inferred.
The analyst gets numbers of people.

Shapes: m people of one situation, k classes, e experts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from protocols.chunks import chunks
from protocols.errors import ModelError
from protocols.program import Outcome, Program, Progress, Send, receive
from vertical.arrays import Arrays, as_text
from vertical.model import ActivePart, PassivePart, Prediction
from vertical.predict import Situation
from vertical.receiving import receive_rows, received
from vertical.roles import ACTIVE, PASSIVE
from vertical.table import PartyData
from vertical.use import (
    UsePeople,
    UseRun,
    agree_on_model,
    align_active,
    align_passive,
    check_part,
    receive_common,
    receive_others,
    show_alone,
    show_common,
    shown_report,
)
from vertical.use_config import PredictConfig, Receiver
from vertical.use_messages import EXPERTS, ExpertWeights, Probabilities

CLASSES, EXPERT_NAMES = "classes", "experts"
ROWS, PROBABILITIES, WEIGHTS = "rows.", "probabilities.", "weights."
"""Names of the artifacts; of the last three each has the situation behind it."""


def active_program(data: PartyData, part: ActivePart, config: PredictConfig, run: UseRun) -> Program[Outcome]:
    """The run as the party with labels sees it; keeps the predictions when it receives them.

    Raises ModelError when the model doesn't fit, or has no memory to fill views with and `only_common` isn't asked.
    """
    check_part(part, config)
    _check_classes(part, config)
    part.predictor(filling=not config.only_common)
    yield from agree_on_model(part.tag, PASSIVE)
    people = yield from align_active(data, config, run)
    run.observe(Progress("predict", 0, 1))
    shown = part.told((yield from receive_common(people, config)), "views")
    predictions = [part.predict(part.known(data.table.take(people.common)), shown)]
    if config.receiver == Receiver.ACTIVE:
        if not config.only_common:
            predictions.append(part.predict(part.known(data.table.take(people.alone)), None))
        artifacts = kept(config, people, predictions)
    else:
        if not config.only_common:
            others = part.told((yield from receive_others(config)), "views")
            predictions.append(part.predict(None, others))
        yield from _send(config, predictions)
        artifacts = {}
    run.observe(Progress("predict", 1, 1))
    numbers = {made.situation.value: {"people": len(made.probabilities)} for made in predictions}
    return Outcome({"predicted": numbers}, artifacts, people.told())


def passive_program(
    data: PartyData, part: PassivePart, config: PredictConfig, run: UseRun
) -> Program[Outcome]:
    """The run as the party without labels sees it; keeps the predictions when it receives them."""
    check_part(part, config)
    yield from agree_on_model(part.tag, ACTIVE)
    people = yield from align_passive(data, config, run)
    run.observe(Progress("show", 0, 1))
    receives = config.receiver == Receiver.PASSIVE
    yield from show_common(part.show_all, data, people, config)
    if receives and not config.only_common:
        yield from show_alone(part.show_all, data, people, config)
    run.observe(Progress("show", 1, 1))
    if not receives:
        return Outcome({}, {}, people.told())
    predictions = yield from _receive(config, people)
    report = {} if config.only_common else shown_report(people)
    return Outcome(report, kept(config, people, predictions), people.told())


def kept(
    config: PredictConfig, people: UsePeople, predictions: Sequence[Prediction]
) -> dict[str, NDArray[np.generic]]:
    """The receiver's predictions as artifacts: own rows and probabilities by situation, weights, names."""
    found: dict[str, NDArray[np.generic]] = {
        CLASSES: as_text(json.dumps(config.names)),
        EXPERT_NAMES: as_text(json.dumps(EXPERTS)),
    }
    for rows, made in zip((people.common, people.alone), predictions, strict=False):
        found[ROWS + made.situation] = rows
        found[PROBABILITIES + made.situation] = made.probabilities
        found[WEIGHTS + made.situation] = made.expert_weights()
    return found


def columns_of(artifacts: Arrays) -> tuple[list[int], dict[str, list[str | float]]] | None:
    """Own row numbers and, column by column, what `kept` holds of them; None when this party didn't receive.

    Columns: the situation; whether each party's view is real or filled; the most probable class; a probability for each
    class; a weight for each expert.
    """
    if CLASSES not in artifacts:
        return None
    classes, experts = (json.loads(artifacts[name].tobytes()) for name in (CLASSES, EXPERT_NAMES))
    names = ["situation", "active_view", "passive_view", "prediction"]
    names += [f"p({name})" for name in classes] + [f"weight({name})" for name in experts]
    rows: list[int] = []
    cells: list[list[str | float]] = []
    for situation in Situation:
        if ROWS + situation not in artifacts:
            continue
        views = [
            "filled" if situation == Situation.PASSIVE_ONLY else "real",
            "filled" if situation == Situation.ACTIVE_ONLY else "real",
        ]
        weights = artifacts[WEIGHTS + situation].tolist()
        rows += artifacts[ROWS + situation].tolist()
        for probabilities in artifacts[PROBABILITIES + situation].tolist():
            best = classes[max(range(len(classes)), key=probabilities.__getitem__)]
            cells.append([situation.value, *views, best, *probabilities, *weights])
    return rows, {name: [row[at] for row in cells] for at, name in enumerate(names)}


def _send(config: PredictConfig, predictions: Sequence[Prediction]) -> Program[None]:
    """Message 4."""
    values = np.concatenate([made.probabilities for made in predictions])
    for at in chunks(len(values), config.most_shown, config.evaluation_batch):
        yield Send(PASSIVE, Probabilities(at.start, values[at]))
    yield Send(PASSIVE, ExpertWeights(np.stack([made.expert_weights() for made in predictions])))


def _receive(config: PredictConfig, people: UsePeople) -> Program[list[Prediction]]:
    """Message 4: predictions for the common people, then for the others."""
    common, total = len(people.common), len(people.common)
    total += 0 if config.only_common else len(people.alone)
    parts = chunks(total, config.most_shown, config.evaluation_batch)
    values = yield from receive_rows(ACTIVE, Probabilities, lambda part: part.values, parts, config.classes)
    told = yield from receive(ACTIVE, ExpertWeights)
    situations = (Situation.BOTH,) if config.only_common else (Situation.BOTH, Situation.PASSIVE_ONLY)
    weights = received(
        told.weights, (len(situations), len(EXPERTS)), f"{ExpertWeights.__name__} from {ACTIVE}"
    )
    return [
        Prediction(situation=situation, probabilities=part, weights=dict(zip(EXPERTS, row, strict=True)))
        for situation, part, row in zip(
            situations, (values[:common], values[common:]), weights.tolist(), strict=False
        )
    ]


def _check_classes(part: ActivePart, config: PredictConfig) -> None:
    """ModelError unless the names that the request says of the classes, if any, are the model's."""
    if config.class_names and config.names != part.classes:
        raise ModelError(
            "class_names: the request says others than the model has",
            remedy="leave them out of the plan: they follow from the model",
        )
