"""What only somebody who owns all hospitals' data can compute: the demo does, since its data are public.

The twin of the governed run in one process, which has to give the same bits, with what each hospital's curriculum looks
like on the way; FedAvg on the same rounds; each hospital alone; and all rows in one place.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias, cast

import numpy as np
import torch
from torch import nn

from horizontal.choices import Admission
from horizontal.client_data import ClientData
from horizontal.config import HorizontalConfig
from horizontal.evaluation import metrics
from horizontal.fedbss import curriculum
from horizontal.local import Examples, outputs
from horizontal.messages import AGGREGATOR
from horizontal.round_rules import Metrics
from horizontal.simulation import Simulation, simulate
from horizontal.table_task import TableTask, from_parameters
from horizontal.weights import model_arrays
from parties.catalog import one_thread
from parties.catalog.horizontal_tables import client_rows
from parties.computation import Arrays
from parties.demo.hospital_setup import ROLES, spec
from parties.demo.setup import HOSPITALS
from parties.roles.simulating import read_data
from protocols.request import ComputationRequest
from protocols.seeds import injected

Watch: TypeAlias = Callable[[nn.Module], Metrics]
SEED = 0
"""Public and private seeds of the demo."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Picture:
    """One hospital's rows in one round by rank, easy first: their uncertainty, the cut, and rows admitted per epoch."""

    hospital: str
    round: int
    uncertainty: tuple[float, ...]
    green: int
    admitted: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HospitalTwin:
    """`model` of the twin; test accuracy by method and hospital ("all": everybody's test rows), and after each round by
    method on all of them; drift by method and hospital in every round; the pictures."""

    model: Arrays
    accuracy: Mapping[str, Mapping[str, float]]
    curves: Mapping[str, tuple[float, ...]]
    drift: Mapping[str, Mapping[str, tuple[float, ...]]]
    pictures: tuple[Picture, ...]


def run_twin(request: ComputationRequest, files: Mapping[str, Path]) -> HospitalTwin:
    """The twin of the run from the hospitals' own files, and what it is compared with."""
    one_thread()
    task, config = from_parameters(request.parameters)
    rows = {name: client_rows(read_data(path, spec()), task) for name, path in files.items()}
    train = {name: parts[0] for name, parts in rows.items()}
    tests = {name: _known(parts[2]) for name, parts in rows.items()}
    tests["all"] = _joined(tests)
    seen: list[nn.Module] = []

    def score(model: nn.Module) -> dict[str, float]:
        return {"accuracy": metrics(model, tests["all"])["accuracy"]}

    def watch(model: nn.Module) -> dict[str, float]:
        seen.append(_copy(task, model))
        return score(model)

    twin = _run(task, config, train, watch)
    # Who owns all data needs no masks, under which nothing is known of one hospital.
    single = replace(config, secure_aggregation=False)
    fedbss = _run(task, single, train) if config.secure_aggregation else twin
    plain = replace(single, admission=Admission.ALL)
    fedavg = _run(task, plain, train, score)
    models = {"FedBSS, three hospitals": twin.model, "FedAvg, three hospitals": fedavg.model}
    for name in HOSPITALS:
        alone = replace(plain, minimum_clients=1)
        models[f"hospital {name} alone"] = _run(task, alone, {name: train[name]}).model
    pooled = replace(plain, minimum_clients=1)
    models["all rows in one place"] = _run(task, pooled, {HOSPITALS[0]: _joined(train)}).model
    shown = sorted({config.warmup_rounds, len(seen) - 1})
    return HospitalTwin(
        model=model_arrays(twin.model),
        accuracy={
            method: {name: metrics(model, test)["accuracy"] for name, test in tests.items()}
            for method, model in models.items()
        },
        curves={
            name: tuple(value for _, value in run.curve("accuracy"))
            for name, run in (("FedBSS", twin), ("FedAvg", fedavg))
        },
        drift={"FedBSS": _drift(fedbss), "FedAvg": _drift(fedavg)},
        pictures=tuple(
            _picture(name, at + 1, seen[at - 1], train[name], config) for at in shown for name in HOSPITALS
        ),
    )


def _run(
    task: TableTask, config: HorizontalConfig, train: Mapping[str, Examples], watch: Watch | None = None
) -> Simulation:
    clients: dict[str, ClientData | Examples] = {ROLES[name]: rows for name, rows in train.items()}
    model = task.network(injected(SEED, AGGREGATOR))
    return simulate(model, clients, config, seed=SEED, validate=watch)


def _copy(task: TableTask, model: nn.Module) -> nn.Module:
    copy = task.network(injected(SEED, AGGREGATOR))
    copy.load_state_dict(model.state_dict())
    return copy


def _drift(run: Simulation) -> dict[str, tuple[float, ...]]:
    """How far each hospital moved the model in every round."""
    rounds = cast(Mapping[str, Mapping[str, Mapping[str, float]]], run.report["rounds"])
    return {name: tuple(record["drift"][ROLES[name]] for record in rounds.values()) for name in HOSPITALS}


def _picture(name: str, number: int, model: nn.Module, rows: Examples, config: HorizontalConfig) -> Picture:
    """The curriculum that the hospital makes in round `number` of the model that it then receives."""
    made = curriculum(outputs(model, rows.features), rows.labels)
    return Picture(
        hospital=name,
        round=number,
        uncertainty=tuple(np.round(made.uncertainties.numpy().astype(float), 4).tolist()),
        green=made.green,
        admitted=tuple(made.green + red for red in made.admitted(config.epochs, config.gate)),
    )


def _known(test: Examples | None) -> Examples:
    assert test is not None, "every hospital of the demo has test rows"
    return test


def _joined(parts: Mapping[str, Examples]) -> Examples:
    return Examples(
        torch.cat([part.features for part in parts.values()]),
        torch.cat([part.labels for part in parts.values()]),
    )
