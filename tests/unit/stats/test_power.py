from __future__ import annotations

import importlib
import math
from statistics import NormalDist, stdev
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import nct

from ragbench.errors import ConfigError
from ragbench.stats.clusters import ClusterTotals
from ragbench.stats.power import Spread, cases_to_settle, clusters_to_rule_out, detectable

UNIT = Spread(per_cluster=1.0, cluster_size=1.0)


@pytest.mark.extra("dev", package="statsmodels")
@pytest.mark.parametrize("clusters", [6, 10, 30, 200, 5000])
@pytest.mark.parametrize(("alpha", "power"), [(0.05, 0.8), (0.02, 0.9)])
def test_it_is_the_power_of_the_t_test(clusters: int, alpha: float, power: float) -> None:
    reference: Any = importlib.import_module("statsmodels.stats.power")
    expected = reference.TTestPower().solve_power(
        nobs=clusters, alpha=alpha, power=power, alternative="larger"
    )
    found = detectable(UNIT, clusters, alpha=alpha, power=power)
    assert found == pytest.approx(float(expected), rel=1e-4)


def test_too_few_clusters_can_show_nothing() -> None:
    # Four signs: 1/16 at best, above 5%.
    assert detectable(UNIT, 4) is None
    assert detectable(UNIT, 5) is not None
    assert detectable(UNIT, 7, alpha=0.05 / 8) is None


def test_the_spread_of_a_sample() -> None:
    totals = ClusterTotals.of([1.0, 0.0, 0.0, -1.0, 0.0, 1.0], [0, 0, 1, 1, 2, 2])
    spread, shifted = Spread.of(totals), Spread.of(totals, -0.15)
    assert spread is not None and shifted is not None and totals.standard_error is not None
    assert spread.per_cluster == pytest.approx(totals.standard_error * math.sqrt(3))
    assert (spread.cluster_size, spread.step, shifted.step) == (2.0, 1.0, 0.0)
    assert Spread.of(ClusterTotals.of([0.5, 0.5, 0.5])) is None
    assert Spread.of(ClusterTotals.of([0.5])) is None


def test_whole_numbers_lose_a_step() -> None:
    smooth, stepped = (
        detectable(UNIT, 50),
        detectable(Spread(per_cluster=1.0, cluster_size=1.0, step=1.0), 50),
    )
    assert smooth is not None and stepped == pytest.approx(smooth + 1 / 50)


@settings(deadline=None)
@given(st.floats(0.02, 3.0), st.floats(0.01, 2.0), st.floats(1.0, 9.0))
def test_without_a_scale_the_sample_is_the_first_that_detects(
    distance: float, per_cluster: float, size: float
) -> None:
    spread = Spread(per_cluster=per_cluster, cluster_size=size)
    needed = clusters_to_rule_out(distance, spread)
    assert needed is not None
    found, fewer = detectable(spread, needed), detectable(spread, needed - 1)
    assert found is not None and found <= distance
    assert fewer is None or fewer > distance


@pytest.mark.parametrize(("distance", "reach"), [(0.0, 1.0), (-0.1, None), (1e-9, None)])
def test_no_sample_settles_a_distance_of_nothing(distance: float, reach: float | None) -> None:
    assert clusters_to_rule_out(distance, UNIT, reach=reach) is None


def test_with_noise_ruling_out_takes_little_more_than_the_t_test() -> None:
    noisy = Spread(per_cluster=0.6, cluster_size=2.0)
    bounded, student = (clusters_to_rule_out(0.05, noisy, reach=each) for each in (0.95, None))
    # (1.645 + 0.842)^2 * (0.6 / 0.05)^2 = 890 clusters of two.
    assert student == 892
    assert bounded is not None and student < bounded < 1.1 * student


def test_out_of_range_is_refused() -> None:
    with pytest.raises(ConfigError, match="alpha"):
        detectable(UNIT, 10, alpha=0.0)
    with pytest.raises(ConfigError, match="power"):
        detectable(UNIT, 10, power=1.0)
    with pytest.raises(ConfigError, match="reach"):
        clusters_to_rule_out(0.1, UNIT, reach=0.0)


@pytest.mark.parametrize(("values", "step"), [
    ([-1.0, 0.0, 1.0, 0.0], 1.0), ([-1.0, 0.5, 0.0], 0.5), ([0.9, -0.6, 0.3], 0.3),
    ([-1.0, 0.3, 0.0], 0.0),  # 1 is no multiple of .3
    ([-1.0, 1e-12, 1.0], 1.0),  # what rounding leaves is no step
])  # fmt: skip
def test_a_step_is_the_smallest_move_that_all_others_are_multiples_of(
    values: list[float], step: float
) -> None:
    spread = Spread.of(ClusterTotals.of(values))
    assert spread is not None and spread.step == pytest.approx(step)


FEW = [-1.0] * 3 + [1.0] * 3 + [0.0] * 14
UNEVEN = [-0.3, 0.2, 0.45, -0.7, 0.1, 0.05, -0.25, 0.3, 0.0, 0.0]


@pytest.mark.parametrize(
    ("values", "tolerance"),
    [(FEW, 0.05), (FEW, 0.1), (UNEVEN, 0.02), ([-1.0, 1.0] + [0.0] * 4, 0.1)],
)
def test_what_settles_it_is_what_rules_it_out_with_the_spread_enlarged(
    values: list[float], tolerance: float
) -> None:
    """``n t - r - z(.8) s sqrt(n) >= z(.95) sqrt(n (s^2 + t^2) + r^2)``, by scipy's quantiles."""
    z_alpha, z_power = NormalDist().inv_cdf(0.95), NormalDist().inv_cdf(0.8)
    enlarged = float(nct.ppf(0.8, len(values) - 1, z_alpha)) / (z_alpha + z_power)
    s, reach = stdev(values) * max(1.0, enlarged), 1.0 - tolerance

    def is_enough(n: int) -> bool:
        left = n * tolerance - reach - z_power * s * math.sqrt(n)
        return left >= z_alpha * math.sqrt(n * (s**2 + tolerance**2) + reach**2)

    expected = next(n for n in range(2, 1_000_000) if is_enough(n))
    found = cases_to_settle(ClusterTotals.of(values), tolerance, largest_drop=1.0)
    assert found == max(expected, 2 * len(values))


def test_cases_that_move_as_one_count_as_one() -> None:
    labels = [f"document {at // 2}" for at in range(2 * len(FEW))]
    doubled = ClusterTotals.of([value for value in FEW for _ in range(2)], labels)
    single = cases_to_settle(ClusterTotals.of(FEW), 0.05, largest_drop=1.0)
    assert single is not None and cases_to_settle(doubled, 0.05, largest_drop=1.0) == 2 * single


@pytest.mark.parametrize(("values", "tolerance"), [([], 0.05), ([-0.5] * 3, 0.05), (FEW, 0.0)])
def test_without_a_spread_or_a_tolerance_no_number_settles_it(
    values: list[float], tolerance: float
) -> None:
    assert cases_to_settle(ClusterTotals.of(values), tolerance, largest_drop=1.0) is None
