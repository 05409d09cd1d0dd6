"""The research path: tables in, the report and predictions out, by the same programs that two parties run."""

from __future__ import annotations

import doctest
from dataclasses import replace
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import vertical.estimator
from protocols.errors import BlockError, ConfigError, OverlapError
from protocols.seeds import injected
from tests.vertical.runs import SMALL, party
from vertical import FedCVT
from vertical.one_process import train
from vertical.table import Split

ROWS = 60
PEOPLE = np.random.default_rng(3).normal(size=(ROWS, 5))
LABELS = (PEOPLE.sum(axis=1) > 0).astype(int)
COMMON = (np.arange(20, 40), np.arange(20))
"""Rows 20..39 of the active table's 40 are rows 0..19 of the passive one's 40."""
ACTIVE, PASSIVE = PEOPLE[:40, :3], PEOPLE[20:, 3:]
TEST = np.arange(35, 40)


def fitted(**changes) -> FedCVT:
    asked = {"active": ACTIVE, "passive": PASSIVE, "labels": LABELS[:40], "aligned": COMMON, "test": TEST}
    return FedCVT(SMALL, seed=4).fit(**(asked | changes))


def frames() -> tuple[pd.DataFrame, pd.DataFrame]:
    """The same people with their numbers as a key, rows of the passive table in another order."""
    active = pd.DataFrame(ACTIVE, columns=["x0", "x1", "x2"]).assign(person=np.arange(40))
    passive = pd.DataFrame(PASSIVE, columns=["x0", "x1"]).assign(person=np.arange(20, 60))
    return active, passive.sample(frac=1, random_state=0)


@pytest.mark.slow
def test_the_ten_lines_of_the_docstring_run():
    done = doctest.testmod(vertical.estimator)
    assert done.attempted == 11
    assert done.failed == 0


def test_a_fit_gives_the_numbers_of_the_programs():
    split = np.full(60, Split.TRAIN)
    split[TEST] = Split.TEST
    common = [b"common %d" % n for n in range(20)]
    keys = {
        "active": (*(b"active %d" % n for n in range(20)), *common),
        "passive": (*common, *(b"passive %d" % n for n in range(20, 40))),
    }
    data = {
        "active": party(range(40), ACTIVE, split[:40], LABELS[:40].astype(np.int64), ("0", "1")),
        "passive": party(range(20, 60), PASSIVE, split[20:]),
    }
    data = {role: type(d)(**{**_fields(d), "keys": keys[role]}) for role, d in data.items()}
    config = vertical.estimator._bounded(SMALL, data)
    outcome = train(data, config, 4, {role: injected(4, role) for role in data})["active"]
    assert fitted().report == outcome.report


def _fields(data) -> dict[str, object]:
    return {name: getattr(data, name) for name in ("keys", "table", "split", "labels", "classes")}


def test_the_same_seed_gives_the_same_model_and_another_one_another():
    first, again = fitted().predict_proba(active=ACTIVE), fitted().predict_proba(active=ACTIVE)
    other = FedCVT(SMALL, seed=5).fit(ACTIVE, PASSIVE, LABELS[:40], aligned=COMMON)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other.predict_proba(active=ACTIVE))


def test_labels_come_back_as_they_were_given_in_all_situations():
    model = fitted(labels=np.where(LABELS[:40] == 1, "yes", "no"))
    assert model.classes_ == ("no", "yes")
    both = {"active": ACTIVE[20:30], "passive": PASSIVE[:10]}
    for given in (both, {"active": ACTIVE[:7]}, {"passive": PASSIVE[:7]}, {"active": ACTIVE[:1]}):
        probabilities, rows = model.predict_proba(**given), len(next(iter(given.values())))
        assert probabilities.shape == (rows, 2)
        chosen = [("no", "yes")[code] for code in probabilities.argmax(axis=1)]
        assert model.predict(**given).tolist() == chosen
    assert model.predict_proba(active=ACTIVE[:0]).shape == (0, 2)


def test_frames_with_a_key_column_and_any_order_of_rows():
    active, passive = frames()
    model = FedCVT(SMALL, seed=4).fit(active, passive, LABELS[:40], on="person", test=TEST)
    assert model.report["groups"] == fitted().report["groups"]
    shuffled = passive[["x1", "person", "x0"]]  # a key or an order of columns doesn't matter to a prediction
    assert np.array_equal(
        model.predict_proba(passive=shuffled), model.predict_proba(passive=passive[["x0", "x1"]])
    )


