"""The methods that FedCVT is measured against, by scikit-learn on the columns of both parties: strong and simple.

Columns are scaled as in a run (`vertical.preprocess`, fitted on each party's own training people), without the 0/1
features that a run sets beside them. Every regression has a ridge penalty, its strength chosen on stratified folds of
the people that it is fitted on.

| method | fitted on |
|---|---|
| aligned_only | both parties' columns of the aligned people |
| active_alone | the label holder's columns of all its people |
| passive_alone | the other party's columns of the aligned people, with their labels |
| stack | the out-of-fold score of active_alone, and the other party's columns, of the aligned people |
| oracle_linear, oracle_flexible | both parties' columns of all training people: what no party has |

The flexible oracle is gradient boosting for tables and a support vector machine (RBF kernel) for images.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict
from sklearn.svm import SVC

from benchmarks.two_views import Dealt, Floats, TwoViews
from vertical.metrics import auc
from vertical.preprocess import fit
from vertical.table import Rows

STRENGTHS = tuple(10.0**power for power in (-4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0))
"""Inverse penalties C that a regression is chosen among."""
FOLDS = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Columns:
    """Scaled columns of everybody, (people, f) of each party, and class codes (people,)."""

    views: TwoViews
    active: Floats
    passive: Floats

    @classmethod
    def of(cls, views: TwoViews, active: Rows, passive: Rows) -> Columns:
        """By rules fitted on the given training people of each party."""
        own = fit(views.active, active, image=views.image).transform(views.active)
        other = fit(views.passive, passive, image=views.image).transform(views.passive)
        return cls(views=views, active=own.astype(np.float64), passive=other.astype(np.float64))

    @property
    def both(self) -> Floats:
        """Both parties' columns side by side."""
        return np.hstack([self.active, self.passive])


def rivals(views: TwoViews, who: Dealt) -> dict[str, float]:
    """Test metric of each rival by name."""
    columns = Columns.of(views, who.active, who.passive)
    alone = _regression(columns, columns.active, who.active)
    stacked = np.hstack([_first_stage(columns, alone, who.active), columns.passive])
    return {
        "active_alone": _score(views, alone, columns.active, who.test),
        "aligned_only": _aligned(columns, columns.both, who),
        "passive_alone": _aligned(columns, columns.passive, who),
        "stack": _aligned(columns, stacked, who),
    }


def oracles(views: TwoViews, training: Rows, test: Rows) -> dict[str, float]:
    """Test metric of the two pooled models by name; the same people for every seed and every number of aligned ones."""
    columns = Columns.of(views, training, training)
    linear = _regression(columns, columns.both, training, folds=3)
    flexible = SVC(C=10.0, gamma="scale") if views.image else HistGradientBoostingClassifier(random_state=0)
    flexible.fit(columns.both[training], views.labels[training])
    return {
        "oracle_linear": _score(views, linear, columns.both, test),
        "oracle_flexible": _score(views, flexible, columns.both, test),
    }


def _aligned(columns: Columns, features: Floats, who: Dealt) -> float:
    model = _regression(columns, features, who.aligned)
    return _score(columns.views, model, features, who.test)


def _regression(
    columns: Columns, features: Floats, rows: Rows, folds: int = FOLDS
) -> GridSearchCV | LogisticRegression:
    """Fitted on `rows`; with a class of a single person nothing can be compared, and C is 1."""
    labels = columns.views.labels[rows]
    counts = np.bincount(labels)
    folds = min(folds, int(counts[counts > 0].min()))
    plain = LogisticRegression(max_iter=300)
    if folds < 2:
        return plain.fit(features[rows], labels)
    parts = StratifiedKFold(folds, shuffle=True, random_state=0)
    search = GridSearchCV(plain, {"C": STRENGTHS}, scoring="neg_log_loss", cv=parts)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # a weak penalty may not have converged: the folds say whether it matters
        return search.fit(features[rows], labels)


def _first_stage(columns: Columns, alone: GridSearchCV | LogisticRegression, rows: Rows) -> Floats:
    """The score of `alone` for everybody; for the `rows` that it is fitted on of fits without their fold.

    Scores of people that know their own label would be trusted too much by the second stage. With a class of a single
    person there are no folds, and they stand as they are.
    """
    score = alone.decision_function(columns.active).reshape(len(columns.views.labels), -1)
    if isinstance(alone, GridSearchCV):
        model, features = alone.best_estimator_, columns.active[rows]
        labels = columns.views.labels[rows]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # as where the strengths are compared
            own = cross_val_predict(model, features, labels, cv=alone.cv, method="decision_function")
        score[rows] = own.reshape(len(rows), -1)
    result: Floats = score
    return result


def _score(views: TwoViews, model: GridSearchCV | LogisticRegression, features: Floats, test: Rows) -> float:
    truth = views.labels[test]
    if views.metric == "accuracy":
        return float(np.mean(model.predict(features[test]) == truth))
    found = auc(_logits(model.predict_proba(features[test])), truth)
    assert found.value is not None
    return found.value


def _logits(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    result: NDArray[np.float64] = np.log(np.clip(probabilities, 1e-12, None))
    return result
