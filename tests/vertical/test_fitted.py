"""A fitted model in its file: the same bits after loading, and an error by name for anything else."""

from __future__ import annotations

from datetime import date

import numpy as np
import pandas as pd
import pytest

from protocols.errors import BlockError, ConfigError, ModelError
from protocols.wire import pack_arrays, unpack_arrays
from tests.vertical.runs import SMALL
from vertical import FedCVT

PEOPLE = np.random.default_rng(5).normal(size=(60, 4))
HIGH = PEOPLE.sum(axis=1) > 0


def tables(rows: slice) -> dict[str, pd.DataFrame]:
    """The bank's and the shop's columns of some people: numbers, dates, levels and gaps."""
    people = PEOPLE[rows]
    days = np.datetime64("2020-01-01") + np.arange(len(people)) % 9
    bank = pd.DataFrame({"who": np.arange(60)[rows], "a": people[:, 0], "since": days, "b": people[:, 1]})
    town = np.where(people[:, 2] > 0.2, "east", np.where(people[:, 2] < -0.2, "west", None))
    shop = pd.DataFrame({"who": np.arange(60)[rows], "town": town, "c": people[:, 3]})
    return {"active": bank, "passive": shop}


def fit(labels: object = None) -> FedCVT:
    bank, shop = tables(slice(0, 40))["active"], tables(slice(20, 60))["passive"]
    named = np.where(HIGH[:40], "high", "low") if labels is None else labels
    return FedCVT(SMALL, seed=4).fit(bank, shop, named, on="who", test=np.arange(35, 40))


@pytest.fixture(scope="module")
def model() -> FedCVT:
    return fit()


def test_a_loaded_model_is_the_saved_one(model, tmp_path):
    model.save(tmp_path / "income.fedcvt")
    loaded = FedCVT.load(tmp_path / "income.fedcvt")
    people = tables(slice(30, 50))
    for given in (people, {"active": people["active"]}, {"passive": people["passive"]}):
        assert np.array_equal(loaded.predict_proba(**given), model.predict_proba(**given))
    assert loaded.predict(**people).tolist() == model.predict(**people).tolist()
    assert (loaded.config, loaded.seed) == (model.config, model.seed)
    assert loaded.classes_ == ("high", "low")
    assert loaded.report == model.report
    assert [path.name for path in tmp_path.iterdir()] == ["income.fedcvt"]
    with pytest.raises(BlockError, match="are different people by who"):
        loaded.predict(active=people["active"], passive=people["passive"][::-1])


def test_a_loaded_model_is_fitted_again_as_the_first_one_was(model, tmp_path):
    model.save(tmp_path / "model")
    again = FedCVT.load(tmp_path / "model")
    bank, shop = tables(slice(0, 40))["active"], tables(slice(20, 60))["passive"]
    again.fit(bank, shop, np.where(HIGH[:40], "high", "low"), on="who", test=np.arange(35, 40))
    assert again._fitted().to_bytes() == model._fitted().to_bytes()


@pytest.mark.parametrize(
    "labels", [HIGH[:40], HIGH[:40].astype(int), list(HIGH[:40].astype(np.int16)), HIGH[:40] * 2.0]
)
def test_labels_come_back_as_they_were(labels, tmp_path):
    model = fit(labels)
    model.save(tmp_path / "model")
    loaded = FedCVT.load(tmp_path / "model")
    assert loaded.classes_ == model.classes_
    people = tables(slice(30, 50))
    first, second = model.predict(**people), loaded.predict(**people)
    assert (first.tolist(), first.dtype.kind) == (second.tolist(), second.dtype.kind)


def test_labels_that_a_file_can_not_hold_are_named_and_leave_no_file(tmp_path):
    days = [date(2020, 1, 1) if high else date(2021, 1, 1) for high in HIGH[:40]]
    with pytest.raises(ConfigError, match="labels of type date can't be saved"):
        fit(days).save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_an_unfitted_model_can_not_be_saved(tmp_path):
    with pytest.raises(ConfigError, match="isn't trained yet"):
        FedCVT(SMALL).save(tmp_path / "model")


def _without(name):
    return lambda raw: pack_arrays({key: array for key, array in unpack_arrays(raw).items() if key != name})


def _facts(text):
    return lambda raw: pack_arrays({**unpack_arrays(raw), "fitted": np.frombuffer(text, np.uint8)})


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda _: b"a,b\n1,2\n",
        lambda raw: raw[:-1],
        lambda raw: raw + b"x",
        _without("fitted"),
        _without("active.classes"),
        _without("passive.preprocessing"),
        _facts(b"{"),
        _facts(b"[]"),
        _facts(b"{}"),
        _facts(b'{"config": {"steps": "many"}}'),
        _facts(b"\xff"),
    ],
)
def test_another_file_and_a_damaged_one_are_refused(damage, model, tmp_path):
    path = tmp_path / "model"
    model.save(path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ModelError, match="no saved FedCVT of this release, or it is damaged"):
        FedCVT.load(path)
