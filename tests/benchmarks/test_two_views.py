"""Two views of real data: who is where, and that test people are the same ones for every seed."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from benchmarks import two_views
from benchmarks.two_views import NAMES, deal, load, party_data, row_numbers, training_and_test
from protocols.errors import ConfigError, DataMissingError
from vertical.table import Split


@pytest.mark.parametrize(("name", "shape"), [("digits", (1797, 32, 32)), ("breast", (569, 10, 20))])
def test_scikit_learns_data_are_cut_in_two(name, shape):
    views = load(name)
    assert (views.active.rows, len(views.active.columns), len(views.passive.columns)) == shape
    assert views.passive.rows == len(views.labels) == shape[0]


def test_digits_are_left_and_right_halves_row_by_row():
    from sklearn.datasets import load_digits

    image = load_digits().images[5] / 16.0
    views = load("digits")
    assert views.image == (8, 4)
    left, right = (
        np.array([column.values[5] for column in side.columns]).reshape(8, 4)
        for side in (views.active, views.passive)
    )
    assert np.array_equal(np.hstack([left, right]), image)


@pytest.mark.parametrize("seed", range(3))
def test_everybody_is_in_one_group_and_the_test_people_are_always_the_same(seed):
    views = load("breast")
    training, test = training_and_test(views)
    who = deal(training, test, aligned=30, seed=seed)
    groups = [who.test, who.aligned, who.active_only, who.passive_only]
    assert sorted(np.concatenate(groups)) == list(range(569))
    assert np.array_equal(who.test, test)
    assert len(who.aligned) == 30
    assert abs(len(who.active_only) - len(who.passive_only)) <= 1
    assert len(test) == 171  # 30 % of 569


def test_seeds_deal_differently_and_equal_ones_equally():
    training, test = training_and_test(load("breast"))
    first, again, other = (deal(training, test, aligned=30, seed=seed) for seed in (0, 0, 1))
    assert np.array_equal(first.aligned, again.aligned)
    assert not np.array_equal(first.aligned, other.aligned)


@pytest.mark.parametrize("aligned", [0, 400])
def test_too_few_or_too_many_aligned_people(aligned):
    with pytest.raises(ConfigError, match="aligned must lie in"):
        deal(np.arange(400), np.arange(0), aligned=aligned, seed=0)


def test_blocks_hold_their_people_and_no_others():
    views = load("breast")
    training, test = training_and_test(views)
    who = deal(training, test, aligned=30, seed=0)
    data = party_data(views, who)
    for role, rows in (("active", who.active), ("passive", who.passive)):
        party = data[role]
        people = row_numbers(party.keys)
        assert sorted(people[party.split == Split.TRAIN]) == sorted(rows)
        assert sorted(people[party.split == Split.TEST]) == sorted(test)
    assert np.array_equal(data["active"].labels, views.labels[row_numbers(data["active"].keys)])
    assert data["passive"].labels is None


def test_what_is_not_there_is_named(monkeypatch):
    with pytest.raises(ConfigError, match="data must be one of digits, adult"):
        load("iris")
    with pytest.raises(DataMissingError, match="isn't installed") as caught:
        two_views._file("a-package-that-nobody-has", "x.csv", "pip install nothing")
    assert caught.value.remedy == "it comes with a package: pip install nothing"
    assert NAMES == ("digits", "adult", "caravan", "breast", "mnist")
