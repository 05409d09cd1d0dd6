"""FedCVT's defaults are chosen without the benchmark's test people."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from benchmarks.choose_defaults import VARIANTS, fold
from benchmarks.two_views import load, training_and_test
from vertical.config import FedCVTConfig


@pytest.mark.parametrize("seed", range(3))
def test_a_fold_holds_out_training_people_only(seed):
    views = load("breast")
    training, test = training_and_test(views)
    who = fold(views, 30, seed)
    everybody = np.concatenate([who.test, who.training])
    assert sorted(everybody) == sorted(training)
    assert not np.isin(everybody, test).any()
    assert len(who.test) == 100  # a quarter of 398
    assert len(who.aligned) == 30


def test_every_variant_is_valid_and_the_defaults_are_among_them():
    assert VARIANTS["defaults"] == {}
    for changed in VARIANTS.values():
        FedCVTConfig(**changed)
