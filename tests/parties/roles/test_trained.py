"""Plans that use a trained model: what follows from the model, and a rehearsal that fills their manifests."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from parties.roles.plan import Plan, PlanParty, build_request
from parties.roles.rehearse import LEAST_FILL, rehearse
from parties.roles.review import review_text
from parties.roles.trained import following, model_start, model_used
from protocols.errors import ConfigError, RequestError
from protocols.request import AnalystEntry, ComputationRequest, digest
from tests.parties.roles.published import PARAMETERS, offers, plan

ANA = AnalystEntry(name="ana", organisation="Lab", key="a" * 64)
OFFERS = offers()
NOW = datetime(2026, 1, 2, tzinfo=UTC)
TOWN = (
    PlanParty(name="bank", role="active", block="customers", columns=("amount",)),
    PlanParty(name="shop", role="passive", block="customers", columns=("town", "amount")),
)
FILL, VOTE, PREDICT = (f"vertical.fedcvt.{use}" for use in ("fill", "vote", "predict"))


def build(asked: Plan) -> ComputationRequest:
    return build_request(asked, OFFERS, ANA, now=NOW, nonce="1" * 32)


TRAINED = build(plan(parties=TOWN, parameters=PARAMETERS | {"unique_passive": 3, "threshold_active": 0.6}))


def use(computation: str, **parameters: object) -> Plan:
    asked = plan(computation=computation, parameters={"model": digest(TRAINED)[:12], **parameters})
    used = model_used(asked)
    assert used is not None
    return following(asked, used, TRAINED, OFFERS)


@pytest.mark.parametrize(
    ("computation", "parameters"),
    [
        (FILL, {}),
        (FILL, {"split": "test"}),
        (VOTE, {}),
        (VOTE, {"unlabelled": True}),
        (PREDICT, {}),
        (PREDICT, {"split": "validation"}),
        (PREDICT, {"receiver": "passive"}),
        (PREDICT, {"receiver": "passive", "only_common": True}),
    ],
)
def test_a_rehearsal_fills_every_line_of_the_manifest(
    computation: str, parameters: dict[str, object]
) -> None:
    request = build(use(computation, **parameters))
    done = rehearse(request, OFFERS, lambda progress: None)
    assert set(done.fill) == {f"{r.kind} {r.sender} -> {r.receiver}" for r in request.manifest}
    assert all(LEAST_FILL <= share <= 1 for share in done.fill.values())


def test_settings_classes_and_columns_follow_from_the_model() -> None:
    request = build(use(VOTE, split="train"))
    found = dict(request.parameters)
    assert found["model"] == digest(TRAINED)
    assert (found["d"], found["unique_passive"], found["classes"]) == (2, 3, 2)
    assert (found["max_common"], found["max_passive_only"], found["evaluation_batch"]) == (40, 20, 16)
    assert (found["threshold_active"], found["split"]) == (0.6, "train")
    assert [block.columns for block in request.blocks] == [("amount",), ("town", "amount")]
    assert [block.label for block in request.blocks] == ["churned", ""]
    assert dict(build(use(PREDICT)).parameters)["class_names"] == '["0", "1"]'


def test_what_the_plan_says_itself_stays() -> None:
    asked = replace(use(FILL, max_common=30), parties=(TOWN[0], replace(TOWN[1], columns=("town",))))
    request = build(asked)
    assert dict(request.parameters)["max_common"] == 30
    assert request.blocks[1].columns == ("town",)


def test_a_reviewer_reads_which_model_is_used() -> None:
    page = " ".join(review_text(build(use(PREDICT))).split())
    assert (
        f"model trained for request {digest(TRAINED)}; see `fedaccord model show {digest(TRAINED)[:12]}`"
        in page
    )
    assert "fedaccord model show" not in review_text(TRAINED)


def test_labels_are_opened_for_a_vote_only() -> None:
    for computation, label in ((FILL, ""), (VOTE, "churned"), (PREDICT, "")):
        assert build(use(computation)).blocks[0].label == label


def test_a_model_that_is_not_named_or_no_model_at_all_is_refused() -> None:
    with pytest.raises(RequestError, match="uses a trained model, and the plan names none"):
        model_start(plan(computation=FILL, parameters={}))
    with pytest.raises(ConfigError, match="digest of a training request"):
        build(plan(computation=FILL, parameters={"model": "ab"}))
    align = build(plan(computation="align.pairs", parameters={"max_common": 40}))
    asked = plan(computation=FILL, parameters={"model": digest(align)})
    used = model_used(asked)
    assert used is not None
    with pytest.raises(RequestError, match=r"is for align.pairs, vertical.fedcvt.fill needs a model of"):
        following(asked, used, align, OFFERS)
    assert model_used(plan()) is None


def test_a_block_that_is_no_longer_published_leaves_the_classes_to_the_plan() -> None:
    asked = plan(computation=PREDICT, parameters={"model": digest(TRAINED), "classes": 3})
    used = model_used(asked)
    assert used is not None
    found = following(asked, used, TRAINED, {}).parameters
    assert found["classes"] == 3
    assert "class_names" not in found
