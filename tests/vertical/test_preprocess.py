"""Preprocessing: hand-made columns of each kind."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from protocols.errors import BlockError
from vertical.choices import Scaling
from vertical.numeric_rule import CLIP, KNOTS, NumericRule
from vertical.preprocess import Preprocessor, fit
from vertical.table import CategoricalColumn, DateColumn, NumericColumn, Table


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
    table = Table((levels("job", [0, 2, -1, 1, 0, 2, -1, 1], "clerk", "smith", "baker"),))
    fitted = fit(table, np.array([0, 1, 2, 4, 5, 6]))  # smith occurs outside training only
    assert fitted.features == ("job = clerk", "job = baker", "job missing")
    assert fitted.transform(table).tolist() == 2 * [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]]


def test_what_a_single_training_row_has_gives_no_feature() -> None:
    table = Table((levels("job", [0, 0, 1, 1, 2, -1], "clerk", "smith", "baker"),))
    fitted = fit(table, every(table))
    assert fitted.features == ("job = clerk", "job = smith")
    assert fitted.transform(table).tolist() == 2 * [[1, 0]] + 2 * [[0, 1]] + 2 * [[0, 0]]
    assert "baker" not in fitted.to_text()


def test_a_column_of_remarks_gives_no_feature_and_is_no_table_alone() -> None:
    remarks = levels("remark", [0, 1, 2, -1], "tall", "late", "kind")
    assert fit(Table((numbers("age", 1.0, 2.0, 3.0, 3.0), remarks)), np.arange(4)).features == ("age",)
    with pytest.raises(BlockError, match=r"texts that one row has: remark"):
        fit(Table((remarks,)), np.arange(4))


def test_missing_that_training_never_had_gives_zeros() -> None:
    table = Table((levels("job", [0, 1, 0, 1, -1], "clerk", "smith"),))
    assert fit(table, np.arange(4)).transform(table).tolist() == 2 * [[1, 0], [0, 1]] + [[0, 0]]


def test_levels_are_matched_by_name() -> None:
    first = Table((levels("job", [0, 1, 0, 1], "clerk", "smith"),))
    later = Table((levels("job", [0, 1, 2], "smith", "baker", "clerk"),))
    assert fit(first, every(first)).transform(later).tolist() == [[0, 1], [0, 0], [1, 0]]


def test_zero_rows_transform_to_zero_rows() -> None:
    table = Table((numbers("age", 1.0, np.nan, 3.0), levels("job", [0, 0, -1], "a", "b")))
    assert fit(table, every(table)).transform(table.take(np.arange(0))).shape == (0, 3)


def test_rules_survive_their_text_and_are_deterministic() -> None:
    table = Table((numbers("age", 1.0, np.nan, 3.0), levels("job", [0, 0, -1], "a", "b")))
    for scaling in Scaling:
        fitted = fit(table, every(table), scaling)
        assert Preprocessor.from_text(fitted.to_text()) == fitted == fit(table, np.array([0, 1, 2]), scaling)
    pixels = fit(Table(table.columns[:1]), every(table), image=(1, 1))
    assert Preprocessor.from_text(pixels.to_text()) == pixels


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
    jobs = Table((levels("job", [0, 1, 0, 1], "a", "b"),))
    with pytest.raises(BlockError, match=r"'job'.*now numeric"):
        fit(jobs, every(jobs)).transform(Table((numbers("job", 1.0),)))


def test_standard_scaling_leaves_a_heavy_tail_to_the_clip() -> None:
    table = Table((numbers("gain", *[0.0, 1.0] * 50, 1e6),))
    out = fit(table, every(table), Scaling.STANDARD).transform(table)[:, 0]
    values = np.array([0.0, 1.0] * 50 + [1e6])
    np.testing.assert_allclose(out, np.clip((values - values.mean()) / values.std(), -CLIP, CLIP), rtol=1e-5)
    assert out[-1] == CLIP
    assert out[1] - out[0] < 1e-4
    told = fit(table, every(table)).transform(table)[:, 0]  # "auto" tells 0 and 1 apart
    assert told[1] - told[0] > 0.1


def test_robust_scaling_centres_on_the_median_and_divides_by_the_quartiles() -> None:
    table = Table((numbers("age", 1.0, 2.0, 3.0, 4.0, 1e6),))  # median 3, quartiles 2 and 4
    out = fit(table, every(table), Scaling.ROBUST).transform(table)[:, 0]
    unit = 2 / 1.3489795  # quartiles of a normal column are 1.349 deviations apart
    np.testing.assert_allclose(out, [-2 / unit, -1 / unit, 0.0, 1 / unit, CLIP], rtol=1e-6)


def test_robust_scaling_of_a_column_that_is_mostly_one_value_divides_by_the_deviation() -> None:
    table = Table((numbers("flag", 0.0, 0.0, 0.0, 0.0, 0.0, 1.0),))  # mean 1/6, deviation sqrt(5)/6
    out = fit(table, every(table), Scaling.ROBUST).transform(table)[:, 0]
    np.testing.assert_allclose(out, [0.0] * 5 + [6 / np.sqrt(5)], rtol=1e-6)


def test_quantile_scaling_gives_normal_scores_of_mean_ranks() -> None:
    table = Table((numbers("x", 10.0, 10.0, 40.0, 1e9),))
    rule = fit(table, every(table), Scaling.QUANTILE)
    # mean ranks 1/4, 5/8, 7/8 of 10, 40, 1e9; their normal scores, counted 2, 1, 1 times, made mean 0 deviation 1
    scores = np.array([NormalDist().inv_cdf(share) for share in (1 / 4, 1 / 4, 5 / 8, 7 / 8)])
    expected = (scores - scores.mean()) / scores.std()
    np.testing.assert_allclose(rule.transform(table)[:, 0], expected, rtol=1e-5)
    others = Table((numbers("x", 25.0, -np.inf, 1e300, np.nan),))  # between, below, above, missing
    middle = (expected[0] + expected[2]) / 2
    np.testing.assert_allclose(
        rule.transform(others)[:, 0], [middle, expected[0], expected[3], 0.0], rtol=1e-5
    )


def test_quantile_scaling_of_many_values_keeps_few_knots_and_is_near_normal() -> None:
    values = np.random.default_rng(0).lognormal(sigma=3.0, size=5000)
    table = Table((NumericColumn(name="x", values=values),))
    rules = fit(table, every(table), Scaling.QUANTILE)
    (rule,) = rules.rules
    assert isinstance(rule, NumericRule)
    assert len(rule.knots) <= KNOTS
    assert (rule.knots[0], rule.knots[-1]) == (values.min(), values.max())
    out = rules.transform(table)[:, 0]
    assert np.all(np.diff(out[np.argsort(values)]) >= 0)
    np.testing.assert_allclose(
        np.quantile(out, [0.025, 0.16, 0.5, 0.84, 0.975]), [-1.96, -0.994, 0.0, 0.994, 1.96], atol=0.03
    )


def test_pixels_share_one_scale_and_constant_ones_keep_their_place() -> None:
    table = Table(
        (numbers("a", 0.0, 0.0, 7.0), numbers("b", 2.0, 4.0, np.nan), numbers("c", 9.0, 9.0, np.inf))
    )
    rows = np.array([0, 1])
    fitted = fit(table, rows, image=(3, 1))
    assert fitted.features == ("a", "b", "c")
    seen = np.array([0, 2, 9, 0, 4, 9])
    expected = (np.array([[0, 2, 9], [0, 4, 9]]) - seen.mean()) / seen.std()
    out = fitted.transform(table)
    np.testing.assert_allclose(out[:2], expected, rtol=1e-6)
    np.testing.assert_allclose(out[2], [(7 - seen.mean()) / seen.std(), 0.0, CLIP], rtol=1e-6)


def test_dates_with_a_far_outlier_are_scaled_by_their_quartiles() -> None:
    days = np.array([*range(18_000, 18_041), -25_567], np.float64)  # one person "since 1900-01-01"
    table = Table((DateColumn(name="since", values=days),))
    (rule,) = fit(table, every(table)).rules
    assert isinstance(rule, NumericRule)
    assert (rule.unit, rule.centre) == (0.0, 18_019.5)
    out = fit(table, every(table)).transform(table)[:, 0]
    assert out[40] - out[0] > 2
    assert out[-1] == -CLIP


def test_columns_that_are_no_image_are_refused() -> None:
    table = Table((numbers("a", 1.0, 2.0), numbers("b", 1.0, 2.0)))
    with pytest.raises(BlockError, match="2 columns are no image of 2x2"):
        fit(table, every(table), image=(2, 2))
    mixed = Table((numbers("a", 1.0, 2.0), levels("b", [0, 1], "x", "y")))
    with pytest.raises(BlockError, match="1 of 2 columns of an image are categorical"):
        fit(mixed, every(mixed), image=(1, 2))
    same = Table((numbers("a", 3.0, np.nan), numbers("b", 3.0, 3.0)))
    with pytest.raises(BlockError, match="same value"):
        fit(same, every(same), image=(1, 2))
    with pytest.raises(BlockError, match="1 of 2 columns"):
        fit(table, every(table), image=(1, 2)).transform(mixed)


@pytest.mark.parametrize(
    "text", ["", "{}x", "[1]", '[{"kind": "forest"}]', '[{"kind": "numeric", "age": 77}]']
)
def test_an_unreadable_text_is_refused_without_quoting_it(text: str) -> None:
    with pytest.raises(BlockError, match="not readable") as caught:
        Preprocessor.from_text(text)
    assert "77" not in str(caught.value)


@pytest.mark.parametrize("scaling", Scaling)
@settings(max_examples=100, deadline=None)
@given(values=arrays(np.float64, st.integers(2, 12), elements=st.floats(allow_nan=True, allow_infinity=True)))
def test_any_numbers_give_finite_bounded_features(scaling: Scaling, values: NDArray[np.float64]) -> None:
    anchor = NumericColumn(name="anchor", values=np.arange(len(values), dtype=np.float64))
    table = Table((NumericColumn(name="x", values=values), anchor))
    fitted = fit(table, every(table), scaling)
    out = fitted.transform(table)
    assert np.isfinite(out).all()
    assert np.abs(out).max() <= CLIP
    assert Preprocessor.from_text(fitted.to_text()) == fitted


def cut(table: Table, count: int) -> Preprocessor:
    return fit(table, every(table), cuts=count)


def test_cuts_part_a_column_in_groups_of_similar_size() -> None:
    table = Table((numbers("age", *map(float, range(1, 13))),))  # quantiles 0, 1/3, 2/3 of 1..12: 1, 4, 8
    fitted = cut(table, 3)
    assert fitted.features == ("age", "age >= 3.5", "age >= 7.5")  # all are >= 1
    steps = fitted.transform(table)[:, 1:]
    assert steps.sum(axis=0).tolist() == [9, 5]
    assert np.all(np.diff(steps, axis=0) >= 0)


def test_cuts_of_a_column_with_few_values_are_all_its_steps() -> None:
    table = Table((numbers("rank", 1.0, 5.0, 5.0, 9.0),))
    assert cut(table, 2).features == ("rank", "rank >= 3", "rank >= 7")
    assert cut(table, 2).transform(table)[:, 1:].tolist() == [[0, 0], [1, 0], [1, 0], [1, 1]]


def test_cuts_of_a_column_that_is_mostly_equal_are_those_of_the_others() -> None:
    table = Table((numbers("gain", *[0.0] * 20, *map(float, range(10, 18))),))
    assert cut(table, 2).features == ("gain", "gain >= 5", "gain >= 12.5")


def test_two_values_a_constant_and_no_cuts_asked_for_give_none() -> None:
    table = Table((numbers("flag", 0.0, 1.0, 1.0), numbers("same", 2.0, 2.0, 2.0)))
    assert cut(table, 8).features == ("flag",)
    assert cut(Table((numbers("age", 1.0, 2.0, 3.0),)), 0).features == ("age",)


def test_a_missing_value_and_infinities_at_the_cuts() -> None:
    table = Table((numbers("age", 1.0, 2.0, 3.0, np.nan, np.inf, -np.inf),))
    fitted = cut(table, 8)
    assert fitted.features == ("age", "age >= 1.5", "age >= 2.5", "age missing")
    assert fitted.transform(table)[3:, 1:].tolist() == [[0, 0, 1], [1, 1, 0], [0, 0, 0]]
    assert Preprocessor.from_text(fitted.to_text()) == fitted


def test_no_cut_is_a_value_of_a_row_but_each_parts_the_rows_as_its_quantile_does() -> None:
    values = [3.25, 1.5, 8.75, 4.5, 6.25, 2.0, 7.0, 5.75]
    (rule,) = cut(Table((numbers("amount", *values),)), 4).rules
    assert isinstance(rule, NumericRule)
    assert not set(rule.cuts) & set(values)
    assert [sum(value >= bound for value in values) for bound in rule.cuts] == [7, 5, 3]
