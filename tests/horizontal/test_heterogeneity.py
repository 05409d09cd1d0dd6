"""Heterogeneity: partitions that use each row once, and the skews they are named for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from horizontal.heterogeneity import (
    deal,
    dirichlet,
    dominant_class,
    feature_skew,
    flipped_labels,
    iid,
    noise_ratios,
    quantity_skew,
    visible_rows,
    wrong_labels,
)
from protocols.errors import ConfigError


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


LABELS = np.repeat(np.arange(10), 100)
PARTITIONS = {
    "iid": lambda labels, clients, seed: iid(len(labels), clients, generator(seed)),
    "dirichlet": lambda labels, clients, seed: dirichlet(labels, clients, 0.5, generator(seed), at_least=0),
    "quantity": lambda labels, clients, seed: quantity_skew(
        len(labels), clients, 1.0, generator(seed), at_least=0
    ),
    "dominant": lambda labels, clients, seed: dominant_class(labels, clients, generator(seed)),
    "some dominant": lambda labels, clients, seed: dominant_class(
        labels, clients, generator(seed), skewed=0.5
    ),
}


@pytest.mark.parametrize("name", PARTITIONS)
@given(
    labels=st.lists(st.integers(0, 3), min_size=1, max_size=60),
    clients=st.integers(1, 9),
    seed=st.integers(0, 99),
)
def test_each_row_goes_to_one_client(name: str, labels: list[int], clients: int, seed: int) -> None:
    parts = PARTITIONS[name](np.array(labels), clients, seed)
    assert len(parts) == clients
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(labels)))
    assert all(part.tolist() == sorted(part.tolist()) for part in parts)
    again = PARTITIONS[name](np.array(labels), clients, seed)
    assert [part.tolist() for part in parts] == [part.tolist() for part in again]


def largest_shares(parts: list[np.ndarray]) -> np.ndarray:
    return np.array([np.bincount(LABELS[part], minlength=10).max() / len(part) for part in parts])


def test_four_fifths_of_a_skewed_clients_rows_are_of_one_class() -> None:
    parts = dominant_class(LABELS, 10, generator())
    assert [len(part) for part in parts] == [100] * 10
    assert largest_shares(parts)[:9].tolist() == [0.8] * 9
    assert 0.8 <= largest_shares(parts)[9] < 0.9  # the last one takes what is left
    owners = [int(np.bincount(LABELS[part]).argmax()) for part in parts]
    assert sorted(owners) == list(range(10))
    half = largest_shares(dominant_class(LABELS, 10, generator(), skewed=0.5))
    assert half[:5].tolist() == [0.8] * 5
    assert half[5:].max() < 0.5


def test_small_alpha_is_strong_label_skew_and_a_large_one_none() -> None:
    strong, weak = (
        largest_shares(dirichlet(LABELS, 10, alpha, generator())).mean() for alpha in (0.1, 1000.0)
    )
    assert strong > 0.5 > 0.15 > weak


def test_everybody_has_at_least_so_many_rows_or_it_says_so() -> None:
    assert min(map(len, dirichlet(LABELS, 20, 0.5, generator(), at_least=5))) >= 5
    with pytest.raises(ConfigError, match=r"Dirichlet\(0\.1\): 200 draws left some of 30 clients below 100"):
        dirichlet(LABELS, 30, 0.1, generator(), at_least=100)


def test_quantity_skew_changes_sizes_and_not_classes() -> None:
    parts = quantity_skew(len(LABELS), 5, 0.5, generator(3), at_least=50)
    sizes = [len(part) for part in parts]
    assert max(sizes) > 3 * min(sizes)
    assert largest_shares(parts).max() < 0.3


def test_feature_skew_is_one_line_per_client() -> None:
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 2, 2)
    one, other, none = (
        feature_skew(x, strength, generator(seed)) for strength, seed in ((0.5, 1), (0.5, 2), (0.0, 1))
    )
    assert (one.shape, one.dtype) == (x.shape, x.dtype)
    slope = (one.flat[-1] - one.flat[0]) / 2
    np.testing.assert_allclose(one, one.flat[0] + slope * (x + 1), atol=1e-6)
    assert not np.allclose(one, other)
    np.testing.assert_array_equal(none, x)


def test_noise_ratios_are_beta() -> None:
    ratios = noise_ratios(4000, 2.0, 6.0, generator())
    assert ratios.mean() == pytest.approx(0.25, abs=0.01)
    assert ratios.var() == pytest.approx(2 * 6 / (8**2 * 9), abs=0.002)


@pytest.mark.parametrize(("ratio", "wrong"), [(0.0, 0), (0.3, 300), (1.0, 1000), (0.0005, 1)])
def test_so_many_labels_are_another_class(ratio: float, wrong: int) -> None:
    noisy = wrong_labels(LABELS, 10, ratio, generator())
    assert int((noisy != LABELS).sum()) == wrong
    assert set(noisy.tolist()) <= set(range(10))


def test_wrong_labels_are_spread_over_the_other_classes() -> None:
    noisy = wrong_labels(np.zeros(9000, np.int64), 10, 1.0, generator())
    assert np.abs(np.bincount(noisy, minlength=10)[1:] - 1000).max() < 150


def test_flipped_labels() -> None:
    assert flipped_labels(np.array([0, 1, 9]), 10).tolist() == [9, 8, 0]


@pytest.mark.parametrize(
    ("number", "rows"), [(1, 40), (4, 40), (5, 60), (9, 60), (10, 80), (11, 80), (12, 100), (99, 100)]
)
def test_growing_rows(number: int, rows: int) -> None:
    assert visible_rows(100, number, start=0.4, steps=(5, 10, 12)) == rows
    assert visible_rows(100, number, start=0.4, steps=()) == 100


@pytest.mark.parametrize(
    ("setting", "made"),
    [
        ("iid", lambda labels, generator: iid(len(labels), 3, generator)),
        ("dirichlet0.5", lambda labels, generator: dirichlet(labels, 3, 0.5, generator)),
        ("quantity2", lambda labels, generator: quantity_skew(len(labels), 3, 2.0, generator)),
        ("dominant80", lambda labels, generator: dominant_class(labels, 3, generator, share=0.8)),
    ],
)
def test_a_setting_in_words_deals_as_its_function(setting, made):
    labels = np.arange(90) % 3
    dealt = deal(setting, labels, 3, np.random.default_rng(1))
    expected = made(labels, np.random.default_rng(1))
    assert [part.tolist() for part in dealt] == [part.tolist() for part in expected]


@pytest.mark.parametrize(
    "setting", ["", "iid2", "dirichlet", "dirichlet0", "dominant101", "dominant", "fair", "quantity-1"]
)
def test_other_settings_are_refused(setting):
    with pytest.raises(ConfigError):
        deal(setting, np.arange(90) % 3, 3, np.random.default_rng(1))
