"""Fill, vote and predict over real datasites, on the model of a finished training."""

from collections.abc import Mapping

import numpy as np
import pytest
import torch

from parties import catalog
from parties.computation import Inputs
from parties.roles import analyst
from parties.roles.own_rows import write_own_rows
from parties.roles.plan import Plan, PlanParty
from parties.roles.simulating import read_data
from protocols.disclosure import releasable
from protocols.program import Outcome, simulate
from protocols.request import ComputationRequest
from protocols.request import digest as request_digest
from protocols.seeds import injected
from tests.full_path import people
from tests.full_path.lab import BANK, BLOCK, PARTIES, RETAILER, ROLES, SEED, Lab, specs

pytestmark = pytest.mark.syft


def use(lab: Lab, trained: ComputationRequest, what: str, **parameters: object) -> ComputationRequest:
    """A finished use of the trained model, from draft to end."""
    plan = Plan(
        purpose="churn",
        purpose_text="",
        computation=f"vertical.fedcvt.{what}",
        parties=tuple(PlanParty(name=name, role=ROLES[name], block=BLOCK) for name in PARTIES),
        parameters={"model": request_digest(trained)[:16], **parameters},
        minimum_overlap=20,
    )
    request = analyst.draft(lab.ana, plan, lab.offers)
    lab.submit(request)
    lab.approve(request)
    lab.start(request)
    lab.done(request)
    return request


def twin(lab: Lab, trained: ComputationRequest, request: ComputationRequest) -> Mapping[str, Outcome]:
    """The outcomes by role of the use's programs in this process."""
    torch.set_num_threads(1)
    computation = catalog.CATALOG[request.computation]
    programs = {
        role: computation.program(
            Inputs(
                role=role,
                settings=request,
                data=read_data(lab.files[name], specs()[name]),
                seed=injected(SEED, role),
                observe=lambda progress: None,
                model=lab.model(name, trained),  # type: ignore[arg-type]
            )
        )
        for name, role in ROLES.items()
    }
    return {role: left for role, left in simulate(programs).items() if isinstance(left, Outcome)}


@pytest.mark.parametrize(
    ("what", "parameters"),
    [("fill", {}), ("vote", {"unlabelled": True}), ("predict", {"receiver": "passive"})],
    ids=["fill", "vote", "predict"],
)
def test_a_use_of_a_trained_model_from_request_to_result(
    lab: Lab, finished: ComputationRequest, what: str, parameters: dict[str, object]
) -> None:
    request = use(lab, finished, what, **parameters)
    expected = twin(lab, finished, request)
    released = analyst.results(request, lab.sites)
    for name in PARTIES:
        lab.check_model(name, request, expected)
        assert released[name]["report"] == releasable(expected[ROLES[name]].report, 10)  # type: ignore[index]
    if what == "predict":
        _check_predictions(lab, request)


def _check_predictions(lab: Lab, request: ComputationRequest) -> None:
    """Only the party that asked has them, and joins them with its own keys."""
    found = lab.model(RETAILER, request)
    assert len(np.asarray(found["probabilities.both"])) == people.ALIGNED + people.TEST
    assert lab.model(BANK, request) == {}
    out = lab.folder / "scores.csv"
    write_own_rows(lab.states[RETAILER], request_digest(request), out)
    lines = out.read_text().splitlines()
    assert {line.partition(",")[0] for line in lines[1:]} == set(lab.customers.keys(RETAILER))
    assert not [secret for secret in lab.customers.alone(BANK) if secret in out.read_text()]
