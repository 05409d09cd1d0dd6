"""What only somebody who owns both parties' data can compute: the demo does, since its data are public.

The pooled oracle, a cross-validated logistic regression on the aligned people, and how many pseudo labels are right.
No party could compute these, and no datasite takes part in them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from parties.demo.data import People, labels
from vertical.preprocess import fit
from vertical.table import PartyData, Split

if TYPE_CHECKING:
    from sklearn.base import ClassifierMixin

ROLES = ("active", "passive")


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """AUC and accuracy on the test people."""

    auc: float
    accuracy: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Joined:
    """Both parties' features of everybody, by row number of the data file: (people, features) and labels (people,)."""

    features: NDArray[np.float32]
    label: NDArray[np.int64]
    who: People


def join(who: People, data: Mapping[str, PartyData], everyone: Mapping[str, PartyData]) -> Joined:
    """Each party's features as its own preprocessing makes them (fitted on its own training people), side by side.

    `data` are the parties' blocks, `everyone` the same columns for all people of the file, in its order.
    """
    parts = []
    for role in ROLES:
        rules = fit(data[role].table, data[role].rows_of(Split.TRAIN))
        parts.append(rules.transform(everyone[role].table))
    return Joined(features=np.concatenate(parts, axis=1), label=labels(), who=who)


def logistic_regression(joined: Joined, seed: int) -> Score:
    """Logistic regression on the aligned training people, its C chosen by five-fold cross-validation on them."""
    from sklearn.linear_model import LogisticRegressionCV

    model = LogisticRegressionCV(
        Cs=10,
        cv=5,
        scoring="roc_auc",
        max_iter=2000,
        random_state=seed,
        l1_ratios=(0.0,),
        use_legacy_attributes=False,
    )
    return _fitted(model, joined, joined.who.aligned)


def oracle(joined: Joined, seed: int) -> Score:
    """The better (by test AUC) of two fixed models on all training people with both views."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    who = joined.who
    training = np.concatenate([who.aligned, who.bank_only, who.retailer_only])
    models = (LogisticRegression(max_iter=2000), HistGradientBoostingClassifier(random_state=seed))
    return max((_fitted(model, joined, training) for model in models), key=lambda score: score.auc)


def pseudo_label_accuracy(
    who: People, passive_rows: NDArray[np.int64], label: NDArray[np.int64], accepted: NDArray[np.bool_]
) -> float | None:
    """Share of accepted pseudo labels that are right; None when none was accepted.

    `passive_rows` (q,) are row numbers of the retailer's block; label and accepted (q,) stand in the same order.
    """
    if not accepted.any():
        return None
    truth = labels()[who.retailer()[passive_rows]]
    return float(np.mean(truth[accepted] == label[accepted]))


def _fitted(model: "ClassifierMixin", joined: Joined, training: NDArray[np.int64]) -> Score:
    from sklearn.metrics import roc_auc_score

    test = joined.who.test
    model.fit(joined.features[training], joined.label[training])
    score = model.predict_proba(joined.features[test])[:, 1]
    auc = float(roc_auc_score(joined.label[test], score))
    return Score(auc=auc, accuracy=float(np.mean((score > 0.5) == joined.label[test])))
