from __future__ import annotations

import importlib
import math
import random
import re
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from ragbench.errors import ConfigError, InputError
from ragbench.stats.bounded_mean import bounded_mean_p_value, rare_gains_p_value
from ragbench.stats.mean import (
    ClusterTotals,
    cluster_codes,
    mean_interval,
    proportion_interval,
    student_p_value,
)

VALUES = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30)


def test_copies_of_a_case_in_its_cluster_add_nothing() -> None:
    values = [0.2, 0.9, 0.4, 0.7]
    once = mean_interval(values)
    often = mean_interval(values * 5, [0, 1, 2, 3] * 5)
    assert (often.low, often.high) == pytest.approx((once.low, once.high))
    assert (often.cases, often.clusters) == (20, 4)
    careless = mean_interval(values * 5)
    assert careless.standard_error is not None and once.standard_error is not None
    assert careless.standard_error < once.standard_error / 2


@given(VALUES)
def test_the_interval_holds_the_mean(values: list[float]) -> None:
    interval = mean_interval(values, bounds=(-1e3, 1e3))
    low, mean, high = interval.low, interval.mean, interval.high
    assert low is not None and mean is not None and high is not None
    assert low <= mean <= high


def test_one_sided_p_value_is_that_of_scipy() -> None:
    stats: Any = importlib.import_module("scipy.stats")
    values = [0.1, -0.2, 0.4, 0.3, 0.05, 0.2]
    expected = float(stats.ttest_1samp(values, -0.05, alternative="greater").pvalue)
    assert student_p_value(ClusterTotals.of(values), -0.05) == pytest.approx(expected)


def test_without_a_spread_a_p_value_is_a_half() -> None:
    for values in ([], [0.5], [0.5, 0.5, 0.5]):
        assert student_p_value(ClusterTotals.of(values), -1.0) == 0.5


UNSEEN = 0.025**0.5
"""Of two equal values so much of the way to each end is left."""
UNIT = {"bounds": (0.0, 1.0)}
OUTCOMES = {"bounds": (0.0, 1.0), "probability": True}


@pytest.mark.parametrize(
    ("values", "clusters", "facts", "low", "high"),
    [
        ([], None, {}, None, None),
        ([0.5], None, {}, None, None),
        ([1.0] * 3, None, {}, None, None),
        ([0.5, 0.7], ["a", "a"], {}, None, None),
        ([0.5, 0.7], ["a", "a"], OUTCOMES, None, None),
        # Squares of .34: 0.5 +- 2.570582 * sqrt(.34 / 5 / 6).
        ([0.2, 0.9, 0.4, 0.7, 0.5, 0.3], None, {}, 0.226341, 0.773659),
        # Two clusters that are alike by chance: the error of the cases, t(0.975; 1) * sqrt(1 / 12).
        ([0.0, 1.0, 0.0, 1.0], [1, 1, 2, 2], {}, -3.167965, 4.167965),
        ([0.0] * 2, None, {"bounds": (-1.0, 3.0)}, -1.0 + UNSEEN, 3.0 - 3.0 * UNSEEN),
        ([1.0] * 2, None, UNIT, UNSEEN, 1.0),
        ([2.0] * 2, None, {"bounds": (1.0, 3.0)}, 1.0 + UNSEEN, 3.0 - UNSEEN),
        # m (1 - m) / 20: 20 trials; t(0.975; 19) = 2.093024, t^2 / 20 = 0.2190375.
        # (0.007 + 0.1095187 -+ sqrt(0.2190375 (0.006951 + 0.0547594))) / 1.2190375
        ([0.007] * 20, None, OUTCOMES, 0.00021, 0.19096),
        ([0.993] * 20, None, OUTCOMES, 1 - 0.19096, 1 - 0.00021),
        # Of five clusters t(0.975; 4) = 2.776445, t^2 / 20 = 0.3854323.
        ([0.007] * 20, [*range(5)] * 4, OUTCOMES, 0.00012, 0.28819),
        # SE^2 = 2 * (0.8^2 + 0.8^2) / 4^2 = 0.16, and 4 * 0.09 / 4^2 = 0.0225 around it:
        # 0.25 / 0.1825
        # trials of t(0.975; 1) = 12.7062: nearly nothing is known.
        ([0.1, 0.1, 0.9, 0.9], [1, 1, 2, 2], OUTCOMES, 0.00211, 0.99789),
        # Of 0 and 1 alone it is the interval of any score: 0.75 +- 3.182446 * 0.25.
        ([0.0, 1.0, 1.0, 1.0], None, OUTCOMES, 0.0, 1.0),
        ([0.0] * 2, None, OUTCOMES, 0.0, 1.0 - UNSEEN),
    ],
)
def test_intervals_by_hand(
    values: list[float],
    clusters: list[Any] | None,
    facts: dict[str, Any],
    low: float | None,
    high: float | None,
) -> None:
    found = mean_interval(values, clusters, **facts)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-5)


