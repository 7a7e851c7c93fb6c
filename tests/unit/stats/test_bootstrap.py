from __future__ import annotations

import importlib
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import ConfigError, InputError
from ragbench.stats.bootstrap import bootstrap_interval, bootstrap_intervals
from ragbench.stats.clusters import ClusterTotals
from ragbench.stats.interval import IntervalMethod

SKEWED = [float(value) for value in np.random.default_rng(1).exponential(size=60)]


@pytest.mark.parametrize("method", [IntervalMethod.PERCENTILE, IntervalMethod.BCA])
def test_independent_values_are_the_interval_of_scipy(method: IntervalMethod) -> None:
    stats: Any = importlib.import_module("scipy.stats")
    expected = stats.bootstrap(
        (np.array(SKEWED),),
        np.mean,
        n_resamples=40_000,
        method="BCa" if method is IntervalMethod.BCA else "percentile",
        rng=np.random.default_rng(2),
        vectorized=True,
    ).confidence_interval
    found = bootstrap_interval(SKEWED, method=method, resamples=40_000)
    assert found.method is method
    assert found.low == pytest.approx(float(expected.low), abs=0.02)
    assert found.high == pytest.approx(float(expected.high), abs=0.02)


def test_bca_leans_to_the_long_tail() -> None:
    plain = bootstrap_interval(SKEWED, method=IntervalMethod.PERCENTILE)
    leaning = bootstrap_interval(SKEWED)
    assert plain.low is not None
    assert plain.high is not None
    assert leaning.low is not None
    assert leaning.high is not None
    assert leaning.low > plain.low
    assert leaning.high > plain.high


def test_whole_clusters_are_resampled() -> None:
    copies = bootstrap_interval(SKEWED * 4, list(range(60)) * 4)
    once = bootstrap_interval(SKEWED)
    assert (copies.low, copies.high) == pytest.approx((once.low, once.high))
    assert copies.clusters == 60


def test_the_same_numbers_for_a_seed() -> None:
    first = bootstrap_interval(SKEWED, seed=3)
    assert first == bootstrap_interval(SKEWED, seed=3)
    assert first.low != bootstrap_interval(SKEWED, seed=4).low


def test_few_clusters_fall_back_to_student_and_say_so() -> None:
    interval = bootstrap_interval(SKEWED[:19])
    assert interval.method is IntervalMethod.STUDENT
    assert "19 clusters are too few" in interval.note


def test_a_cut_outside_the_resamples_falls_back_to_percentiles_and_says_so() -> None:
    # One value outweighs all others: the acceleration is as large as it can be.
    interval = bootstrap_interval([0.0] * 24 + [1.0], confidence=0.999, resamples=200)
    assert interval.method is IntervalMethod.PERCENTILE
    assert "percentiles" in interval.note


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 30])
def test_no_interval_where_the_data_hold_none(values: list[float]) -> None:
    interval = bootstrap_interval(values)
    assert (interval.low, interval.high, interval.method) == (None, None, IntervalMethod.NONE)
    assert interval.note


@settings(max_examples=20)
@given(st.lists(st.floats(-1.0, 1.0), min_size=25, max_size=40), st.randoms(use_true_random=False))
def test_order_does_not_matter_and_the_ends_are_in_order(
    values: list[float], chance: random.Random
) -> None:
    shuffled = list(values)
    chance.shuffle(shuffled)
    first, second = (bootstrap_interval(each, resamples=200) for each in (values, shuffled))
    assert first == second
    if first.low is not None and first.high is not None:
        assert min(values) - 1e-9 <= first.low <= first.high <= max(values) + 1e-9


def test_intervals_that_share_their_draws_are_those_alone() -> None:
    samples = [SKEWED, SKEWED[:30], [-value for value in SKEWED], SKEWED[:3]]
    together = bootstrap_intervals([ClusterTotals.of(each) for each in samples], resamples=300)
    assert list(together) == [bootstrap_interval(each, resamples=300) for each in samples]


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError):
        bootstrap_interval([float("inf")] * 30)
    with pytest.raises(ConfigError, match="at least 100"):
        bootstrap_interval(SKEWED, resamples=10)
    with pytest.raises(ConfigError, match="bca"):
        bootstrap_interval(SKEWED, method=IntervalMethod.STUDENT)
    with pytest.raises(ConfigError, match="confidence"):
        bootstrap_interval(SKEWED, confidence=0.0)
