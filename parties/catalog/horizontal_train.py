"""The training of one model by many clients as an entry of the catalog."""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from parties.computation import Arrays, Computation, Inputs, MockPeople, ModelLeft, Parameters, Rows, Star
from protocols.errors import ConfigError, ModelError, RequestError
from protocols.program import Json, Outcome, Program
from protocols.request import Release
from protocols.wire import Message

if TYPE_CHECKING:
    from parties.blocks.schema import BlockSchema

AGGREGATOR, CLIENT = "aggregator", "client"
TASK = "task"
"""The artifact, as bytes of text, that says how columns become features and of what the network is made."""
FIRST_LAYER = "0.weight"
LEAST_FILL = 0.9
MOST_KEPT = 60
"""Rounds between two checkpoints at most: a client keeps as many of its own."""


def _setting_names() -> tuple[str, ...]:
    from horizontal.table_task import setting_names

    return setting_names()


def _parameters(given: Mapping[str, object], minimum_overlap: int) -> Parameters:
    from horizontal.table_task import complete

    parameters = complete(given)
    every = dict(parameters)["checkpoint_every"]
    if int(every) > MOST_KEPT:
        raise ConfigError(f"checkpoint_every must lie in [1, {MOST_KEPT}] between parties, came {every}")
    return parameters


def _from_schemas(given: Mapping[str, object], schemas: Mapping[str, "BlockSchema"]) -> Mapping[str, object]:
    from parties.catalog.horizontal_tables import published_task

    return {**published_task(schemas, tuple(given)), **given}


def _check_rows(parameters: Parameters, rows: Rows, minimum_group: int) -> None:
    least = int(dict(parameters)["minimum_clients"])
    if len(rows) < least:
        raise RequestError(
            f"a round needs {least} clients, the plan has {len(rows)}",
            remedy="ask more parties, or lower minimum_clients: the mean of one client is that client's model",
        )


def _check_seats(parameters: Parameters, organisations: Mapping[str, str], analyst: str) -> None:
    """Single updates must not reach the analyst's organisation: what it learns is to be what it is released."""
    own = organisations.get(AGGREGATOR, "")
    if _plain(own) == _plain(analyst) and not dict(parameters).get("secure_aggregation"):
        raise RequestError(
            f"the aggregator would be of the analyst's organisation ({own}) and see each client's model",
            remedy="set secure_aggregation = true (three clients or more), or place the aggregator elsewhere",
        )


def _plain(organisation: str) -> str:
    return " ".join(organisation.casefold().split())


def _manifest(parameters: Parameters, rows: Rows) -> tuple[Release, ...]:
    from horizontal.manifest import manifest
    from horizontal.rules import Method
    from horizontal.table_task import from_parameters

    task, config = from_parameters(parameters)
    model = task.network(b"any weights")
    method = Method.of(model, tuple(rows), config, 0, b"any seed")
    start = method.start(model)
    return manifest(start, method.rules(start.model), tuple(rows), config)


def _mock_people(parameters: Parameters, rows: Rows, minimum_overlap: int) -> tuple[MockPeople, ...]:
    return (MockPeople(common=0),)


def _least_fill(parameters: Parameters, clients: int) -> float:
    """Where not every client takes part in every round, the rounds to come decide how much of a bound is used.

    With secure aggregation no client is lost in a rehearsal, so that nothing is masked again.
    """
    given = dict(parameters)
    everybody = given["fraction"] == 1.0 and given["selection"] == "uniform" and not given["stop_after"]
    rounds = int(given["rounds"])
    spare = max(1, clients - int(given["minimum_clients"])) if given["secure_aggregation"] else 1
    return (
        LEAST_FILL * rounds / (rounds + spare) if everybody else 0.0
    )  # the last broadcast is often a smaller one


