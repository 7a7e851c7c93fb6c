"""Means and shares with their intervals, sums by cluster, and tests of a bounded mean."""

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
from hypothesis import assume, given, settings
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

# --- the interval of a mean


def test_copies_of_a_case_in_its_cluster_narrow_no_interval() -> None:
    values = [0.2, 0.9, 0.4, 0.7]

    clusters = [0, 1, 2, 3]

    single = mean_interval(values)
    copied = mean_interval(values * 5, clusters * 5)

    assert copied.low == pytest.approx(single.low)
    assert copied.high == pytest.approx(single.high)
    assert copied.cases == 20
    assert copied.clusters == 4


def test_copies_that_count_as_cases_of_their_own_narrow_the_interval() -> None:
    values = [0.2, 0.9, 0.4, 0.7]

    single = mean_interval(values)
    copied = mean_interval(values * 5)

    assert single.standard_error is not None
    assert copied.standard_error is not None
    assert copied.standard_error < single.standard_error / 2


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30))
def test_the_interval_holds_the_mean(values: list[float]) -> None:
    interval = mean_interval(values, bounds=(-1e3, 1e3))

    assert interval.low is not None
    assert interval.mean is not None
    assert interval.high is not None
    assert interval.low <= interval.mean <= interval.high


@pytest.mark.parametrize(
    ("values", "clusters"),
    [
        pytest.param([], None, id="no value"),
        pytest.param([0.5], None, id="a single value"),
        pytest.param([1.0] * 3, None, id="equal values of a scale without ends"),
        pytest.param([0.5, 0.7], ["a", "a"], id="a single cluster"),
    ],
)
def test_without_a_spread_there_is_no_interval(
    values: list[float], clusters: list[str | int | None] | None
) -> None:
    interval = mean_interval(values, clusters)

    assert interval.low is None
    assert interval.high is None


def test_a_single_cluster_of_probabilities_has_no_interval() -> None:
    interval = mean_interval([0.5, 0.7], ["a", "a"], bounds=(0.0, 1.0), probability=True)

    assert interval.low is None
    assert interval.high is None


def test_the_interval_of_single_cases_by_hand() -> None:
    interval = mean_interval([0.2, 0.9, 0.4, 0.7, 0.5, 0.3])

    # Squares of .34: 0.5 +- 2.570582 * sqrt(.34 / 5 / 6).
    assert interval.low == pytest.approx(0.226341, abs=1e-5)
    assert interval.high == pytest.approx(0.773659, abs=1e-5)


def test_clusters_that_are_alike_by_chance_have_the_error_of_their_cases() -> None:
    interval = mean_interval([0.0, 1.0, 0.0, 1.0], [1, 1, 2, 2])

    # t(0.975; 1) * sqrt(1 / 12) around .5
    assert interval.low == pytest.approx(-3.167965, abs=1e-5)
    assert interval.high == pytest.approx(4.167965, abs=1e-5)


# Two equal values leave so much of the way from their mean to each end of the scale unseen.
UNSEEN = 0.025**0.5


@pytest.mark.parametrize(
    ("value", "bounds", "low", "high"),
    [
        pytest.param(
            0.0,
            (-1.0, 3.0),
            -1.0 + UNSEEN,
            3.0 - 3.0 * UNSEEN,
            id="between the ends",
        ),
        pytest.param(
            1.0,
            (0.0, 1.0),
            UNSEEN,
            1.0,
            id="at the upper end",
        ),
        pytest.param(
            2.0,
            (1.0, 3.0),
            1.0 + UNSEEN,
            3.0 - UNSEEN,
            id="in the middle",
        ),
    ],
)
def test_two_equal_values_of_a_scale_with_ends_by_hand(
    value: float, bounds: tuple[float, float], low: float, high: float
) -> None:
    interval = mean_interval([value, value], bounds=bounds)

    assert interval.low == pytest.approx(low)
    assert interval.high == pytest.approx(high)


def test_a_mean_below_the_scale_stays_inside_its_interval() -> None:
    interval = mean_interval([-0.5, -0.1], bounds=(0.0, 1.0))

    assert interval.mean == pytest.approx(-0.3)
    assert interval.low == interval.mean


