"""What a run reports of its search and of its experts: held-out scores, weights, which is best and why.

All numbers stand on labelled training people that were held out, with their number beside them, as the disclosure rules
read it; whole numbers that the request says already stand under `settings`. A number of people is always one of aligned
or one of active-only people, never of both: less the one of aligned people it would tell how many the others are, and
an expert's accuracy on both how it does on the others, of whom there may be very few.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from protocols.program import Json
from vertical.calibration import log_probabilities
from vertical.linear import Floats, Integers, mean_loss
from vertical.messages import Choice
from vertical.metrics import calibration_error, evaluate
from vertical.own_training import OwnExpert
from vertical.pooling import ExpertPool
from vertical.predict import Situation
from vertical.schedule import evaluation_points
from vertical.search import Search


def search_report(search: Search, choice: Choice, network: OwnExpert | None) -> dict[str, Json]:
    """Under "search": how many trainings were compared, which was chosen, and the loss of each; {} without one."""
    config, classes = search.run.config, search.labels.classes
    if not search.found:
        return {}
    names, points = config.candidate_names, evaluation_points(config)
    losses = {
        name: {f"{steps} steps": search.loss(search.found[candidate, steps]) for steps in points}
        for candidate, name in enumerate(names)
    }
    report: dict[str, Json] = {
        "settings": {
            "candidates": list(names),
            "folds": config.folds,
            "steps": config.steps,
            "trainings": len(names) * config.folds,
        },
        "chosen": f"{names[choice.candidate]}, {choice.steps} of {config.steps} steps",
        "why": "the least held-out cross-entropy of the calibrated joint head, mean of the three situations",
        **_people(_fewest(search.held_out_truth()), classes),
        "loss": losses,
    }
    if network is not None:
        report["own_network"] = f"{network.steps} of {config.steps} steps"
    return {"search": report}


def pool_report(pools: Mapping[Situation, ExpertPool], classes: Sequence[str]) -> dict[str, Json]:
    """By situation: the experts' weights, held-out scores and calibration, and the best of them.

    With only the active party's view the weights are fitted on all its people and the scores are those of the larger
    group, aligned or not. The mixture's scores are of the people that its weights were fitted on.
    """
    return {situation.value: _situation(pool, classes) for situation, pool in pools.items()}


def _fewest(groups: Sequence[Integers]) -> Integers:
    """Of the groups with a label the one with the fewest: a mean over several stands on no more people than that."""
    labelled = [labels for labels in groups if (labels >= 0).any()]
    return min(labelled, key=lambda labels: np.count_nonzero(labels >= 0), default=groups[0])


def _told(pool: ExpertPool) -> ExpertPool:
    """Only the aligned people behind a pool or only the active-only ones, whichever have more labels."""
    known, end = pool.labels >= 0, pool.aligned
    rows = slice(end, None) if known[end:].sum() > known[:end].sum() else slice(0, end)
    return replace(
        pool,
        logits={name: logits[rows] for name, logits in pool.logits.items()},
        labels=pool.labels[rows],
    )


def _situation(whole: ExpertPool, classes: Sequence[str]) -> dict[str, Json]:
    pool = _told(whole)
    mixture, labels = pool.mixture, pool.labels
    people = _people(labels, classes)
    if not pool.logits or not people["people"]:
        weights = mixture.by_name()
        return {"why": "nobody was held out: weights as stated in advance", "settings": {"weights": weights}}
    experts = {name: _expert(pool, name) for name in mixture.names}
    losses = [mean_loss(_calibrated(pool, name), labels) for name in mixture.names]
    best = mixture.names[int(np.argmin(losses))]
    pooled = mixture.log_probabilities(pool.logits)
    return {
        **people,
        "best": best,
        "why": f"the least held-out cross-entropy of {len(experts)} experts; the prediction weighs all of them, "
        "by weights that were fitted on these people, as the mixture's scores are told of them",
        "experts": experts,
        "mixture": _scores(pooled, labels),
    }


def _expert(pool: ExpertPool, name: str) -> dict[str, float | None]:
    """Weight and held-out scores of one expert, with the calibration error before its temperature too."""
    at, labels = pool.mixture.names.index(name), pool.labels
    return {
        "weight": float(pool.mixture.weights[at]),
        "temperature": float(pool.mixture.temperatures[at]),
        **_scores(_calibrated(pool, name), labels),
        "calibration_error_before": calibration_error(log_probabilities(pool.logits[name]), labels),
    }


def _calibrated(pool: ExpertPool, name: str) -> Floats:
    temperature = float(pool.mixture.temperatures[pool.mixture.names.index(name)])
    return log_probabilities(pool.logits[name], temperature)


def _scores(log_chances: Floats, labels: Integers) -> dict[str, float | None]:
    metrics = evaluate(log_chances, labels)
    return {
        "loss": mean_loss(log_chances, labels),
        "auc": metrics.auc,
        "accuracy": metrics.accuracy,
        "calibration_error": calibration_error(log_chances, labels),
    }


def _people(labels: Integers, classes: Sequence[str]) -> dict[str, Json]:
    """The people with a label, by class, among those held out: so many of a group whose size is released too."""
    counts = {name: int(np.count_nonzero(labels == code)) for code, name in enumerate(classes)}
    return {"people": sum(counts.values()), "within": len(labels), "classes": counts}
