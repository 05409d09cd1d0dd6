"""Preprocessing: hand-made columns of each kind."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from protocols.errors import BlockError
from vertical.preprocess import CLIP, Preprocessor, fit
from vertical.table import CategoricalColumn, NumericColumn, Table


def numbers(name: str, *values: float) -> NumericColumn:
    return NumericColumn(name=name, values=np.array(values, np.float64))


def levels(name: str, codes: list[int], *names: str) -> CategoricalColumn:
    return CategoricalColumn(name=name, codes=np.array(codes, np.int32), levels=names)


def every(table: Table) -> NDArray[np.int64]:
    return np.arange(table.rows)


def test_a_light_tailed_column_becomes_mean_zero_deviation_one() -> None:
    table = Table((numbers("age", 20.0, 40.0, 60.0),))  # mean 40, deviation sqrt(800 / 3) = 16.33
    out = fit(table, every(table)).transform(table)
    assert out.dtype == np.float32
    np.testing.assert_allclose(out[:, 0], [-1.2247449, 0.0, 1.2247449], rtol=1e-6)


def test_only_training_rows_are_looked_at() -> None:
    table = Table((numbers("age", 20.0, 40.0, 60.0, 1e9),))
    np.testing.assert_allclose(
        fit(table, np.arange(3)).transform(table)[:, 0], [-1.2247449, 0.0, 1.2247449, CLIP], rtol=1e-6
    )


def test_heavy_tail_is_squashed_like_capital_gain() -> None:
    gain = np.zeros(1000)
    gain[:80] = 5000.0 * np.arange(1, 81)  # mostly 0, up to 400,000
    table = Table((NumericColumn(name="gain", values=gain),))
    out = fit(table, every(table)).transform(table)[:, 0]
    assert np.ptp(out) < 2 * CLIP
    assert out.max() < CLIP
    assert abs(out.mean()) < 1e-5
    assert abs(out.std() - 1) < 1e-5
    assert np.all(np.diff(out[:80]) > 0)  # the order stays
    small = Table((NumericColumn(name="gain", values=gain / 1e6),))
    np.testing.assert_allclose(fit(small, every(small)).transform(small)[:, 0], out, atol=1e-5)  # unit-free


def test_a_rare_flag_survives() -> None:
    flag = np.zeros(10_000)
    flag[7] = 1.0
    table = Table((NumericColumn(name="flag", values=flag),))
    out = fit(table, every(table)).transform(table)[:, 0]
    assert out[7] == CLIP
    assert np.all(np.abs(np.delete(out, 7)) < 0.1)


def test_missing_numbers_become_the_mean_and_an_indicator() -> None:
    table = Table((numbers("age", 1.0, np.nan, 3.0),))
    fitted = fit(table, every(table))
    assert fitted.features == ("age", "age missing")
    assert fitted.transform(table).tolist() == [[-1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]


def test_numbers_missing_only_outside_training_become_the_mean() -> None:
    table = Table((numbers("age", 1.0, 3.0, np.nan),))
    fitted = fit(table, np.array([0, 1]))
    assert fitted.transform(table).tolist() == [[-1.0], [1.0], [0.0]]


def test_infinities_are_the_far_end_and_do_not_bend_the_scale() -> None:
    table = Table((numbers("age", 1.0, 3.0, np.inf, -np.inf),))
    assert fit(table, every(table)).transform(table)[:, 0].tolist() == [-1.0, 1.0, CLIP, -CLIP]


def test_constant_columns_give_nothing_but_a_constant_with_gaps_gives_its_gaps() -> None:
    table = Table(
        (
            numbers("same", 2.0, 2.0, 2.0),
            numbers("gaps", 2.0, np.nan, 2.0),
            numbers("none", np.nan, np.nan, np.nan),
            levels("one", [0, 0, 0], "a", "b"),
            levels("absent", [-1, -1, -1], "a"),
        )
    )
    fitted = fit(table, every(table))
    assert fitted.features == ("gaps missing",)
    assert fitted.transform(table).tolist() == [[0.0], [1.0], [0.0]]


def test_levels_missing_and_unseen() -> None:
    table = Table((levels("job", [0, 2, -1, 1], "clerk", "smith", "baker"),))
    fitted = fit(table, np.array([0, 1, 2]))  # smith occurs outside training only
    assert fitted.features == ("job = clerk", "job = baker", "job missing")
    assert fitted.transform(table).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]]


def test_missing_that_training_never_had_gives_zeros() -> None:
    table = Table((levels("job", [0, 1, -1], "clerk", "smith"),))
    assert fit(table, np.array([0, 1])).transform(table).tolist() == [[1, 0], [0, 1], [0, 0]]


def test_levels_are_matched_by_name() -> None:
    first = Table((levels("job", [0, 1], "clerk", "smith"),))
    later = Table((levels("job", [0, 1, 2], "smith", "baker", "clerk"),))
    assert fit(first, every(first)).transform(later).tolist() == [[0, 1], [0, 0], [1, 0]]


def test_zero_rows_transform_to_zero_rows() -> None:
    table = Table((numbers("age", 1.0, np.nan, 3.0), levels("job", [0, 1, -1], "a", "b")))
    assert fit(table, every(table)).transform(table.take(np.arange(0))).shape == (0, 5)


def test_rules_survive_their_text_and_are_deterministic() -> None:
    table = Table((numbers("age", 1.0, np.nan, 3.0), levels("job", [0, 1, -1], "a", "b")))
    fitted = fit(table, every(table))
    assert Preprocessor.from_text(fitted.to_text()) == fitted == fit(table, np.array([0, 1, 2]))


def test_refusals_name_columns() -> None:
    table = Table((numbers("age", 1.0, 3.0),))
    fitted = fit(table, every(table))
    with pytest.raises(BlockError, match="no training rows"):
        fit(table, np.arange(0))
    with pytest.raises(BlockError, match=r"constant.*age"):
        fit(table, np.array([0]))
    with pytest.raises(BlockError, match=r"fitted on.*age"):
        fitted.transform(Table((numbers("height", 1.0),)))
    with pytest.raises(BlockError, match=r"'age'.*now categorical"):
        fitted.transform(Table((levels("age", [0], "a"),)))
    jobs = Table((levels("job", [0, 1], "a", "b"),))
    with pytest.raises(BlockError, match=r"'job'.*now numeric"):
        fit(jobs, every(jobs)).transform(Table((numbers("job", 1.0),)))


@settings(max_examples=200, deadline=None)
@given(arrays(np.float64, st.integers(2, 12), elements=st.floats(allow_nan=True, allow_infinity=True)))
def test_any_numbers_give_finite_bounded_features(values: NDArray[np.float64]) -> None:
    anchor = NumericColumn(name="anchor", values=np.arange(len(values), dtype=np.float64))
    table = Table((NumericColumn(name="x", values=values), anchor))
    out = fit(table, every(table)).transform(table)
    assert np.isfinite(out).all()
    assert np.abs(out).max() <= CLIP