def test_a_mean_above_the_scale_stays_inside_its_interval() -> None:
    interval = mean_interval([1.1, 1.5], bounds=(0.0, 1.0))

    assert interval.mean == pytest.approx(1.3)
    assert interval.high == interval.mean


# --- the interval of a mean of probabilities


@pytest.mark.parametrize(
    ("values", "clusters", "low", "high"),
    [
        # m (1 - m) / 20: 20 trials; t(0.975; 19) = 2.093024, t^2 / 20 = 0.2190375.
        # (0.007 + 0.1095187 -+ sqrt(0.2190375 (0.006951 + 0.0547594))) / 1.2190375
        pytest.param(
            [0.007] * 20,
            None,
            0.00021,
            0.19096,
            id="near 0",
        ),
        pytest.param(
            [0.993] * 20,
            None,
            1 - 0.19096,
            1 - 0.00021,
            id="near 1",
        ),
        # Of five clusters t(0.975; 4) = 2.776445, t^2 / 20 = 0.3854323.
        pytest.param(
            [0.007] * 20,
            [*range(5)] * 4,
            0.00012,
            0.28819,
            id="five clusters",
        ),
        # SE^2 = 2 * (0.8^2 + 0.8^2) / 4^2 = 0.16, and 4 * 0.09 / 4^2 = 0.0225 around it:
        # 0.25 / 0.1825 trials of t(0.975; 1) = 12.7062: nearly nothing is known.
        pytest.param(
            [0.1, 0.1, 0.9, 0.9],
            [1, 1, 2, 2],
            0.00211,
            0.99789,
            id="two clusters",
        ),
        # Of 0 and 1 alone it is the interval of any score: 0.75 +- 3.182446 * 0.25.
        pytest.param(
            [0.0, 1.0, 1.0, 1.0],
            None,
            0.0,
            1.0,
            id="outcomes",
        ),
        pytest.param(
            [0.0, 0.0],
            None,
            0.0,
            1.0 - UNSEEN,
            id="two equal outcomes",
        ),
    ],
)
def test_intervals_of_probabilities_by_hand(
    values: list[float], clusters: list[str | int | None] | None, low: float, high: float
) -> None:
    interval = mean_interval(values, clusters, bounds=(0.0, 1.0), probability=True)

    assert interval.low == pytest.approx(low, abs=1e-5)
    assert interval.high == pytest.approx(high, abs=1e-5)


# --- the interval of a proportion


@given(st.integers(0, 60), st.integers(0, 60), st.floats(0.5, 0.999))
def test_the_interval_of_a_proportion_is_scipys(
    successes: int, failures: int, confidence: float
) -> None:
    trials = successes + failures
    assume(trials > 0)
    expected = binomtest(successes, trials).proportion_ci(confidence, method="exact")

    low, high = proportion_interval(successes, trials, confidence)

    assert low == pytest.approx(expected.low, abs=1e-9)
    assert high == pytest.approx(expected.high, abs=1e-9)


def test_without_a_trial_a_proportion_may_be_anything() -> None:
    assert proportion_interval(0, 0) == (0.0, 1.0)


# --- Student's p-value


def test_one_sided_p_value_is_that_of_scipy() -> None:
    stats: Any = importlib.import_module("scipy.stats")
    values = [0.1, -0.2, 0.4, 0.3, 0.05, 0.2]

    p_value = student_p_value(ClusterTotals.of(values), -0.05)

    reference = stats.ttest_1samp(values, -0.05, alternative="greater")
    assert p_value == pytest.approx(float(reference.pvalue))


@pytest.mark.parametrize(
    "values", [[], [0.5], [0.5, 0.5, 0.5]], ids=["no value", "one value", "equal values"]
)
def test_without_a_spread_a_p_value_is_a_half(values: list[float]) -> None:
    assert student_p_value(ClusterTotals.of(values), -1.0) == 0.5


# --- the guide


def test_the_example_of_the_guide_prints_what_the_guide_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = Path(__file__).parents[3] / "docs" / "statistics.md"
    examples = re.findall(r"```python\n(.*?)```", path.read_text("utf-8"), re.DOTALL)
    example = examples[0]
    *program, promise = example.strip().splitlines()

    exec("\n".join(program), {})

    printed = capsys.readouterr().out.strip()
    assert f"# {printed}" == promise