def test_an_end_that_the_mean_lies_beyond_does_not_cut_the_interval_off_its_mean() -> None:
    below, above = (mean_interval(v, bounds=(0.0, 1.0)) for v in ([-0.5, -0.1], [1.1, 1.5]))
    assert (below.mean, above.mean) == pytest.approx((-0.3, 1.3))
    assert (below.low, above.high) == (below.mean, above.mean)


@given(st.integers(0, 60), st.integers(0, 60), st.floats(0.5, 0.999))
def test_the_same_as_scipys(successes: int, failures: int, confidence: float) -> None:
    if successes + failures == 0:
        return
    found = binomtest(successes, successes + failures).proportion_ci(confidence, method="exact")
    mine = proportion_interval(successes, successes + failures, confidence)
    assert mine == pytest.approx((found.low, found.high), abs=1e-9)


def test_the_example_of_the_guide_prints_what_the_guide_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    guide = (Path(__file__).parents[3] / "docs" / "statistics.md").read_text("utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)[:1]
    *program, promised = block.strip().splitlines()
    exec("\n".join(program), {})
    assert f"# {capsys.readouterr().out.strip()}" == promised


def test_codes_count_up_and_none_stands_alone() -> None:
    assert cluster_codes(["a", None, "b", "a", None, 7, 7]) == (0, 1, 2, 0, 3, 4, 4)


def test_totals_by_hand() -> None:
    totals = ClusterTotals.of([1.0, 2.0, 6.0], ["a", "a", "b"])
    assert totals == ClusterTotals(sums=(3.0, 6.0), sizes=(2, 1))
    assert (totals.clusters, totals.cases, totals.mean) == (2, 3, 3.0)
    # Deviations from the mean sum to -3 and +3: sqrt(2/1 * 18) / 3 = 2.
    assert totals.standard_error == pytest.approx(2.0)
    assert totals.shifted_sums(0.5) == (4.0, 6.5)


@pytest.mark.extra("dev", package="statsmodels")
def test_standard_error_is_that_of_a_regression_with_clustered_errors() -> None:
    models: Any = importlib.import_module("statsmodels.regression.linear_model")
    draw = np.random.default_rng(3)
    codes = [int(code) for code in draw.integers(0, 12, 60)]
    values = [float(value) for value in draw.normal(size=60) + np.array(codes) / 5]
    fitted = models.OLS(np.array(values), np.ones(60)).fit(
        cov_type="cluster", cov_kwds={"groups": np.array(codes)}
    )
    assert ClusterTotals.of(values, codes).standard_error == pytest.approx(float(fitted.bse[0]))


@pytest.mark.parametrize(
    ("values", "labels", "error"),
    [
        ([], None, None),
        ([1.0], None, None),
        ([1.0, 2.0], ["a", "a"], None),
        # No spread, though the sum of equal values is rounded.
        ([0.1] * 7, None, 0.0),
        ([0.1] * 7, [0, 0, 0, 1, 2, 2, 3], 0.0),
    ],
)
def test_without_clusters_there_is_no_standard_error_and_without_spread_it_is_0(
    values: list[float], labels: list[Any] | None, error: float | None
) -> None:
    assert ClusterTotals.of(values, labels).standard_error == error


@given(st.lists(st.floats(-1e6, 1e6), max_size=30), st.randoms(use_true_random=False))
def test_order_and_names_do_not_matter(values: list[float], chance: random.Random) -> None:
    labels = [chance.choice(["a", "b", "c", None]) for _ in values]
    order = list(range(len(values)))
    chance.shuffle(order)
    renamed = {"a": "z", "b": "y", "c": "x", None: None}
    assert ClusterTotals.of(values, labels) == ClusterTotals.of(
        [values[place] for place in order], [renamed[labels[place]] for place in order]
    )


def test_what_rounding_may_have_moved_grows_with_the_cluster() -> None:
    # Four values that may each be off by 1/4 leave a sum of up to 1 that means nothing.
    of_four = ClusterTotals(sums=(1.0,), sizes=(4,), rounding=0.25)
    assert of_four.shifted_sums(0.0) == (0.0,)
    assert of_four.shifted_sums(0.125) == (1.5,)
    assert of_four.shifted_sums(-1.0) == (-3.0,)


def p_value(
    values: list[float], limit: float, *, lowest: float = -1.0, labels: list[int] | None = None
) -> float:
    return bounded_mean_p_value(ClusterTotals.of(values, labels), limit, lowest=lowest)


def binomial(breaks: int, cases: int, chance: Fraction) -> float:
    return float(
        sum(
            math.comb(cases, each) * chance**each * (1 - chance) ** (cases - each)
            for each in range(breaks + 1)
        )
    )


@settings(deadline=None)
@given(st.integers(1, 150), st.data())
def test_all_or_nothing_is_the_exact_binomial_test(cases: int, data: st.DataObject) -> None:
    breaks = data.draw(st.integers(0, cases - 1))
    percent = data.draw(st.integers(1, 60))
    expected = binomial(breaks, cases, Fraction(percent, 100))
    values = [0.0] * (cases - breaks) + [-1.0] * breaks
    assert p_value(values, -percent / 100) == pytest.approx(expected, rel=1e-6, abs=1e-13)


def test_a_large_cluster_may_hide_as_much_as_its_size() -> None:
    """The one that nobody saw is taken to be as large as the largest, and to lose everything."""
    sizes, means = [1, 1, 1, 2, 6], [0.3, -0.2, 0.1, 0.2, 0.05]
    values = [mean for mean, size in zip(means, sizes, strict=True) for _ in range(size)]
    labels = [at for at, size in enumerate(sizes) for _ in range(size)]
    draw = np.random.default_rng(5)
    weights = draw.exponential(size=(200_000, 6))
    moved = [size * (mean + 0.3) for mean, size in zip(means, sizes, strict=True)]
    expected = float((weights @ np.array([*moved, -0.7 * 6]) <= 0.0).mean())
    assert p_value(values, -0.3, labels=labels) == pytest.approx(expected, abs=0.004)
    assert 0.05 < expected < 0.95


@given(st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=30), st.floats(0.01, 0.9))
def test_it_is_a_probability_and_better_values_lower_it(values: list[float], drop: float) -> None:
    found = p_value(values, -drop)
    assert 0.0 <= found <= 1.0
    better = p_value([value + (1.0 - value) / 2 for value in values], -drop)
    assert better <= found + 1e-9


