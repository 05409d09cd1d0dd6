"""Of every computation of the catalog a rehearsal fits the manifest and uses nine tenths of each of its bounds."""

from collections.abc import Callable, Mapping

import pytest

from parties import catalog
from parties.roles.plan import Offer, PlanParty
from parties.roles.rehearse import LEAST_FILL, rehearse
from protocols.request import ComputationRequest
from tests.parties.catalog import test_horizontal_predict as prediction
from tests.parties.catalog import test_horizontal_train as horizontal
from tests.parties.roles import test_trained as trained
from tests.parties.roles.published import PARAMETERS, plan

Case = tuple[ComputationRequest, Mapping[str, Offer]]
HOLDER = (PlanParty(name="bank", role="holder", block="customers"),)


def alone(**changes: object) -> Case:
    return trained.build(plan(**changes)), trained.OFFERS


def use(name: str) -> Case:
    return trained.build(trained.use(name)), trained.OFFERS


PLANS: dict[str, Callable[[], Case]] = {
    # with early stopping fewer steps than allowed may be taken
    "vertical.fedcvt.train": lambda: alone(parameters=PARAMETERS | {"early_stopping": False}),
    "vertical.fedcvt.fill": lambda: use("vertical.fedcvt.fill"),
    "vertical.fedcvt.vote": lambda: use("vertical.fedcvt.vote"),
    "vertical.fedcvt.predict": lambda: use("vertical.fedcvt.predict"),
    "align.size": lambda: alone(computation="align.size", parameters={}),
    "align.pairs": lambda: alone(computation="align.pairs", parameters={}),
    "horizontal.train": lambda: (horizontal.request(), horizontal.OFFERS),
    "horizontal.predict": lambda: (prediction.use(split="test"), horizontal.OFFERS),
    "describe.columns": lambda: alone(computation="describe.columns", parameters={}, parties=HOLDER),
}


@pytest.mark.parametrize("name", sorted(catalog.CATALOG))
def test_a_rehearsal_uses_nine_tenths_of_each_bound(name: str) -> None:
    assert name in PLANS, f"add a plan of {name}"
    request, offers = PLANS[name]()
    assert request.computation == name
    done = rehearse(request, offers, lambda progress: None)
    assert set(done.fill) == {f"{r.kind} {r.sender} -> {r.receiver}" for r in request.manifest}
    assert all(LEAST_FILL <= share <= 1 for share in done.fill.values()), done.fill
