"""A whole FedCVT run for somebody who holds both parties' data: research, benchmarks, the demo's repetitions.

The two programs run from the alignment on; who is common is found by comparing keys in clear, which gives the order
that the private intersection would. So the outcomes are, bit for bit, those of the same run between two parties.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from protocols.program import Observe, Outcome, silent, simulate
from protocols.psi import align_in_clear
from protocols.seeds import PrivateSeed, injected
from vertical import active, passive
from vertical.arrays import Arrays
from vertical.candidates import GIVEN
from vertical.config import FedCVTConfig
from vertical.groups import check_overlap, form_groups
from vertical.roles import ACTIVE, PASSIVE
from vertical.table import PartyData, Split
from vertical.training import Run
from vertical.use_config import PredictConfig, UseConfig


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


def mock_parts(config: UseConfig, data: Mapping[str, PartyData]) -> dict[str, Arrays]:
    """Each role's part of a model as `config` describes it, for a rehearsal.

    It is trained for one step, on mock data and invented labels.
    """
    bank = data[ACTIVE]
    labels = np.arange(bank.table.rows, dtype=np.int64) % config.classes
    names = config.names if isinstance(config, PredictConfig) else tuple(map(str, range(config.classes)))
    everyone = {
        role: replace(party, split=np.full(party.table.rows, Split.TRAIN, np.uint8))
        for role, party in data.items()
    }
    everyone[ACTIVE] = replace(everyone[ACTIVE], labels=labels, classes=names)
    most = max(party.table.rows for party in data.values())
    short = FedCVTConfig(
        d=config.d,
        unique_passive=config.unique_passive,
        steps=1,
        candidates=GIVEN,
        folds=0,
        linear_views=config.linear_views if isinstance(config, PredictConfig) else 0,
        baselines=False,
        final_vote=False,
        minimum_overlap=1,
        max_common=most,
        max_aligned_train=most,
    )
    outcomes = train(everyone, short, 0, {role: injected(0, role) for role in data})
    return {role: outcome.artifacts for role, outcome in outcomes.items()}
