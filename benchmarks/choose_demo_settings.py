"""Chooses the demo's settings on folds inside its training people; the test people are never read.

    python -m benchmarks.choose_demo_settings [--folds 5] [NAME ...]

Each fold holds out a fifth of the training people in the part of the test people and deals out the rest as the demo
does: 200 aligned, the others split evenly. Each candidate is trained by the two programs of a run, from the message
after the alignment on (the intersection is public here). Printed are the mean AUC on the held-out people with both
views and with one, over the folds, and that of the references that any candidate has to beat: a logistic regression
on the aligned people (C cross-validated in two ways), the bank's own regression, and the two-stage stack (the bank's
score from all its people, then the retailer's columns on the aligned ones).

The candidates are the last round of a search by hand over some forty settings, on the first three or five folds.
Input noise (0 to 0.8) mattered most for linear encoders, then a small MLP with dropout, then the thresholds and the
number of active-only people per step; widths, temperature, the weights l1 to l5 and the learning rate hardly did. So
the figure of the best candidate is a little optimistic; the one on the demo's test people isn't.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import roc_auc_score

from benchmarks import adult
from parties.demo.data import BANK_COLUMNS, RETAILER_COLUMNS, People, Rows, deal, labels, training_and_test
from protocols.program import Outcome
from protocols.seeds import injected
from vertical import one_process
from vertical.choices import EncoderKind
from vertical.config import FedCVTConfig
from vertical.preprocess import fit

ALIGNED = 200
_FOLD_SEED = 99

_DEMO = adult.DEMO_CONFIG

CANDIDATES: Mapping[str, FedCVTConfig] = {
    "demo": _DEMO,
    "linear": replace(_DEMO, encoder=EncoderKind.LINEAR),
    "linear, no input noise": replace(_DEMO, encoder=EncoderKind.LINEAR, input_noise=0.0),
    "input noise 0.6": replace(_DEMO, input_noise=0.6),
    "dropout 0.5": replace(_DEMO, dropout=0.5),
    "alone batch 256": replace(_DEMO, alone_batch=256),
    "learning rate 0.005": replace(_DEMO, learning_rate=0.005),
    "all thresholds 0.9": replace(_DEMO, threshold_active=0.9, threshold_passive=0.9),
    "no pseudo labels": replace(_DEMO, pseudo=False),
    "no fill": replace(_DEMO, fill=False),
    "defaults": FedCVTConfig(),
}
"""Settings to compare, by name."""


def fold(number: int) -> People:
    """One division of the training people; the "test" people of it are held-out training people."""
    training, _ = training_and_test()
    order = np.random.default_rng([number, _FOLD_SEED]).permutation(training)
    size = len(order) // 5
    return deal(order[size:], order[:size], seed=number, aligned=ALIGNED)


def train(who: People, config: FedCVTConfig) -> tuple[Outcome, Outcome]:
    """Both outcomes, active first, of a run on these people after their (publicly known) alignment."""
    bank, retailer = adult.bank_data(who), adult.retailer_data(who)
    bounds = {"max_aligned_train": len(who.aligned), "max_aligned_test": len(who.test)}
    config = replace(config, **bounds)
    seeds = {role: injected(who.seed, role) for role in ("active", "passive")}
    outcomes = one_process.train({"active": bank, "passive": retailer}, config, who.seed, seeds)
    return outcomes["active"], outcomes["passive"]


def numbers(who: People, config: FedCVTConfig) -> dict[str, float]:
    """AUC by method and situation, and share and accuracy of the final pseudo labels."""
    left, right = train(who, config)
    methods = cast(Mapping[str, Mapping[str, Mapping[str, float]]], left.report["methods"])
    found = {
        f"{method} {situation}": entry["auc"]
        for method, situations in methods.items()
        for situation, entry in situations.items()
    }
    if config.final_vote:
        truth = labels()[who.retailer()[right.artifacts["rows.passive_only"]]]
        accepted = left.artifacts["pseudo_accepted"]
        found["accepted"] = float(accepted.mean())
        right_ones = left.artifacts["pseudo_label"][accepted] == truth[accepted]
        found["of them right"] = float(right_ones.mean()) if accepted.any() else float("nan")
    return found


def references(who: People) -> dict[str, float]:
    """AUC of models by scikit-learn on the same people; each party's columns are scaled as in a run."""
    y, aligned = labels(), who.aligned
    bank = _scaled(BANK_COLUMNS, np.concatenate([aligned, who.bank_only]))
    retailer = _scaled(RETAILER_COLUMNS, np.concatenate([aligned, who.retailer_only]))
    everybody_at_the_bank = np.concatenate([aligned, who.bank_only])
    alone = LogisticRegression(max_iter=2000).fit(bank[everybody_at_the_bank], y[everybody_at_the_bank])
    joined = np.concatenate([bank, retailer], axis=1)
    stacked = np.concatenate([alone.decision_function(bank)[:, None], retailer], axis=1)
    models = {
        "regression, C by loss": (_regression("neg_log_loss").fit(joined[aligned], y[aligned]), joined),
        "regression, C by AUC": (_regression("roc_auc").fit(joined[aligned], y[aligned]), joined),
        "bank's regression": (alone, bank),
        "two-stage stack": (_regression("neg_log_loss").fit(stacked[aligned], y[aligned]), stacked),
    }
    return {
        name: float(roc_auc_score(y[who.test], model.decision_function(features[who.test])))
        for name, (model, features) in models.items()
    }


def _regression(scoring: str) -> LogisticRegressionCV:
    return LogisticRegressionCV(Cs=10, cv=5, scoring=scoring, max_iter=2000)


def _scaled(names: Sequence[str], training: Rows) -> NDArray[np.float32]:
    """Features of everybody, by rules fitted on the party's training people."""
    rules = fit(adult.table(names, training), np.arange(len(training)))
    return rules.transform(adult.table(names, np.arange(len(labels()))))


def _print_row(name: str, folds: Sequence[Mapping[str, float]]) -> None:
    cells = []
    for key in folds[0]:
        values = [found[key] for found in folds]
        cells.append(
            f"{key} {np.mean(values):.4f} (+-{np.std(values, ddof=1) if len(values) > 1 else 0:.4f})"
        )
    print(f"{name:24} {'; '.join(cells)}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("names", nargs="*", default=list(CANDIDATES), metavar="NAME")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", module="sklearn")
    people = [fold(number) for number in range(given.folds)]
    _print_row("references", [references(who) for who in people])
    for name in given.names:
        _print_row(name, [numbers(who, CANDIDATES[name]) for who in people])


if __name__ == "__main__":
    main()
