"""What a plan that uses a trained model takes over from the request that the model was trained for."""

from collections.abc import Mapping
from dataclasses import replace

from parties import catalog
from parties.computation import ModelUsed
from parties.roles.plan import Offer, Plan, PlanParty
from protocols.errors import RequestError
from protocols.request import ComputationRequest, party
from protocols.request import digest as request_digest


def model_used(plan: Plan) -> ModelUsed | None:
    """How the plan's computation uses a trained model; None when it uses none, or isn't in the catalog."""
    computation = catalog.CATALOG.get(plan.computation)
    return None if computation is None else computation.model_used


def model_start(plan: Plan) -> str:
    """The digest, or its beginning, by which the plan names its model; RequestError when it names none."""
    start = plan.parameters.get(catalog.MODEL, "")
    if not isinstance(start, str) or not start:
        raise RequestError(
            f"{plan.computation} uses a trained model, and the plan names none",
            remedy='[parameters] model = "the digest of the request that it was trained for"',
        )
    return start


def following(plan: Plan, used: ModelUsed, trained: ComputationRequest, offers: Mapping[str, Offer]) -> Plan:
    """The plan with the settings that follow from the model, and with its columns where the plan names none.

    What the plan says itself stays. Raises RequestError when the other request trains no model of this kind.
    """
    catalog.check_trained(plan.computation, trained)
    settings = used.inherited(trained.parameters, _classes(trained, offers))
    model = {catalog.MODEL: request_digest(trained)}
    return replace(
        plan,
        parameters={**settings, **plan.parameters, **model},
        parties=tuple(_with_columns(each, trained) for each in plan.parties),
    )


def _classes(trained: ComputationRequest, offers: Mapping[str, Offer]) -> tuple[str, ...]:
    """Names of the classes of the block that the model learnt from, as it is published now; () when it isn't."""
    label_role = catalog.CATALOG[trained.computation].label_role
    for block in trained.blocks:
        offer = offers.get(party(trained, block.role).name)
        if block.role == label_role and offer is not None and block.block in offer.blocks:
            return offer.blocks[block.block].schema.classes
    return ()


def _with_columns(asked: PlanParty, trained: ComputationRequest) -> PlanParty:
    """The plan's party with the columns that it had in the training, unless it names columns."""
    if asked.columns:
        return asked
    columns = [
        block.columns
        for block in trained.blocks
        if asked.role == block.role or asked.name == party(trained, block.role).name
    ]
    return replace(asked, columns=columns[0]) if columns else asked
