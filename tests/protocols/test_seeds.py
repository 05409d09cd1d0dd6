"""Seeds: fixed values (parties on other machines must get the same), independence, and the public order of rows."""

from __future__ import annotations

import hashlib
import hmac

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.seeds import derive, draw, injected, numpy_generator, public_order


def test_draw_is_fresh_and_long():
    seeds = {draw() for _ in range(20)}
    assert len(seeds) == 20
    assert {len(seed) for seed in seeds} == {32}


def test_injected_seeds_are_fixed_and_differ_by_number_and_role():
    assert injected(7, "active") == hashlib.sha256(b"fedaccord injected seed\n7\nactive").digest()
    assert (
        len({injected(n, role) for n in (0, 1, 10, -1) for role in ("active", "passive", "client-1")}) == 12
    )


def test_derive_is_hmac_cut_to_63_bits():
    digest = hmac.new(b"seed", b"weights", hashlib.sha256).digest()
    assert derive(b"seed", "weights") == int.from_bytes(digest[:8], "big") // 2
    assert derive(b"seed", "weights") != derive(b"seed", "noise") != derive(b"other", "noise")


@given(st.binary(min_size=1, max_size=40), st.text(st.characters(exclude_categories=["Cs"]), max_size=10))
def test_derived_numbers_fit_everywhere(seed, purpose):
    assert 0 <= derive(seed, purpose) < 2**63


def test_an_empty_seed_is_refused():
    with pytest.raises(ValueError, match="empty"):
        derive(b"", "weights")


def test_generators_are_equal_for_equal_seeds_and_purposes_only():
    first = numpy_generator(injected(1, "active"), "dropout").standard_normal(4)
    assert (first == numpy_generator(injected(1, "active"), "dropout").standard_normal(4)).all()
    assert not (first == numpy_generator(injected(1, "active"), "noise").standard_normal(4)).any()
    assert not (first == numpy_generator(5, "dropout").standard_normal(4)).any()
    assert numpy_generator(5, "x").integers(2**40) == numpy_generator(5, "x").integers(2**40)


# The public order


def test_the_public_order_is_the_same_on_every_machine():
    """Fixed on purpose: parties with different releases of numpy must agree. A change here is a new protocol."""
    assert public_order(5, "aligned", 7, 3, 0).tolist() == [2, 5, 3]
    assert public_order(5, "aligned", 7, 3, 3).tolist() == [1, 6, 2]


def test_the_order_is_that_of_raw_random_numbers():
    bits = np.random.PCG64(derive(b"public 5", "order\naligned\n7\n1"))
    numbers = [int(bits.random_raw()) for _ in range(7)]
    expected = sorted(range(7), key=lambda row: numbers[row])
    came = [*public_order(5, "aligned", 7, 3, 2), *public_order(5, "aligned", 7, 3, 3)]
    assert came == expected[:6]


sizes = st.integers(1, 40)


@given(st.integers(0, 2**63 - 1), sizes, sizes, st.integers(0, 10**6))
def test_a_batch_has_its_size_and_no_row_twice(seed, size, batch, step):
    rows = public_order(seed, "aligned", size, batch, step)
    assert rows.dtype == np.int64
    assert rows.shape == (min(batch, size),)
    assert len(set(rows.tolist())) == len(rows)
    assert set(rows.tolist()) <= set(range(size))


@given(st.integers(0, 2**63 - 1), sizes, st.integers(1, 6), st.integers(0, 5))
def test_an_epoch_has_no_row_twice_and_leaves_less_than_a_batch_out(seed, size, batch, epoch):
    per_epoch = max(size // batch, 1)
    steps = range(epoch * per_epoch, (epoch + 1) * per_epoch)
    rows = np.concatenate([public_order(seed, "aligned", size, batch, step) for step in steps])
    assert len(set(rows.tolist())) == len(rows)
    assert size - len(rows) < batch


@pytest.mark.parametrize("size", [0, 1, 5])
@pytest.mark.parametrize("step", [0, 1, 100])
def test_a_batch_as_large_as_the_group_is_the_group_in_order(size, step):
    assert public_order(1, "aligned", size, max(size, 1), step).tolist() == list(range(size))
    assert public_order(1, "aligned", size, size + 9, step).tolist() == list(range(size))


def test_orders_differ_by_seed_group_and_epoch():
    orders = {
        tuple(public_order(seed, group, 50, 25, step))
        for seed in (1, 2)
        for group in ("aligned", "active_only")
        for step in (0, 2, 4)
    }
    assert len(orders) == 12


def test_every_row_gets_its_turn_evenly():
    """100 rows, batches of 30, 1000 steps: 300 turns per row are expected, with a deviation of about 5."""
    counts = np.bincount(
        np.concatenate([public_order(3, "a", 100, 30, step) for step in range(1000)]), minlength=100
    )
    assert counts.sum() == 30000
    assert counts.min() > 270
    assert counts.max() < 330


def test_callers_cannot_change_each_others_order():
    first = public_order(1, "aligned", 10, 5, 0)
    kept = first.copy()
    first[:] = 0
    assert (public_order(1, "aligned", 10, 5, 0) == kept).all()


@pytest.mark.parametrize(("size", "batch", "step"), [(-1, 1, 0), (1, 0, 0), (1, 1, -1)])
def test_impossible_orders(size, batch, step):
    with pytest.raises(ValueError, match=f"size {size}, batch {batch}, step {step}"):
        public_order(1, "aligned", size, batch, step)
