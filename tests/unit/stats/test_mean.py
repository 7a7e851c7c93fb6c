from __future__ import annotations

import importlib
import math
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from ragbench.errors import ConfigError, InputError
from ragbench.stats.clusters import ClusterTotals, cluster_codes
from ragbench.stats.mean import mean_interval, proportion_interval, student_p_value

VALUES = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30)


def test_independent_values_are_the_textbook_interval() -> None:
    stats: Any = importlib.import_module("scipy.stats")
    values = [0.2, 0.9, 0.4, 0.7, 0.5, 0.3]
    interval = mean_interval(values)
    low, high = stats.t.interval(0.95, 5, loc=0.5, scale=interval.standard_error)
    assert interval.mean == pytest.approx(0.5)
    assert (interval.low, interval.high) == pytest.approx((low, high))


def test_copies_of_a_case_in_its_cluster_add_nothing() -> None:
    values = [0.2, 0.9, 0.4, 0.7]
    once = mean_interval(values)
    often = mean_interval(values * 5, [0, 1, 2, 3] * 5)
    assert (often.low, often.high) == pytest.approx((once.low, once.high))
    assert (often.cases, often.clusters) == (20, 4)
    careless = mean_interval(values * 5)
    assert careless.standard_error is not None and once.standard_error is not None
    assert careless.standard_error < once.standard_error / 2


@pytest.mark.parametrize(
    ("values", "clusters"),
    [([], None), ([0.5], None), ([0.5, 0.7], ["a", "a"]), ([1.0, 1.0, 1.0], None)],
)
def test_no_interval_where_the_data_hold_none(
    values: list[float], clusters: list[str] | None
) -> None:
    interval = mean_interval(values, clusters)
    assert (interval.low, interval.high) == (None, None)


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


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InputError):
        mean_interval([float("nan"), 1.0])
    with pytest.raises(InputError, match="3 successes of 2 trials"):
        proportion_interval(3, 2)
    for confidence in (1.0, 0.0):
        with pytest.raises(ConfigError, match="confidence"):
            mean_interval([0.0, 1.0], confidence=confidence)
        with pytest.raises(ConfigError, match="confidence"):
            proportion_interval(1, 2, confidence)


def test_without_a_spread_a_p_value_is_a_half() -> None:
    for values in ([], [0.5], [0.5, 0.5, 0.5]):
        assert student_p_value(ClusterTotals.of(values), -1.0) == 0.5


UNSEEN = 0.025**0.5
"""Of two equal values so much of the way to each end is left."""


@pytest.mark.parametrize(
    ("value", "bounds", "low", "high"),
    [(0.0, (-1.0, 3.0), -1.0 + UNSEEN, 3.0 - 3.0 * UNSEEN), (1.0, (0.0, 1.0), UNSEEN, 1.0),
     (2.0, (1.0, 3.0), 1.0 + UNSEEN, 3.0 - UNSEEN)],
)  # fmt: skip
def test_equal_values_on_a_scale_that_does_not_begin_at_zero(
    value: float, bounds: tuple[float, float], low: float, high: float
) -> None:
    found = mean_interval([value, value], bounds=bounds)
    assert (found.low, found.high) == pytest.approx((low, high))


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
    assert totals.shifted(0.5) == (4.0, 6.5)


@pytest.mark.extra("dev", package="statsmodels")
def test_standard_error_is_that_of_a_regression_with_clustered_errors() -> None:
    import numpy as np

    models: Any = importlib.import_module("statsmodels.regression.linear_model")
    draw = np.random.default_rng(3)
    codes = [int(code) for code in draw.integers(0, 12, 60)]
    values = [float(value) for value in draw.normal(size=60) + np.array(codes) / 5]
    fitted = models.OLS(np.array(values), np.ones(60)).fit(
        cov_type="cluster", cov_kwds={"groups": np.array(codes)}
    )
    assert ClusterTotals.of(values, codes).standard_error == pytest.approx(float(fitted.bse[0]))


def test_one_cluster_or_none_has_no_standard_error() -> None:
    assert ClusterTotals.of([]).standard_error is None
    assert ClusterTotals.of([]).mean is None
    assert ClusterTotals.of([1.0]).standard_error is None
    assert ClusterTotals.of([1.0, 2.0], ["a", "a"]).standard_error is None


def test_equal_values_have_no_spread_though_their_sum_is_rounded() -> None:
    assert ClusterTotals.of([0.1] * 7).standard_error == 0.0
    assert ClusterTotals.of([0.1] * 7, [0, 0, 0, 1, 2, 2, 3]).standard_error == 0.0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e300])
def test_what_cannot_be_computed_with_is_refused_with_its_place(bad: float) -> None:
    with pytest.raises(InputError, match="value 1 is"):
        ClusterTotals.of([0.0, bad])


def test_labels_must_match() -> None:
    with pytest.raises(InputError, match="2 values and 1 cluster labels"):
        ClusterTotals.of([0.0, 1.0], ["a"])


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
    assert of_four.shifted(0.0) == (0.0,)
    assert of_four.shifted(0.125) == (1.5,)
    assert of_four.shifted(-1.0) == (-3.0,)