def _program(inputs: Inputs) -> Program[Outcome]:
    from horizontal.client_data import ClientData
    from horizontal.programs import aggregator_program, client_program
    from horizontal.released import aggregator_report, client_report
    from horizontal.table_task import from_parameters
    from horizontal.work import ClientWork
    from parties.catalog.horizontal_tables import class_counts, client_rows, labelled_rows

    settings = inputs.settings
    task, config = from_parameters(settings.parameters)
    model = task.network(inputs.seed)
    if inputs.role == AGGREGATOR:
        program = aggregator_program(
            model,
            tuple(settings.rows),
            config,
            settings.public_seed,
            inputs.seed,
            observe=inputs.observe,
            resume=inputs.resume,
            identity=inputs.identity,
        )
        return _ending(program, aggregator_report, settings.parameters, {})
    training, validation, test = client_rows(inputs.data, task)
    data = ClientData(training=training, validation=validation, test=test)
    work = ClientWork(model, data, config, inputs.seed)
    program = client_program(work, observe=inputs.observe, resume=inputs.resume, identity=inputs.identity)
    counts = {} if test is None else class_counts(test, task)
    people = labelled_rows(inputs.data)
    return _ending(program, lambda report: client_report(report, counts), settings.parameters, people)


def _ending(
    program: Program[Outcome],
    report: Callable[[Mapping[str, Json]], Mapping[str, Json]],
    parameters: Parameters,
    people: Mapping[str, NDArray[np.int64]],
) -> Program[Outcome]:
    """The program, whose report then is in the form of the disclosure rules, and whose model is a model's part."""
    outcome = yield from program
    return Outcome(report(outcome.report), _artifacts(outcome.artifacts, parameters), people)


def _artifacts(left: Arrays, parameters: Parameters) -> Arrays:
    from horizontal.average import unnamed

    return {**unnamed("model", left), TASK: packed_task(parameters)}


def packed_task(parameters: Parameters) -> NDArray[np.uint8]:
    """The artifact TASK of a model that was trained with these parameters."""
    from horizontal.table_task import OWN

    text = json.dumps({name: value for name, value in parameters if name in OWN})
    return np.frombuffer(text.encode(), np.uint8)


def _kinds() -> tuple[type[Message], ...]:
    from horizontal.masked_messages import MASKED_KINDS
    from horizontal.messages import KINDS

    return KINDS + MASKED_KINDS


def task_of(arrays: Arrays) -> dict[str, str]:
    """The parameters that the model was trained with. ModelError for a part that isn't whole."""
    try:
        found = json.loads(arrays[TASK].tobytes())
        return {name: str(found[name]) for name in ("classes", "features", "hidden")}
    except (KeyError, ValueError, TypeError) as problem:
        raise ModelError("the stored model has no readable task", remedy="train again") from problem


def _describe(role: str, arrays: Arrays) -> Mapping[str, Json]:
    task, tensors = task_of(arrays), _tensors(role, arrays)
    if FIRST_LAYER not in tensors:
        raise ModelError(f"the stored model has no {FIRST_LAYER}", remedy="train again")
    return {
        "features": int(arrays[FIRST_LAYER].shape[1]),
        "classes": json.loads(task["classes"]),
        "hidden": task["hidden"] or "none: a linear model",
        "numbers": sum(arrays[name].size for name in tensors),
    }


def _preprocessing(role: str, arrays: Arrays) -> Mapping[str, Json]:
    task = task_of(arrays)
    return {"features": json.loads(task["features"]), "classes": json.loads(task["classes"])}


def _tensors(role: str, arrays: Arrays) -> tuple[str, ...]:
    return tuple(sorted(name for name in arrays if name != TASK))


TRAIN = Computation(
    name="horizontal.train",
    version="1",
    summary="Trains one model on the rows of several clients, which send their models to an aggregator",
    roles=(AGGREGATOR, CLIENT),
    analyst_receives=(
        "of the final model its loss, accuracy and related scores on each client's own test rows, to three digits",
        "of each round and client the training loss, how far the client moved the model and in which direction (with "
        "secure aggregation only how far all together moved it), and with FedBSS how many of its rows were unbiased "
        "and biased",
        "which clients took part in each round, and a code for each that failed",
    ),
    parameters=_parameters,
    manifest=_manifest,
    mock_people=_mock_people,
    program=_program,
    kinds=_kinds,
    setting_names=_setting_names,
    label_role=CLIENT,
    check_rows=_check_rows,
    check_seats=_check_seats,
    model_left=ModelLeft(
        describe=_describe,
        preprocessing=_preprocessing,
        tensors=_tensors,
        without_memory=lambda arrays: arrays,
    ),
    star=Star(
        centre=AGGREGATOR,
        spoke=CLIENT,
        kept=lambda parameters: int(dict(parameters)["checkpoint_every"]) + 2,
        least_fill=_least_fill,
    ),
    from_schemas=_from_schemas,
)
