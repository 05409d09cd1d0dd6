"""Folds: every row is kept or held out, held out once at most, in equal parts, whatever the labels are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.seeds import injected
from vertical.folds import MOST_OWN, aligned_folds, fold_count, kept_rows, own_folds


@given(st.integers(0, 60), st.sampled_from([0, 2, 3, 5, 20]), st.integers(0, 9))
def test_folds_split_the_rows_in_equal_parts(rows: int, wanted: int, seed: int) -> None:
    folds = aligned_folds(seed, rows, wanted)
    assert len(folds) == fold_count(rows, wanted)
    held = np.concatenate([fold.held for fold in folds] or [np.zeros(0, np.int64)])
    assert len(set(held.tolist())) == len(held)
    assert len(held) == (rows - rows % len(folds) if folds else 0)
    for fold in folds:
        assert len(fold.held) == rows // len(folds) >= 1
        assert len(fold.kept) == kept_rows(rows, wanted) >= 1
        assert sorted([*fold.kept, *fold.held]) == list(range(rows))


@given(st.integers(0, 200), st.sampled_from([2, 3, 7]))
def test_more_rows_never_leave_fewer_for_training(rows: int, wanted: int) -> None:
    """So the manifest's bound, of the largest group, holds for every smaller one."""
    assert kept_rows(rows, wanted) <= kept_rows(rows + 1, wanted)


@pytest.mark.parametrize(("rows", "count"), [(0, 0), (1, 0), (2, 2), (3, 3), (4, 3)])
def test_few_rows_have_few_folds(rows: int, count: int) -> None:
    assert fold_count(rows, 3) == count
    assert kept_rows(7, 0) == 7


def test_the_public_seed_decides_the_aligned_folds_and_the_private_one_the_own() -> None:
    first, again, other = (aligned_folds(seed, 30, 3) for seed in (4, 4, 5))
    assert all(np.array_equal(a.held, b.held) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0].held, other[0].held)
    mine, yours = (own_folds(injected(1, role), 30, 3) for role in ("active", "passive"))
    assert not np.array_equal(mine[0].held, yours[0].held)


def test_own_rows_too_few_to_hold_out_all_train() -> None:
    folds = own_folds(injected(1, "active"), 2, 3)
    assert len(folds) == 3
    assert all(fold.kept.tolist() == [0, 1] and len(fold.held) == 0 for fold in folds)


def test_of_very_many_own_rows_a_fold_holds_out_a_few_thousand() -> None:
    folds = own_folds(injected(1, "active"), 5 * MOST_OWN, 3)
    held = np.concatenate([fold.held for fold in folds])
    assert [len(fold.held) for fold in folds] == [MOST_OWN] * 3
    assert len(set(held.tolist())) == 3 * MOST_OWN
    assert all(len(fold.kept) == 4 * MOST_OWN for fold in folds)
