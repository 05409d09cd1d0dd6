"""The use of a model that horizontal clients trained, as an entry of the catalog: a run of one of them alone."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from parties.catalog.horizontal_train import CLIENT, TASK, TRAIN, packed_task, task_of
from parties.computation import (
    Arrays,
    Computation,
    Inputs,
    MockPeople,
    ModelUsed,
    OwnRows,
    Parameters,
    Rows,
)
from protocols.errors import ConfigError, ModelError
from protocols.program import Outcome, Program
from vertical.table import PartyData, Split
from vertical.use_config import People

if TYPE_CHECKING:
    from torch import nn

ROLE = CLIENT
OWN = ("model", "split")
"""The parameters that don't follow from the model."""


def _setting_names() -> tuple[str, ...]:
    from horizontal.table_task import OWN as OF_THE_MODEL

    return tuple(sorted((*OWN, *OF_THE_MODEL)))


def _parameters(given: Mapping[str, object], minimum_overlap: int) -> Parameters:
    from horizontal.table_task import read_task

    known = _setting_names()
    if unknown := sorted(set(given) - set(known)):
        raise ConfigError(
            f"unknown parameters: {', '.join(unknown)}", remedy=f"there are: {', '.join(known)}"
        )
    model, split = str(given.get("model", "")), str(given.get("split", People.ALL))
    if not re.fullmatch("[0-9a-f]{64}", model):
        raise ConfigError(
            "model: expected the digest of a training request, 64 hex digits",
            remedy="fedaccord model list shows the models of a party, request status the requests of an analyst",
        )
    if split not in tuple(People):
        raise ConfigError(f"split must be one of {', '.join(People)}, came {split!r:.80}")
    return tuple(sorted({"model": model, "split": split, **read_task(given).to_parameters()}.items()))


def _mock_people(parameters: Parameters, rows: Rows, least: int) -> tuple[MockPeople, ...]:
    split = str(dict(parameters)["split"])
    return (MockPeople.of_one(rows[ROLE], Split.TRAIN if split == People.ALL else Split[split.upper()]),)


def _follows(trained: Parameters, classes: Sequence[str]) -> Mapping[str, object]:
    """What the model was made of: the features, classes and layers of the training."""
    from horizontal.table_task import OWN as OF_THE_MODEL

    return {name: value for name, value in trained if name in OF_THE_MODEL}


def _mock(parameters: Parameters, data: Mapping[str, PartyData]) -> Mapping[str, Arrays]:
    from horizontal.table_task import read_task
    from horizontal.weights import model_arrays

    network = read_task(dict(parameters)).network(b"any weights")
    return {role: {**model_arrays(network), TASK: packed_task(parameters)} for role in data}


def _program(inputs: Inputs) -> Program[Outcome]:
    import torch

    from horizontal.predict import predict_program
    from horizontal.table_task import read_task
    from parties.catalog.horizontal_tables import features

    parameters, data = dict(inputs.settings.parameters), inputs.data
    task, split = read_task(parameters), str(parameters["split"])
    network = _loaded(inputs.model, parameters, task.network(b"replaced at once"))
    rows = np.arange(data.table.rows) if split == People.ALL else data.rows_of(Split[split.upper()])
    values = torch.from_numpy(features(data.table.take(rows), task.rules))
    return predict_program(network, values, rows, task.classes, inputs.observe)


def _loaded(model: Arrays | None, parameters: Mapping[str, object], network: "nn.Module") -> "nn.Module":
    """The network with the stored weights. ModelError for one that is damaged, or that the request doesn't describe."""
    from horizontal.average import UpdateError
    from horizontal.weights import set_model

    if model is None:
        raise ModelError("the client was given no model")
    task = task_of(model)
    if task != {name: str(parameters[name]) for name in task}:
        raise ModelError(
            "the request says other features, classes or layers than the model was trained with",
            remedy="leave them out of the plan: they follow from the model",
        )
    try:
        set_model(network, {name: array for name, array in model.items() if name != TASK}, "the stored model")
    except UpdateError as problem:
        raise ModelError(str(problem), remedy="train again") from problem
    return network


def _own_rows(arrays: Arrays) -> OwnRows | None:
    from horizontal.predict import columns_of

    found = columns_of(arrays)
    return None if found is None else OwnRows(rows=found[0], columns=found[1])


PREDICT = Computation(
    name="horizontal.predict",
    version="1",
    summary="Scores one client's own rows with the common model; the scores stay at the client",
    roles=(ROLE,),
    analyst_receives=("number of people who were predicted for, a small one suppressed",),
    parameters=_parameters,
    manifest=lambda parameters, rows: (),
    mock_people=_mock_people,
    program=_program,
    kinds=lambda: (),
    setting_names=_setting_names,
    model_used=ModelUsed(trained_by=TRAIN.name, inherited=_follows, mock=_mock, alone=True),
    own_rows=_own_rows,
)
