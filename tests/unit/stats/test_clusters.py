from __future__ import annotations

import importlib
import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.errors import InputError
from ragbench.stats.clusters import ClusterTotals, cluster_codes

VALUES = st.lists(st.floats(-1e6, 1e6), max_size=30)


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


@given(VALUES, st.randoms(use_true_random=False))
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
