"""The catalog entry of a horizontal model's use: what follows from the training, and its program on a client's rows."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
import torch

from parties import catalog
from parties.catalog.horizontal_predict import PREDICT
from parties.catalog.horizontal_tables import features
from parties.catalog.horizontal_train import TASK
from parties.computation import Arrays, Inputs, Parameters
from parties.roles.plan import Plan, PlanParty, build_request
from parties.roles.review import review_text
from parties.roles.simulating import LocalSettings
from parties.roles.trained import following, model_used
from protocols.errors import ConfigError, ModelError, RequestError
from protocols.program import Outcome, simulate
from protocols.request import ComputationRequest, digest
from tests.parties.catalog import test_horizontal_train as horizontal
from tests.parties.roles.published import plan
from tests.parties.running.wards import DATA, parameters, simulated

TRAINED = horizontal.request()
MODEL = "ab" * 32


def asked(party: str = "shop", **more: object) -> Plan:
    parties = (PlanParty(name=party, role="client", block="customers"),)
    start = plan(
        computation=PREDICT.name, parties=parties, parameters={"model": digest(TRAINED)[:12], **more}
    )
    used = model_used(start)
    assert used is not None
    return following(start, used, TRAINED, horizontal.OFFERS)


def use(party: str = "shop", **more: object) -> ComputationRequest:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    return build_request(asked(party, **more), horizontal.OFFERS, horizontal.ANA, now=now, nonce="1" * 32)


def test_features_classes_layers_and_columns_follow_from_the_training() -> None:
    request, trained = use(), dict(TRAINED.parameters)
    given = dict(request.parameters)
    assert given == {
        "model": digest(TRAINED),
        "split": "all",
        **{name: trained[name] for name in ("features", "classes", "hidden")},
    }
    assert [entry.name for entry in request.parties] == ["shop"]
    assert request.manifest == ()
    (block,) = request.blocks
    assert (block.columns, block.label) == (TRAINED.blocks[1].columns, "")
    assert catalog.model_wanted(request) == digest(TRAINED)
    assert catalog.used_alone(request)
    assert not catalog.used_alone(TRAINED)
    assert f"trained for request {digest(TRAINED)}" in " ".join(review_text(request).split())


def test_a_vertical_training_is_refused() -> None:
    other = replace(TRAINED, computation="vertical.fedcvt.train")
    with pytest.raises(RequestError, match=r"horizontal\.predict needs a model of horizontal\.train"):
        catalog.check_trained(PREDICT.name, other)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"split": "some"}, "split must be one of train, validation, test, all"),
        ({"rounds": 3}, "unknown parameters: rounds"),
        ({"hidden": "x"}, "hidden"),
    ],
)
def test_settings_that_cannot_be_are_refused(more: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        use(**more)
    with pytest.raises(ConfigError, match="model: expected the digest"):
        PREDICT.parameters({"model": "ab", "features": [], "classes": []}, 10)


def settings(**more: object) -> Parameters:
    given = {name: value for name, value in parameters() if name in ("features", "classes", "hidden")}
    return PREDICT.parameters({"model": MODEL, **given, **more}, 10)


def predicted(model: Arrays | None, given: Parameters) -> Outcome:
    """What the prediction leaves at client-2."""
    data = DATA["client-2"]
    local = LocalSettings(parameters=given, public_seed=0, minimum_overlap=10, rows={"client": 45})
    inputs = Inputs(
        role="client",
        settings=local,
        data=data,
        seed=b"0" * 32,
        observe=lambda progress: None,
        model=model,
    )
    outcome = simulate({"client": PREDICT.program(inputs)})["client"]
    assert isinstance(outcome, Outcome)
    return outcome


@pytest.mark.parametrize(("split", "code"), [("train", 0), ("test", 2), ("all", None)])
def test_what_the_training_left_predicts_as_plain_torch_does(split: str, code: int | None) -> None:
    left, data = simulated(parameters())["client-2"].artifacts, DATA["client-2"]
    found = predicted(left, settings(split=split))
    assert PREDICT.own_rows is not None
    own = PREDICT.own_rows(found.artifacts)
    assert own is not None
    rows = np.arange(data.table.rows) if code is None else np.flatnonzero(data.split == code)
    assert list(own.rows) == rows.tolist()
    assert found.report == {"people": len(rows)}

    from horizontal.table_task import from_parameters

    task = from_parameters(parameters())[0]
    network = task.network(b"other weights")
    network.load_state_dict({n: torch.tensor(a) for n, a in left.items() if n != TASK})
    with torch.no_grad():
        values = torch.softmax(network(torch.from_numpy(features(data.table, task.rules)[rows])), 1)
    assert np.allclose(own.columns["p(well)"], values[:, 1].numpy(), atol=1e-6)
    assert list(own.columns["prediction"]) == [("ill", "well")[at] for at in values.argmax(1).tolist()]


def test_a_model_that_is_missing_damaged_or_another_is_refused() -> None:
    left = dict(simulated(parameters())["client-2"].artifacts)
    with pytest.raises(ModelError, match="given no model"):
        predicted(None, settings())
    with pytest.raises(ModelError, match="other features, classes or layers"):
        predicted(left, settings(hidden="7"))
    with pytest.raises(ModelError, match="no readable task"):
        predicted({name: array for name, array in left.items() if name != TASK}, settings())
    with pytest.raises(ModelError, match="the stored model"):
        predicted({**left, "0.weight": left["0.weight"][:, :2]}, settings())
    with pytest.raises(ModelError, match="the stored model"):
        predicted({**left, "more": left["0.weight"]}, settings())