def test_missing_cells_and_kinds_of_columns():
    active, passive = frames()
    active["town"] = pd.Categorical(["Aa", None, "Bb", "Aa"] * 10)
    active["since"] = pd.to_datetime(["2020-01-01", None, "2021-06-01", "2022-01-01"] * 10)
    active.loc[::3, "x1"] = np.nan
    passive["member"] = [True, False, None, True] * 10
    model = FedCVT(SMALL).fit(active, passive, LABELS[:40], on="person", test=TEST)
    unseen = active[:2].assign(town=["Cc", None], since=[pd.NaT, pd.NaT])
    assert np.isfinite(model.predict_proba(active=unseen)).all()
    assert np.isfinite(model.predict_proba(active=unseen.assign(town=None))).all()


@pytest.mark.parametrize("missing", [-1, None, float("nan")])
def test_labels_may_be_missing(missing):
    labels = [missing if row % 4 == 0 else int(label) for row, label in enumerate(LABELS[:40])]
    assert fitted(labels=labels).classes_ == (0, 1)


def test_minus_one_can_be_a_class():
    labels = np.where(LABELS[:40] == 1, 1, -1)
    assert fitted(labels=labels, missing_label=None).classes_ == (-1, 1)
    with pytest.raises(BlockError, match="different labels: 1,") as caught:
        fitted(labels=labels)
    assert "missing_label=None" in caught.value.remedy


@pytest.mark.parametrize(
    ("changes", "error", "told"),
    [
        ({"aligned": None}, ConfigError, "either `on` or `aligned`"),
        ({"on": "person"}, ConfigError, "either `on` or `aligned`"),
        ({"on": "person", "aligned": None}, BlockError, "no column 'person'"),
        ({"aligned": (range(5), range(4))}, ConfigError, "5 rows of one table, 4 of the other"),
        ({"aligned": ([1, 1], [0, 1])}, ConfigError, "rows of the active table must be different"),
        ({"aligned": ([39, 40], [0, 1])}, ConfigError, r"active table must be different and in 0..39"),
        ({"aligned": ([0, 1], [0.5, 1])}, ConfigError, "aligned: expected row numbers of the passive table"),
        (
            {"aligned": ([0, np.nan], [0, 1])},
            ConfigError,
            "aligned: expected row numbers of the active table",
        ),
        ({"aligned": ([2**70], [0])}, ConfigError, "aligned: expected row numbers of the active table"),
        ({"aligned": (["a"], ["a"])}, ConfigError, "aligned: expected row numbers of the active table"),
        ({"aligned": ([[0, 1]], [[0, 1]])}, ConfigError, "aligned: expected row numbers of the active"),
        ({"aligned": ([[0], [0, 1]], [0, 1])}, ConfigError, "aligned: expected row numbers of the active"),
        ({"aligned": (np.ones(40, bool),) * 2}, ConfigError, "aligned: expected row numbers of the active"),
        ({"aligned": (3, 4)}, ConfigError, "aligned: expected row numbers of the active table"),
        ({"aligned": np.arange(10)}, ConfigError, "aligned: expected two lists of row numbers"),
        ({"aligned": 3}, ConfigError, "aligned: expected two lists of row numbers"),
        ({"aligned": None, "on": None}, ConfigError, "either `on` or `aligned`"),
        ({"aligned": ([], [])}, OverlapError, "overlap 0, FedCVT needs at least 1"),
        ({"labels": LABELS[:39]}, BlockError, "40 rows of the active party, 39 labels"),
        ({"test": [40]}, ConfigError, "test: rows must be in 0..39"),
        ({"test": np.ones(3, bool)}, ConfigError, "expected 40 truth values"),
        ({"test": ["C-1", "C-2"]}, ConfigError, "test: expected row numbers or truth values"),
        ({"test": np.array(["2020-01-01"], "M8[D]")}, ConfigError, "test: expected row numbers"),
        ({"test": [1.5]}, ConfigError, "test: expected row numbers"),
        ({"test": [1, np.inf]}, ConfigError, "test: rows must be in 0..39"),
        ({"test": [[1, 2]]}, ConfigError, "test: expected row numbers"),
        ({"test": None}, ConfigError, "test: expected row numbers"),
        ({"test": 3}, ConfigError, "test: expected row numbers"),
        ({"test": [2**70]}, ConfigError, "test: expected row numbers"),
        (
            {"aligned": (range(20), range(20)), "test": range(20)},
            OverlapError,
            "20 people are common: 20 for the",
        ),
        ({"active": ACTIVE[0]}, BlockError, "two dimensions"),
        ({"active": [[1, 2], [3]] * 20}, BlockError, "rows of a table differ in length"),
        ({"active": ACTIVE[:, :0]}, BlockError, "the active table has no column of features"),
        ({"passive": PASSIVE[:0]}, BlockError, "the passive table has no row"),
        ({"active": {"a": range(40), "b": range(39)}}, BlockError, "columns differ in length"),
        ({"active": {"a": range(40), "b": 1}}, BlockError, "column 'b': expected one dimension"),
        ({"active": {1: range(40), "1": range(40)}}, BlockError, "column names used twice: 1"),
        ({"active": pd.DataFrame(ACTIVE, columns=[*"aab"])}, BlockError, "column names used twice: a"),
        ({"active": {"a": [[]] * 40}}, BlockError, "column 'a': expected one dimension"),
        ({"active": {"a": [[1], [2, 3]] * 20}}, BlockError, "column 'a': its cells differ in length"),
        ({"active": {"a": pd.Series([[1]] * 40)}}, BlockError, "column 'a' holds list, expected numbers"),
        ({"active": ACTIVE + 0j}, BlockError, "column 'x0' holds complex, expected numbers"),
        ({"labels": None}, BlockError, r"labels: expected one dimension, came shape \(\)"),
        ({"labels": [[1], [1, 2]] * 20}, BlockError, "labels: their lengths differ"),
        ({"labels": [{"a": 1}] * 40}, BlockError, "labels hold dict, expected texts"),
        ({"labels": [1, "1"] * 20}, BlockError, "two classes have the same name"),
    ],
)
def test_what_cannot_be_meant_is_refused(changes, error, told):
    with pytest.raises(error, match=told):
        fitted(**changes)