def test_many_cases_are_the_t_test() -> None:
    stats: Any = importlib.import_module("scipy.stats")
    values = np.random.default_rng(9).normal(-0.02, 0.1, 20_000)
    expected = float(stats.ttest_1samp(values, -0.021, alternative="greater").pvalue)
    found = p_value([float(value) for value in np.clip(values, -1, 1)], -0.021)
    assert found == pytest.approx(expected, abs=0.02)
    assert found > expected


@pytest.mark.parametrize(
    ("values", "tolerance", "scale", "are_rare"),
    [
        # Of 19 cases the twentieth gains 1: together they may have lost 1, and no more.
        ([0.0] * 18 + [-1.0], 0.0, 1.0, True),
        ([0.0] * 17 + [-1.0, -0.01], 0.0, 1.0, False),
        # On a scale of 2 it gains 2.
        ([-0.1] * 19, 0.0, 2.0, True),
        ([-0.11] * 19, 0.0, 2.0, False),
        # Beyond the tolerated 0.1 each of 19 lost 0.05 (0.95) or 0.06 (1.14); the gain is 1.1.
        ([-0.15] * 19, 0.1, 1.0, True),
        ([-0.16] * 19, 0.1, 1.0, False),
        # Gains are rare up to a tenth of what moved; what did not move says nothing.
        ([-0.02] * 9 + [0.02], 0.0, 1.0, True),
        ([-0.02] * 8 + [0.02], 0.0, 1.0, False),
        ([-0.02] * 8 + [0.02] + [0.0] * 20, 0.0, 1.0, False),
        ([-0.01] * 20, 0.0, None, False),
        ([-0.9] * 20, 0.0, 1.0, False),
    ],
)
def test_rare_gains_are_asked_about_where_they_could_make_up_for_the_loss(
    values: list[float], tolerance: float, scale: float | None, are_rare: bool
) -> None:
    found = rare_gains_p_value(ClusterTotals.of(values), tolerance, scale=scale)
    assert (found is not None) is are_rare


@pytest.mark.parametrize(
    ("loss", "tolerance", "scale", "ratio"),
    [(0.05, 0.0, 1.0, 0.05), (0.05, 0.0, 2.0, 0.025), (0.06, 0.02, 1.0, 0.04 / 1.02)],
)
def test_the_p_value_of_equal_losses_by_hand(
    loss: float, tolerance: float, scale: float, ratio: float
) -> None:
    # P(E_0 >= ratio * sum(E_c)) of independent exponentials is (1 + ratio) ** -n.
    found = rare_gains_p_value(ClusterTotals.of([-loss] * 20), tolerance, scale=scale)
    assert found == pytest.approx((1.0 + ratio) ** -20)


@pytest.mark.parametrize(
    ("work", "error", "message"),
    [
        *(
            (partial(ClusterTotals.of, [0.0, bad]), InputError, "value 1 is")
            for bad in (math.nan, math.inf, -math.inf, 1e300)
        ),
        (lambda: ClusterTotals.of([0.0, 1.0], ["a"]), InputError, "2 values and 1 cluster labels"),
        (lambda: mean_interval([math.nan, 1.0]), InputError, "value 0 is"),
        (lambda: proportion_interval(3, 2), InputError, "3 successes of 2 trials"),
        (partial(mean_interval, [0.0, 1.0], confidence=1.0), ConfigError, "probability"),
        *(
            (partial(proportion_interval, 1, 2, bad), ConfigError, "confidence")
            for bad in (1.0, 0.0)
        ),
        (lambda: p_value([0.0], -1.0), ConfigError, "every mean would do"),
        (lambda: p_value([-1.5, 0.0], -0.1), InputError, "below the smallest possible"),
    ],
)
def test_what_cannot_be_computed_with_is_refused(
    work: Callable[[], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        work()
