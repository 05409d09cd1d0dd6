"""The catalog entry of the horizontal training: from a plan to a request, its rehearsal, its rows, its model part."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
import torch

from parties import catalog
from parties.catalog.horizontal_tables import client_rows, published_task
from parties.catalog.horizontal_train import TASK
from parties.roles.plan import Offer, PlanParty, build_request, read_plan
from parties.roles.rehearse import rehearse
from parties.roles.review import review_text
from protocols.disclosure import releasable
from protocols.errors import BlockError, ConfigError, ModelError, RequestError
from protocols.request import AnalystEntry, ComputationRequest
from tests.parties.roles.published import card, plan, publication
from tests.parties.running.wards import AGGREGATOR, CLIENTS, DATA, TRAIN, parameters, simulated

ANA = AnalystEntry(name="ana", organisation="Lab", key="a" * 64)
NAMES = ("bank", "shop", "north")
OFFERS = {name: Offer(card=card(name), blocks={"customers": publication(name, label=True)}) for name in NAMES}
OFFERS["centre"] = Offer(card=card("centre"), blocks={})
PARTIES = (
    PlanParty(name="centre", role="aggregator"),
    *(PlanParty(name=name, role="client", block="customers") for name in NAMES),
)


def request(parties: tuple[PlanParty, ...] = PARTIES, **settings: object) -> ComputationRequest:
    asked = plan(
        computation=TRAIN.name, parties=parties, parameters={"rounds": 12, "hidden": [4], **settings}
    )
    return build_request(asked, OFFERS, ANA, now=datetime(2026, 1, 2, tzinfo=UTC), nonce="1" * 32)


def test_a_plan_becomes_a_request_of_numbered_clients_around_an_aggregator() -> None:
    made = request()
    assert [(entry.name, entry.role) for entry in made.parties] == [
        ("centre", AGGREGATOR),
        *zip(NAMES, CLIENTS, strict=True),
    ]
    assert [(block.role, block.label, block.columns) for block in made.blocks] == [
        (role, "churned", ("amount", "town")) for role in CLIENTS
    ]
    pairs = {(line.sender, line.receiver) for line in made.manifest}
    assert pairs == {pair for role in CLIENTS for pair in ((AGGREGATOR, role), (role, AGGREGATOR))}, (
        "clients never speak with each other"
    )


def test_what_is_published_gives_features_and_classes() -> None:
    given = dict(request().parameters)
    quantiles = [q.value for q in publication("bank").schema.columns[0].quantiles]
    assert given["features"] == f'[["amount",{min(quantiles)},{max(quantiles)}],["town",["Aa","Bb"]]]'
    assert given["classes"] == '["0","1"]'
    assert dict(request(features={"amount": [0, 9], "town": ["Aa"]}).parameters)["features"] == (
        '[["amount",0.0,9.0],["town",["Aa"]]]'
    )


def test_the_review_names_every_party_and_what_it_learns() -> None:
    text = review_text(request())
    for name in ("centre", *NAMES):
        assert name in text
    assert "centre -> north  Broadcast: up to 13 messages" in text
    assert "this client's model after each training" in text


@pytest.mark.parametrize("method", ["fedavg", "fedbss", "scaffold", "flash"])
def test_a_rehearsal_on_mocks_fits_the_manifest(method: str) -> None:
    made = request(method=method)
    done = rehearse(made, OFFERS, lambda progress: None)
    if method != "flash":  # which retires clients
        assert done.messages == 3 * (2 * 12 + 1)
    assert set(done.reports) == {AGGREGATOR, *CLIENTS}


SECURE: dict[str, object] = {"secure_aggregation": True, "minimum_clients": 3}


@pytest.mark.parametrize("method", ["fedavg", "fedbss", "scaffold"])
def test_a_rehearsal_under_masks_fits_a_manifest_that_lists_no_single_model(method: str) -> None:
    made = request(method=method, **SECURE)
    done = rehearse(made, OFFERS, lambda progress: None)
    assert min(done.fill.values()) >= 0.8
    assert done.messages == 3 * (12 * 7 + 1)
    kinds = {line.kind for line in made.manifest if line.receiver == AGGREGATOR}
    assert kinds == {"Ready", "Masked", "Revealed"}
    text = review_text(made)
    assert "north -> centre  Masked: up to 12 messages" in text
    assert "nothing alone: this client's model and number of rows, under masks" in text
    assert "the sum over 3 clients or more" in text
    assert "this client's model after each training" not in text


def test_with_more_clients_than_the_fewest_words_may_be_asked_for_again() -> None:
    rows = dict.fromkeys((*CLIENTS, "client-4", "client-5"), 100)
    lines = TRAIN.manifest(parameters(**SECURE, rounds=12), rows)
    up = {line.kind: line.repetitions for line in lines if line.sender == "client-5"}
    assert up == {"Ready": 12, "Masked": 12 + 2, "Revealed": 12}


def test_what_needs_single_updates_is_refused_with_secure_aggregation() -> None:
    with pytest.raises(ConfigError, match="median: it sorts the clients' values"):
        request(method="median", **SECURE)
    with pytest.raises(ConfigError, match="of the sum of two, each knows the other's update"):
        request(secure_aggregation=True)
    with pytest.raises(RequestError, match="a round needs 3 clients, the plan has 2"):
        request(PARTIES[:3], **SECURE)


def test_the_analysts_organisation_aggregates_sums_only() -> None:
    own = replace(card("centre"), organisation=ANA.organisation.upper())
    offers = {**OFFERS, "centre": Offer(card=own, blocks={})}
    asked = plan(computation=TRAIN.name, parties=PARTIES, parameters={"rounds": 2})
    now = datetime(2026, 1, 2, tzinfo=UTC)
    with pytest.raises(RequestError, match="of the analyst's organisation") as caught:
        build_request(asked, offers, ANA, now=now, nonce="1" * 32)
    assert "secure_aggregation = true" in caught.value.remedy
    secure = replace(asked, parameters={"rounds": 2, **SECURE})
    assert build_request(secure, offers, ANA, now=now, nonce="1" * 32).parties[0].name == "centre"


def test_a_share_of_the_clients_is_rehearsed_too() -> None:
    done = rehearse(request(fraction=0.5), OFFERS, lambda progress: None)
    assert max(done.fill.values()) <= 1


@pytest.mark.parametrize(
    ("parties", "text"),
    [
        (PARTIES[1:], "one party in the role aggregator"),
        (PARTIES[:2], "two or more"),
        ((replace(PARTIES[0], block="customers"), *PARTIES[1:]), "brings no block"),
        ((PARTIES[0], PARTIES[1], replace(PARTIES[2], block="")), "names no block"),
        ((*PARTIES[:3], replace(PARTIES[3], role="client-7")), "client-7"),
    ],
)
def test_a_roster_that_is_no_star_is_refused(parties: tuple[PlanParty, ...], text: str) -> None:
    with pytest.raises(RequestError, match=text):
        request(parties)


def test_too_few_clients_and_too_rare_checkpoints_are_refused_before_anybody_is_asked() -> None:
    with pytest.raises(RequestError, match="needs 4 clients"):
        request(minimum_clients=4)
    with pytest.raises(ConfigError, match="checkpoint_every"):
        request(checkpoint_every=61)


def test_a_plan_file_needs_no_block_for_the_aggregator(tmp_path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(
        'purpose = "x"\ncomputation = "horizontal.train"\n[parties.centre]\nrole = "aggregator"\n'
        '[parties.north]\nrole = "client"\nblock = "patients"\n[parameters.features]\nage = [20, 80]\n'
    )
    read = read_plan(path)
    assert [party.block for party in read.parties] == ["", "patients"]
    assert read.parameters["features"] == {"age": [20, 80]}


def test_clients_that_publish_other_columns_are_named() -> None:
    schemas = {role: publication("bank", label=True).schema for role in CLIENTS}
    schemas["client-2"] = replace(schemas["client-2"], columns=schemas["client-2"].columns[:1])
    with pytest.raises(RequestError, match=r"client-2 differ.*town"):
        published_task(schemas, ())
    with pytest.raises(RequestError, match="client-2 has no label"):
        published_task({**schemas, "client-2": replace(schemas["client-1"], label="")}, ())


def test_rows_by_hand() -> None:
    from horizontal.table_task import from_parameters

    task, _ = from_parameters(parameters(classes=["other", "well", "ill"]))
    data = DATA["client-1"]
    training, validation, test = client_rows(data, task)
    assert validation is None
    assert test is not None
    assert data.labels is not None
    labelled = data.labels >= 0
    assert len(training) == int(np.sum(labelled & (data.split == 0)))
    assert len(test) == int(np.sum(labelled & (data.split == 2)))
    first = int(np.flatnonzero(labelled & (data.split == 0))[0])
    assert training.labels[0] == {0: 2, 1: 1}[int(data.labels[first])], (
        "codes of the request, not of the block"
    )
    age = data.table.columns[0].values[first]  # type: ignore[union-attr]
    assert training.features[0, 0] == torch.tensor((age - 50) / 30, dtype=torch.float32)
    with pytest.raises(BlockError, match="2 classes"):
        client_rows(data, from_parameters(parameters(classes=["a", "b"]))[0])
    with pytest.raises(BlockError, match="no labels"):
        client_rows(replace(data, labels=None, classes=()), task)
    with pytest.raises(BlockError, match="'age': the request reads categories"):
        client_rows(
            data, from_parameters(parameters(features={"age": ["1"], "dose": [0, 1], "sex": ["f"]}))[0]
        )


def test_what_is_released_stands_on_enough_people() -> None:
    outcomes = simulated(parameters(method="fedbss"))
    released = {role: releasable(outcome.report, 1) for role, outcome in outcomes.items()}
    drift = released[AGGREGATOR]["rounds"]["5"]["clients"]["client-1"]  # type: ignore[index,call-overload]
    assert isinstance(drift["drift"], float)
    assert isinstance(drift["cosine"], float)
    assert drift["people"] == 45
    own = released["client-1"]
    assert isinstance(own["rounds"]["5"]["loss"], float)  # type: ignore[index,call-overload]
    assert isinstance(own["test"]["accuracy"], float)  # type: ignore[index,call-overload]
    few = releasable(outcomes["client-1"].report, 10)["test"]
    assert few["people"] == own["test"]["people"]  # type: ignore[index,call-overload]
    reason = few["accuracy"]["reason"]  # type: ignore[index,call-overload]
    assert reason == "a class has fewer than 10 people", "the scores would tell how many"


def test_the_model_left_is_a_state_dict_and_says_how_it_is_used() -> None:
    outcome, left = simulated(parameters())["client-2"], TRAIN.model_left
    assert left is not None
    names = left.tensors("client-2", outcome.artifacts)
    assert names == ("0.bias", "0.weight", "2.bias", "2.weight")
    from horizontal.table_task import from_parameters

    network = from_parameters(parameters())[0].network(b"other weights")
    network.load_state_dict({name: torch.tensor(outcome.artifacts[name]) for name in names})
    assert left.describe("client-2", outcome.artifacts)["features"] == 4
    assert left.preprocessing("client-2", outcome.artifacts)["classes"] == ["ill", "well"]
    with pytest.raises(ModelError):
        left.describe("client-2", {name: outcome.artifacts[name] for name in names})
    with pytest.raises(ModelError):
        left.describe("client-2", {TASK: outcome.artifacts[TASK]})
    with pytest.raises(ModelError):
        left.describe("client-2", {**outcome.artifacts, TASK: np.frombuffer(b"[]", np.uint8)})


def test_it_is_in_the_catalog() -> None:
    assert catalog.find("horizontal.train", "1") is TRAIN