# --- sums by cluster


def test_clusters_are_numbered_by_first_appearance() -> None:
    assert cluster_codes(["a", "b", "a", 7, 7]) == (0, 1, 0, 2, 2)


def test_a_case_without_a_label_has_a_number_of_its_own() -> None:
    assert cluster_codes(["a", None, "a", None]) == (0, 1, 0, 2)


def test_totals_by_hand() -> None:
    totals = ClusterTotals.of([1.0, 2.0, 6.0], ["a", "a", "b"])

    assert totals == ClusterTotals(sums=(3.0, 6.0), sizes=(2, 1))
    assert totals.clusters == 2
    assert totals.cases == 3
    assert totals.mean == 3.0


def test_the_standard_error_of_clusters_by_hand() -> None:
    totals = ClusterTotals.of([1.0, 2.0, 6.0], ["a", "a", "b"])

    # Deviations from the mean 3 sum to -3 and +3: sqrt(2/1 * 18) / 3 = 2.
    assert totals.standard_error == pytest.approx(2.0)


@pytest.mark.extra("dev", package="statsmodels")
def test_standard_error_is_that_of_a_regression_with_clustered_errors() -> None:
    models: Any = importlib.import_module("statsmodels.regression.linear_model")
    draw = np.random.default_rng(3)
    codes = draw.integers(0, 12, 60)
    values = draw.normal(size=60) + codes / 5

    totals = ClusterTotals.of(values.tolist(), codes.tolist())

    regression = models.OLS(values, np.ones(60))
    fit = regression.fit(cov_type="cluster", cov_kwds={"groups": codes})
    assert totals.standard_error == pytest.approx(float(fit.bse[0]))


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        pytest.param([], None, id="no value"),
        pytest.param([1.0], None, id="a single value"),
        pytest.param([1.0, 2.0], ["a", "a"], id="a single cluster"),
    ],
)
def test_fewer_than_two_clusters_have_no_standard_error(
    values: list[float], labels: list[str | int | None] | None
) -> None:
    assert ClusterTotals.of(values, labels).standard_error is None


@pytest.mark.parametrize(
    "labels",
    [None, [0, 0, 0, 1, 2, 2, 3]],
    ids=["alone", "in clusters"],
)
def test_equal_values_have_a_standard_error_of_zero_although_their_sum_is_rounded(
    labels: list[str | int | None] | None,
) -> None:
    totals = ClusterTotals.of([0.1] * 7, labels)

    assert totals.standard_error == 0.0


LabelledValues = list[tuple[float, str | None]]
LABELS = st.sampled_from(["a", "b", "c", None])
VALUES_AND_LABELS = st.lists(st.tuples(st.floats(-1e6, 1e6), LABELS), max_size=30)


def totals_of(cases: LabelledValues) -> ClusterTotals:
    values = [value for value, _ in cases]
    labels = [label for _, label in cases]
    return ClusterTotals.of(values, labels=labels)


@settings(max_examples=50)
@given(VALUES_AND_LABELS, st.randoms(use_true_random=False))
def test_the_order_of_the_cases_does_not_matter(
    cases: LabelledValues, source: random.Random
) -> None:
    shuffled = list(cases)
    source.shuffle(shuffled)

    assert totals_of(shuffled) == totals_of(cases)


@settings(max_examples=50)
@given(VALUES_AND_LABELS)
def test_the_names_of_the_clusters_do_not_matter(cases: LabelledValues) -> None:
    new_names = {"a": "z", "b": "y", "c": "x", None: None}
    renamed = [(value, new_names[label]) for value, label in cases]

    assert totals_of(renamed) == totals_of(cases)


@pytest.mark.parametrize(
    ("shift", "total"),
    [
        (0.0, 0.0),
        (0.125, 1.5),
        (-1.0, -3.0),
    ],
)
def test_a_total_that_rounding_alone_may_have_made_is_zero(shift: float, total: float) -> None:
    # Four values that may each be off by 1/4 leave a sum of up to 1 that means nothing.
    totals = ClusterTotals(sums=(1.0,), sizes=(4,), rounding=0.25)

    assert totals.shifted_sums(shift) == (total,)


