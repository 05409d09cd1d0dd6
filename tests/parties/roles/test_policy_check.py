"""A name in a policy that nothing here has is told: a rule about it would never apply."""

from dataclasses import replace

import pytest

from parties.home.agreements import Agreement
from parties.home.policy import Policy
from parties.home.use_rules import Columns, Requirement, UseRules
from parties.roles.policy_check import Known, unknown_names

KNOWN = Known(
    columns={"customers": ("key", "age", "income")},
    parties=("retailer",),
    analysts=("ana",),
    computations=("vertical.fedcvt.train",),
)
RIGHT = UseRules(
    purposes=("risk",),
    may_receive=("retailer",),
    never_used=(Columns(block="customers", columns=("age",)),),
    allowed=(Columns(block="customers", columns=("age",), purpose="risk"),),
    require=(Requirement(computation="vertical.fedcvt.train", setting="linear_views", exact=0),),
)


def test_a_policy_of_known_names_gives_no_warning() -> None:
    agreement = Agreement(peer="retailer", max_psi_runs=1, max_psi_keys=100)
    assert unknown_names(Policy(uses=RIGHT, agreements=(agreement,)), KNOWN) == ()


@pytest.mark.parametrize(
    ("uses", "agreements", "told"),
    [
        ({"never_used": (Columns(block="custmers", columns=("age",)),)}, (), "never_used names 'custmers'"),
        (
            {"never_used": (Columns(block="customers", columns=("agee",)),)},
            (),
            "never_used: customers names 'agee'",
        ),
        ({"allowed": (Columns(block="customers", columns=("agee",), purpose="risk"),)}, (), "names 'agee'"),
        (
            {"allowed": (Columns(block="customers", columns=("age",), purpose="rsk"),)},
            (),
            "names 'rsk'; there is risk",
        ),
        ({"analysts": ("nobody",)}, (), "analysts names 'nobody'"),
        ({"may_receive": ("retialer",)}, (), "may_receive names 'retialer'"),
        (
            {"require": (Requirement(computation="vertical.train", setting="linear_views", exact=0),)},
            (),
            "require names 'vertical.train'",
        ),
        ({}, (Agreement(peer="shop", max_psi_runs=1, max_psi_keys=100),), "agreements names 'shop'"),
    ],
)
def test_a_misspelt_name_is_told_with_what_there_is(
    uses: dict[str, object], agreements: tuple[Agreement, ...], told: str
) -> None:
    policy = Policy(uses=replace(RIGHT, **uses), agreements=agreements)  # type: ignore[arg-type]
    (warning,) = unknown_names(policy, KNOWN)
    assert told in warning
