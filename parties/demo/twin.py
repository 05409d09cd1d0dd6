"""The demo's twins: the same programs in one process, with the same seeds, on the files that the parties were given.

The first seed's twin must give the datasites' bits. The other seeds of `--seeds` are twins only, since what a datasite
would add to them (approval, transport, log) doesn't change a number.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from parties import catalog
from parties.blocks.block import block_from_table
from parties.demo.baselines import Score, join, logistic_regression, oracle, pseudo_label_accuracy
from parties.demo.data import (
    BANK_COLUMNS,
    LABEL,
    RETAILER_COLUMNS,
    SUBJECT_KEY,
    People,
    columns,
    customer_number,
)
from parties.demo.setup import BANK, RETAILER, ROLES, parameters, specs
from parties.roles.simulating import LocalSettings, block_data, read_data, simulate_run
from protocols.disclosure import releasable
from protocols.program import Json, Observe, Outcome
from protocols.seeds import injected
from vertical import one_process
from vertical.config import FedCVTConfig
from vertical.table import PartyData

COMPUTATION = "vertical.fedcvt.train"
METHODS = ("fedcvt", "aligned_only", "active_alone", "oracle")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Twin:
    """One seed's numbers: the released report, both outcomes by role, and the script's own baselines."""

    report: Mapping[str, Json]
    outcomes: Mapping[str, Outcome]
    regression: Score
    oracle: Score
    pseudo_accuracy: float | None


def run_twin(
    who: People,
    files: Mapping[str, Path],
    observe: Observe,
    *,
    known_oracle: Score | None = None,
    minimum_group: int = 10,
) -> Twin:
    """The twin of one seed, from the parties' files (by party name).

    The first twin runs the catalog's programs from the first message. The others are given its oracle, whose people
    are the same for every seed, and are aligned in clear.
    """
    data = {ROLES[name]: read_data(files[name], spec) for name, spec in specs().items()}
    computation = catalog.CATALOG[COMPUTATION]
    aligned = len(who.aligned)
    overlap = min(aligned, 20)
    settings = LocalSettings(
        parameters=computation.parameters(parameters(who, aligned=aligned), overlap),
        public_seed=who.seed,
        minimum_overlap=overlap,
    )
    if known_oracle is None:
        outcomes = simulate_run(computation, settings, data, observe, private_seed=who.seed)
    else:
        seeds = {role: injected(who.seed, role) for role in computation.roles}
        config = FedCVTConfig.from_parameters(settings.parameters)
        outcomes = one_process.train(data, config, who.seed, seeds, observe)
    joined = join(who, data, everyone())
    votes = outcomes["active"].artifacts
    return Twin(
        report=releasable(outcomes["active"].report, minimum_group),
        outcomes=outcomes,
        regression=logistic_regression(joined, who.seed),
        oracle=known_oracle or oracle(joined, who.seed),
        pseudo_accuracy=pseudo_label_accuracy(
            who,
            np.asarray(outcomes["passive"].artifacts["rows.passive_only"], np.int64),
            np.asarray(votes["pseudo_label"], np.int64),
            np.asarray(votes["pseudo_accepted"], np.bool_),
        ),
    )


def everyone() -> dict[str, PartyData]:
    """Both parties' columns for all people of the data file, in its order, by role."""
    cells = columns()
    keys = [customer_number(row) for row in range(len(cells[LABEL]))]
    found = {}
    for name, wanted in ((BANK, (*BANK_COLUMNS, LABEL)), (RETAILER, RETAILER_COLUMNS)):
        table = pa.table({SUBJECT_KEY: keys, "split": ["train"] * len(keys), **{c: cells[c] for c in wanted}})
        found[ROLES[name]] = block_data(block_from_table(table, specs()[name]))
    return found


def method_scores(report: Mapping[str, Json], twin: Twin) -> dict[str, Score]:
    """AUC and accuracy by method: of the released report, and of the script's own models.

    `aligned_only` is the best (by AUC) of the parties' network, their logistic regression on principal components, and
    the script's own with cross-validated C; `active_alone` the better of network and logistic regression.
    """
    aligned = [released_score(report, name, "both") for name in ("aligned_only_network", "aligned_only")]
    alone = [released_score(report, name, "active_only") for name in ("active_alone_network", "active_alone")]
    return {
        "fedcvt": released_score(report, "fedcvt", "both"),
        "aligned_only": max((*aligned, twin.regression), key=lambda score: score.auc),
        "active_alone": max(alone, key=lambda score: score.auc),
        "oracle": twin.oracle,
    }


def released_score(report: Mapping[str, Json], method: str, situation: str) -> Score:
    """AUC and accuracy of a method in a situation, as released."""
    methods = report["methods"]
    assert isinstance(methods, Mapping)
    entry = methods[method]
    assert isinstance(entry, Mapping)
    scores = entry[situation]
    assert isinstance(scores, Mapping)
    auc, accuracy = scores["auc"], scores["accuracy"]
    assert isinstance(auc, float), "the AUC was suppressed"
    assert isinstance(accuracy, float), "the accuracy was suppressed"
    return Score(auc=auc, accuracy=accuracy)
