"""What differences show, and how many would show it."""

from __future__ import annotations

import importlib
import math
import random
from collections.abc import Callable
from functools import partial
from statistics import NormalDist, stdev
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import nct

from ragbench import RegressionQuestion, decide, pair
from ragbench.core.record import replace
from ragbench.errors import ConfigError, InputError
from ragbench.stats.decide import ChangeKind, decide_family
from ragbench.stats.mean import ClusterTotals
from ragbench.stats.power import Spread, cases_to_settle, clusters_to_rule_out, detectable
from tests.unit.stats.builders import question

DROPS = [-0.3, -0.4, -0.2, -0.5, -0.35, -0.45] * 2
SPREAD = [0.2, -0.1, 0.1, 0.05, -0.05, 0.15, 0.1, 0.0] * 3
WORSE, NOT_WORSE, CANNOT_TELL = ChangeKind.WORSE, ChangeKind.NOT_WORSE, ChangeKind.CANNOT_TELL


@pytest.mark.parametrize(
    ("differences", "tolerance", "largest_drop", "change"),
    [
        (DROPS, 0.0, 1.0, WORSE),
        (DROPS, 0.36, 1.0, CANNOT_TELL),
        # Of 20 cases that lose .012 each, one in fifty may gain .6: then nothing was lost.
        # ln(0.15) / ln(1.012) = -159.04
        ([-0.012] * 159, 0.0, 1.0, CANNOT_TELL),
        ([-0.012] * 160, 0.0, 1.0, WORSE),
        # 0.95^58 is above 5%, 0.95^59 below.
        ([0.0] * 58, 0.05, 1.0, CANNOT_TELL),
        ([0.0] * 59, 0.05, 1.0, NOT_WORSE),
        # Without a scale the spread decides; of equal values none is seen, and nothing claimed.
        (SPREAD, 0.1, None, NOT_WORSE),
        ([0.0] * 500, 0.1, None, CANNOT_TELL),
        ([], 0.05, 1.0, CANNOT_TELL),
        ([-1.0], 0.05, 1.0, CANNOT_TELL),
    ],
)
def test_what_the_differences_show(
    differences: list[float], tolerance: float, largest_drop: float | None, change: ChangeKind
) -> None:
    asked = question(differences, tolerance=tolerance, largest_drop=largest_drop)
    assert decide(asked).change is change


def test_a_loss_must_stand_out_from_no_change_at_a_level_of_its_own() -> None:
    five_lost = question([-1.0] * 5, tolerance=0.1, largest_drop=1.0)  # by chance in 1 of 32
    six_lost = question([-1.0] * 6, tolerance=0.1, largest_drop=1.0)  # in 1 of 64
    assert decide(five_lost).change is WORSE
    (five,) = decide_family([five_lost], alpha_unchanged=0.02)
    (six,) = decide_family([six_lost], alpha_unchanged=0.02)
    assert (five.change, five.can_show) == (CANNOT_TELL, False)
    assert (six.change, six.can_show) == (WORSE, True)


def test_a_detectable_drop_stands_out_from_no_change_too() -> None:
    """A tolerance that is small beside the spread makes the second level decide."""
    small = question(SPREAD, tolerance=0.0)
    large = question(SPREAD, tolerance=0.3)
    for asked, is_larger in ((small, True), (large, False)):
        alone = decide(asked).detectable_drop
        (both,) = decide_family([asked], alpha_unchanged=0.02)
        assert alone is not None and both.detectable_drop is not None
        assert (both.detectable_drop > alone) is is_larger


def test_a_loss_as_large_as_tolerated_is_none_whatever_rounding_does() -> None:
    before = dict.fromkeys(map(str, range(50)), 0.8)
    sample = pair(before, dict.fromkeys(before, 0.75))
    assert sample.differences[0] != -0.05  # in binary it is not
    decision = decide(RegressionQuestion(sample=sample, tolerance=0.05, largest_drop=1.0))
    assert (decision.p_worse, decision.test.informative) == (1.0, 0)
    assert decision.change is ChangeKind.CANNOT_TELL
    assert decision.needed is None


def test_what_cannot_find_anything_makes_no_correction_stricter() -> None:
    drop = question([-0.5, -0.6, -0.4, -0.7, -0.55, -0.65])
    still = question([0.05 - 0.05] * 80, tolerance=0.0)
    alone = decide(drop)
    together = decide_family([drop, still, still, still])
    assert (together[0].p_worse, together[0].family) == (alone.p_worse, 1)
    assert together[0].change is ChangeKind.WORSE
    assert decide_family([]) == ()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1 / 3, 0.5, 1.0]), max_size=60),
    st.sampled_from([0.0, 0.02, 0.2]),
    st.sampled_from([None, 1.0]),
    st.randoms(use_true_random=False),
)
def test_whatever_the_data(
    differences: list[float], tolerance: float, scale: float | None, chance: random.Random
) -> None:
    shuffled = list(differences)
    chance.shuffle(shuffled)
    first, second = (
        decide(question(each, tolerance=tolerance, largest_drop=scale), resamples=200)
        for each in (differences, shuffled)
    )
    assert first == second
    assert 0.0 <= first.p_not_worse <= 1.0
    assert 0.0 < first.p_worse <= 1.0
    # The data never show both.
    assert first.p_worse > 0.05 or first.p_not_worse > 0.05


UNIT = Spread(per_cluster=1.0, cluster_size=1.0)


@pytest.mark.parametrize(
    ("work", "message"),
    [
        *(
            (partial(question, [0.0], tolerance=tolerance, largest_drop=scale), "tolerance")
            for tolerance, scale in ((-0.1, 1.0), (1.0, 1.0), (math.nan, 1.0), (0.1, math.inf))
        ),
        (partial(question, [-3.0, 0.0], tolerance=0.05), "below the smallest possible"),
        (partial(detectable, UNIT, 10, alpha=0.0), "alpha"),
        (partial(detectable, UNIT, 10, power=1.0), "power"),
        (partial(clusters_to_rule_out, 0.1, UNIT, reach=0.0), "reach"),
    ],
)
def test_what_cannot_be_answered_is_refused(work: Callable[[], Any], message: str) -> None:
    with pytest.raises((ConfigError, InputError), match=message):
        decide(work())


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
    smooth, stepped = (detectable(replace(UNIT, step=step), 50) for step in (0.0, 1.0))
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


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([-1.0, 0.0, 1.0, 0.0], 1.0),
        ([-1.0, 0.5, 0.0], 0.5),
        ([0.9, -0.6, 0.3], 0.3),
        ([-1.0, 0.3, 0.0], 0.0),  # 1 is no multiple of .3
        ([-1.0, 1e-12, 1.0], 1.0),  # what rounding leaves is no step
    ],
)
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
