"""A whole FedCVT run for somebody who holds both parties' data: research, benchmarks, the demo's repetitions.

The two programs run from the alignment on; who is common is found by comparing keys in clear, which gives the order
that the private intersection would. So the outcomes are, bit for bit, those of the same run between two parties.
"""

from __future__ import annotations

from collections.abc import Mapping

from protocols.program import Observe, Outcome, simulate
from protocols.psi import align_in_clear
from protocols.seeds import PrivateSeed
from vertical import active, passive
from vertical.config import FedCVTConfig
from vertical.groups import check_overlap, form_groups
from vertical.table import PartyData
from vertical.training import Run, silent

ACTIVE, PASSIVE = "active", "passive"


def train(
    data: Mapping[str, PartyData],
    config: FedCVTConfig,
    public_seed: int,
    private_seeds: Mapping[str, PrivateSeed],
    observe: Observe = silent,
) -> dict[str, Outcome]:
    """The outcomes of both roles, "active" and "passive"; progress is the active party's.

    Raises OverlapError when too few people are common.
    """
    bank, retailer = data[ACTIVE], data[PASSIVE]
    here, there = align_in_clear(bank.keys, retailer.keys, private_seeds[ACTIVE])
    splits = bank.split[here.rows], retailer.split[there.rows]
    groups = {
        ACTIVE: form_groups(bank, here, splits[1], config, private_seeds[ACTIVE]),
        PASSIVE: form_groups(
            retailer, there, splits[0], config, private_seeds[PASSIVE], max_alone=config.max_passive_only
        ),
    }
    check_overlap(groups[ACTIVE], config)
    runs = {
        ACTIVE: Run(config, public_seed, private_seeds[ACTIVE], observe),
        PASSIVE: Run(config, public_seed, private_seeds[PASSIVE], silent),
    }
    outcomes = simulate(
        {
            ACTIVE: active.train_and_evaluate(bank, groups[ACTIVE], runs[ACTIVE]),
            PASSIVE: passive.train_and_evaluate(retailer, groups[PASSIVE], runs[PASSIVE]),
        }
    )
    return {role: outcome for role, outcome in outcomes.items() if isinstance(outcome, Outcome)}