# --- a mean of values that cannot fall below a bound


def p_value_of(
    values: list[float], limit: float, *, lowest: float = -1.0, labels: list[int] | None = None
) -> float:
    totals = ClusterTotals.of(values, labels)
    return bounded_mean_p_value(totals, limit, lowest=lowest)


def binomial(breaks: int, cases: int, chance: Fraction) -> float:
    """The chance of so many breaks or fewer, exactly."""
    total = Fraction(0)
    for broken in range(breaks + 1):
        whole = cases - broken
        chance_of_each = chance**broken * (1 - chance) ** whole
        total += math.comb(cases, broken) * chance_of_each
    return float(total)


@settings(deadline=None)
@given(st.integers(1, 150), st.data())
def test_all_or_nothing_is_the_exact_binomial_test(cases: int, data: st.DataObject) -> None:
    breaks = data.draw(st.integers(0, cases - 1))
    percent = data.draw(st.integers(1, 60))
    values = [0.0] * (cases - breaks) + [-1.0] * breaks

    p_value = p_value_of(values, -percent / 100)

    expected = binomial(breaks, cases, Fraction(percent, 100))
    assert p_value == pytest.approx(expected, rel=1e-6, abs=1e-13)


def test_a_large_cluster_may_hide_as_much_as_its_size() -> None:
    """The cluster that no case shows counts as large as the largest, and loses everything."""
    values = [0.3, -0.2, 0.1] + [0.2] * 2 + [0.05] * 6
    labels = [0, 1, 2] + [3] * 2 + [4] * 6

    p_value = p_value_of(values, -0.3, labels=labels)

    # What each cluster lies above -.3 together; the unseen one of six cases lies .7 below it.
    totals = np.array([0.6, 0.1, 0.4, 2 * 0.5, 6 * 0.35, 6 * -0.7])
    weights = np.random.default_rng(5).exponential(size=(200_000, 6))
    expected = float((weights @ totals <= 0.0).mean())
    assert p_value == pytest.approx(expected, abs=0.004)
    assert 0.05 < expected < 0.95


BOUNDED_VALUES = st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=30)
DROPS = st.floats(0.01, 0.9)


@settings(max_examples=50)
@given(BOUNDED_VALUES, DROPS)
def test_a_p_value_is_a_probability(values: list[float], drop: float) -> None:
    p_value = p_value_of(values, -drop)

    assert 0.0 <= p_value <= 1.0


@settings(max_examples=50)
@given(BOUNDED_VALUES, DROPS)
def test_better_values_lower_the_p_value(values: list[float], drop: float) -> None:
    # Each half of the way to 1.
    better_values = [(value + 1.0) / 2 for value in values]

    p_value = p_value_of(values, -drop)
    p_value_of_better = p_value_of(better_values, -drop)

    assert p_value_of_better <= p_value + 1e-9


def test_of_many_cases_it_is_nearly_the_t_test_and_never_smaller() -> None:
    stats: Any = importlib.import_module("scipy.stats")
    draw = np.random.default_rng(9)
    values = draw.normal(-0.02, 0.1, 20_000).clip(-1, 1)

    p_value = p_value_of(values.tolist(), -0.021)

    reference = stats.ttest_1samp(values, -0.021, alternative="greater")
    expected = float(reference.pvalue)
    assert p_value == pytest.approx(expected, abs=0.02)
    assert p_value > expected


# --- rare gains that could make up for a loss


@pytest.mark.parametrize(
    ("values", "tolerance", "scale"),
    [
        # Of 19 cases the twentieth gains 1: together they may have lost 1, and no more.
        pytest.param(
            [0.0] * 18 + [-1.0],
            0.0,
            1.0,
            id="as much as a twentieth case gains",
        ),
        # On a scale of 2 it gains 2.
        pytest.param([-0.1] * 19, 0.0, 2.0, id="a wide scale"),
        # Beyond the tolerated 0.1 each of 19 lost 0.05 (0.95); the gain is 1.1.
        pytest.param([-0.15] * 19, 0.1, 1.0, id="beyond a tolerance"),
        # Gains are rare up to a tenth of what moved.
        pytest.param(
            [-0.02] * 9 + [0.02],
            0.0,
            1.0,
            id="one gain of ten moves",
        ),
    ],
)
def test_rare_gains_could_make_up_for_a_small_loss(
    values: list[float], tolerance: float, scale: float | None
) -> None:
    p_value = rare_gains_p_value(ClusterTotals.of(values), tolerance, scale=scale)

    assert p_value is not None