@pytest.mark.parametrize(
    ("labels", "told", "remedy"),
    [
        ("churned", "labels is a text", "table['column']"),
        (LABELS[:40].reshape(-1, 1), r"one dimension, came shape \(40, 1\)", "array"),
        (PEOPLE[:40, 0], "numbers with a fraction", "pandas.cut"),
        ([0.5, 1.0] * 20, "numbers with a fraction", "astype"),
        ([f"name {row}" for row in range(40)], "labels of 40 classes on 40 rows", "column with classes"),
        (ACTIVE[:, 0] > 0, "column 'sign' of the active table says the same", "drop(columns='sign')"),
    ],
)
def test_labels_that_cannot_be_meant_are_refused_with_a_remedy(labels, told, remedy):
    frame = pd.DataFrame(ACTIVE, columns=["x0", "x1", "x2"]).assign(
        sign=np.where(ACTIVE[:, 0] > 0, "up", "down")
    )
    with pytest.raises(BlockError, match=told) as caught:
        fitted(active=frame, labels=labels)
    assert remedy in caught.value.remedy


def test_whole_floats_are_classes_and_a_column_that_almost_says_the_label_is_a_feature():
    almost = LABELS[:40].copy()
    almost[7] = 1 - almost[7]
    model = fitted(active=np.column_stack([ACTIVE, almost]), labels=LABELS[:40].astype(float))
    assert model.classes_ == (0.0, 1.0)


@pytest.mark.parametrize(
    "kinds",
    [(0, 1), ("no", "yes"), (1, "yes"), ((1, 2), (3, 4)), (False, True), ("a\0", "b"), (date(1, 1, 1), "x")],
    ids=str,
)
def test_predicted_labels_are_the_very_ones_that_were_given(kinds):
    labels = pd.Series([kinds[label] for label in LABELS[:40]], dtype=object)
    predicted = fitted(labels=labels).predict(active=ACTIVE)
    assert predicted.shape == (40,)
    assert {*predicted.tolist()} <= {*kinds}
    assert {type(label) for label in predicted.tolist()} <= {type(kind) for kind in kinds}


def test_only_whole_numbers_are_seeds_and_equal_ones_are_the_same_seed():
    again = FedCVT(SMALL, seed=np.int64(4)).fit(ACTIVE, PASSIVE, LABELS[:40], aligned=COMMON, test=TEST)
    assert np.array_equal(fitted().predict_proba(active=ACTIVE), again.predict_proba(active=ACTIVE))
    for seed in (1.0, "1", None, True):
        with pytest.raises(ConfigError, match="seed: expected a whole number"):
            FedCVT(SMALL, seed=seed)


def test_only_a_fedcvt_config_is_one():
    with pytest.raises(ConfigError, match="config: expected a FedCVTConfig, came dict"):
        FedCVT({"steps": 3})


@pytest.mark.parametrize(
    "as_given", [list, pd.Series, lambda rows: pd.Series(rows, dtype="Int64"), np.float64]
)
def test_row_numbers_may_be_of_any_type(as_given):
    model = fitted(aligned=tuple(map(as_given, COMMON)), test=as_given(TEST))
    assert model.report == fitted().report


@pytest.mark.parametrize("dtype", [bool, object, "boolean"])
def test_truth_values_of_the_test_may_be_of_any_type(dtype):
    chosen = pd.Series(np.isin(np.arange(40), TEST)).astype(dtype)
    assert fitted(test=chosen).report == fitted().report