@pytest.mark.parametrize(
    ("values", "tolerance", "scale"),
    [
        pytest.param(
            [0.0] * 17 + [-1.0, -0.01],
            0.0,
            1.0,
            id="more than a twentieth case gains",
        ),
        pytest.param([-0.11] * 19, 0.0, 2.0, id="a wide scale"),
        # Beyond the tolerated 0.1 each of 19 lost 0.06 (1.14); the gain is 1.1.
        pytest.param([-0.16] * 19, 0.1, 1.0, id="beyond a tolerance"),
        pytest.param(
            [-0.02] * 8 + [0.02],
            0.0,
            1.0,
            id="one gain of nine moves is not rare",
        ),
        pytest.param(
            [-0.02] * 8 + [0.02] + [0.0] * 20,
            0.0,
            1.0,
            id="unchanged cases make it no rarer",
        ),
        pytest.param([-0.01] * 20, 0.0, None, id="a scale without an end"),
        pytest.param([-0.9] * 20, 0.0, 1.0, id="a large loss"),
    ],
)
def test_rare_gains_are_not_asked_about(
    values: list[float], tolerance: float, scale: float | None
) -> None:
    p_value = rare_gains_p_value(ClusterTotals.of(values), tolerance, scale=scale)

    assert p_value is None


@pytest.mark.parametrize(
    ("loss", "tolerance", "scale", "ratio"),
    [
        (0.05, 0.0, 1.0, 0.05),
        (0.05, 0.0, 2.0, 0.025),
        (0.06, 0.02, 1.0, 0.04 / 1.02),
    ],
)
def test_the_p_value_of_equal_losses_by_hand(
    loss: float, tolerance: float, scale: float, ratio: float
) -> None:
    twenty_losses = ClusterTotals.of([-loss] * 20)

    p_value = rare_gains_p_value(twenty_losses, tolerance, scale=scale)

    # P(E_0 >= ratio * sum(E_c)) of independent exponentials is (1 + ratio) ** -n.
    assert p_value == pytest.approx((1.0 + ratio) ** -20)


# --- values and options that cannot be


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300])
def test_a_value_that_is_no_usable_number_is_named_by_its_position(value: float) -> None:
    with pytest.raises(InputError, match="value 1 is"):
        ClusterTotals.of([0.0, value])


def test_an_interval_of_a_value_that_is_no_number_is_refused() -> None:
    with pytest.raises(InputError, match="value 0 is"):
        mean_interval([math.nan, 1.0])


def test_as_many_labels_as_values_are_needed() -> None:
    with pytest.raises(InputError, match="2 values and 1 cluster label:"):
        ClusterTotals.of([0.0, 1.0], ["a"])


def test_more_successes_than_trials_are_refused() -> None:
    with pytest.raises(InputError, match="3 successes of 2 trials"):
        proportion_interval(3, 2)


def test_a_value_below_the_bound_is_refused() -> None:
    with pytest.raises(InputError, match="below the smallest possible"):
        p_value_of([-1.5, 0.0], -0.1, lowest=-1.0)


@pytest.mark.parametrize(
    ("compute", "message"),
    [
        pytest.param(
            partial(mean_interval, [0.0, 1.0], confidence=1.0),
            "probability",
            id="a sure mean",
        ),
        pytest.param(
            partial(proportion_interval, 1, 2, 1.0),
            "confidence",
            id="a sure share",
        ),
        pytest.param(
            partial(proportion_interval, 1, 2, 0.0),
            "confidence",
            id="no confidence",
        ),
        pytest.param(
            partial(p_value_of, [0.0], -1.0),
            "every mean would do",
            id="limit at bound",
        ),
    ],
)
def test_an_option_that_cannot_be_is_refused(compute: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compute()