def test_people_may_be_identified_by_several_columns():
    active, passive = frames()
    both = [f.assign(first=f.person // 7, second=(f.person % 7).astype(str)) for f in (active, passive)]
    split = [frame.drop(columns="person") for frame in both]
    model = FedCVT(SMALL, seed=4).fit(*split, LABELS[:40], on=["first", "second"], test=TEST)
    assert model.report["groups"] == fitted().report["groups"]
    without = split[1].assign(second=split[1].second.where(passive.person != 20))  # who is common otherwise
    model = FedCVT(SMALL).fit(split[0], without, LABELS[:40], on=["first", "second"], test=TEST)
    assert model.report["groups"]["active_only"] == 21
    with pytest.raises(BlockError, match="the passive table has no column 'third'"):
        FedCVT(SMALL).fit(active.assign(third=1), passive, LABELS[:40], on=["person", "third"])


def test_keys_of_two_kinds_are_refused_and_none_is_shown():
    active, passive = frames()
    text = passive.assign(person=passive.person.astype(str))
    with pytest.raises(BlockError, match="holds numbers in the active table and text") as caught:
        FedCVT(SMALL).fit(active, text, LABELS[:40], on="person")
    assert "astype(str)" in caught.value.remedy
    for person in ([[n] for n in range(40)], np.arange(40) + 0j):
        with pytest.raises(BlockError, match=r"column 'person' holds (list|complex), expected numbers"):
            FedCVT(SMALL).fit(active.assign(person=person), passive, LABELS[:40], on="person")
    exact = passive.assign(person=[Decimal(int(n)) for n in passive.person])
    assert FedCVT(SMALL).fit(active, exact, LABELS[:40], on="person", test=TEST).report
    gaps = active.assign(
        person=[None, *range(1, 40)]
    )  # numbers with a gap become floats, which are equal still
    assert FedCVT(SMALL).fit(gaps, passive, LABELS[:40], on="person", test=TEST).report


def test_rows_of_a_prediction_must_be_the_same_people():
    active, passive = frames()
    model = FedCVT(SMALL, seed=4).fit(active, passive, LABELS[:40], on="person", test=TEST)
    both = active[25:35], passive.set_index("person").loc[active.person[25:35]].reset_index()
    assert model.predict(*both).shape == (10,)
    assert np.array_equal(model.predict(both[0], both[1].drop(columns="person")), model.predict(*both))
    with pytest.raises(BlockError, match="row 0 of the active and of the passive table are different people"):
        model.predict(both[0], both[1][::-1])
    with pytest.raises(BlockError, match="holds numbers in the active table and text"):
        model.predict(both[0], both[1].assign(person=both[1].person.astype(str)))


def test_a_person_twice_in_one_table_is_refused():
    active, passive = frames()
    twice = active.assign(person=[0, 0, *range(2, 40)])
    with pytest.raises(BlockError, match="1 of 40 rows of the active table repeat the person of another"):
        FedCVT(SMALL).fit(twice, passive, LABELS[:40], on="person")
    again = pd.concat([passive, passive[:3]])
    with pytest.raises(BlockError, match="rows of the passive table repeat the person") as caught:
        FedCVT(SMALL).fit(active, again, LABELS[:40], on="person")
    assert "drop_duplicates(['person'])" in caught.value.remedy


def test_a_row_without_a_key_is_nobody_of_the_other_table():
    active, passive = frames()
    model = FedCVT(SMALL).fit(
        active.assign(person=[None] * 20 + list(range(20, 40))), passive, LABELS[:40], on="person", test=TEST
    )
    assert model.report["groups"]["active_only"] == 20


def test_predictions_are_refused_for_tables_that_do_not_fit():
    model = fitted()
    with pytest.raises(BlockError, match="columns missing in the active table: x2"):
        model.predict(active=ACTIVE[:, :2])
    with pytest.raises(BlockError, match="columns missing in the active table: x0"):
        model.predict(active=pd.DataFrame({"y": [1.0]}))
    with pytest.raises(BlockError, match="3 rows of the active party, 2 of the passive one"):
        model.predict(active=ACTIVE[:3], passive=PASSIVE[:2])
    with pytest.raises(BlockError, match="expected numbers, as when the model was trained, came texts"):
        model.predict(active=pd.DataFrame({"x0": ["a"], "x1": [1.0], "x2": [1.0]}))
    with pytest.raises(ConfigError, match="view of at least one party"):
        model.predict()
    with pytest.raises(ConfigError, match="isn't trained yet"):
        FedCVT().report  # noqa: B018  # the property is what is tested


def test_a_setting_that_no_candidate_would_use_is_refused():
    with pytest.raises(
        ConfigError, match=r"dropout=0\.7 has no effect: each of the candidates linear, wide"
    ) as caught:
        FedCVT(replace(SMALL, candidates="linear,wide", folds=2, dropout=0.7))
    assert "candidates='given'" in caught.value.remedy
