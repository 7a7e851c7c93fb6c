"""What differences show, and how many cases would show it."""

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

WORSE = ChangeKind.WORSE
NOT_WORSE = ChangeKind.NOT_WORSE
CANNOT_TELL = ChangeKind.CANNOT_TELL

# Twelve cases that lost .37 in the mean.
DROPS = [-0.3, -0.4, -0.2, -0.5, -0.35, -0.45] * 2
# 24 cases that moved in either direction.
SPREAD = [0.2, -0.1, 0.1, 0.05, -0.05, 0.15, 0.1, 0.0] * 3


# --- one question


@pytest.mark.parametrize(
    ("differences", "tolerance", "largest_drop", "change"),
    [
        pytest.param(DROPS, 0.0, 1.0, WORSE, id="every case lost"),
        pytest.param(DROPS, 0.36, 1.0, CANNOT_TELL, id="lost about as much as tolerated"),
        # Of 20 cases that lose .012 each, one in fifty may gain .6: then nothing was lost.
        # ln(0.15) / ln(1.012) = -159.04
        pytest.param([-0.012] * 159, 0.0, 1.0, CANNOT_TELL, id="rare gains may be unseen"),
        pytest.param([-0.012] * 160, 0.0, 1.0, WORSE, id="rare gains would have been seen"),
        # 0.95^58 is above 5%, 0.95^59 below.
        pytest.param([0.0] * 58, 0.05, 1.0, CANNOT_TELL, id="58 unchanged cases: too few"),
        pytest.param([0.0] * 59, 0.05, 1.0, NOT_WORSE, id="59 unchanged cases: enough"),
        # Without a scale the spread decides; equal values have none, and nothing is claimed.
        pytest.param(SPREAD, 0.1, None, NOT_WORSE, id="no scale: the spread decides"),
        pytest.param([0.0] * 500, 0.1, None, CANNOT_TELL, id="no scale and no spread"),
        pytest.param([], 0.05, 1.0, CANNOT_TELL, id="no case"),
        pytest.param([-1.0], 0.05, 1.0, CANNOT_TELL, id="a single case"),
    ],
)
def test_what_the_differences_show(
    differences: list[float], tolerance: float, largest_drop: float | None, change: ChangeKind
) -> None:
    regression = question(differences, tolerance=tolerance, largest_drop=largest_drop)

    decision = decide(regression)

    assert decision.change is change


def test_a_loss_as_large_as_tolerated_is_none_whatever_rounding_does() -> None:
    case_ids = [f"q{number}" for number in range(50)]
    before = dict.fromkeys(case_ids, 0.8)
    after = dict.fromkeys(case_ids, 0.75)
    sample = pair(before, after)
    assert sample.differences[0] != -0.05  # in binary it is not

    decision = decide(RegressionQuestion(sample=sample, tolerance=0.05, largest_drop=1.0))

    assert decision.p_worse == 1.0
    assert decision.test.informative == 0
    assert decision.change is CANNOT_TELL
    assert decision.needed is None


# Few values, so that many samples have ties.
FEW_VALUES = [-1.0, -0.5, 0.0, 0.25, 1 / 3, 0.5, 1.0]
DIFFERENCES = st.lists(st.sampled_from(FEW_VALUES), max_size=60)
TOLERANCES = st.sampled_from([0.0, 0.02, 0.2])
SCALES = st.sampled_from([None, 1.0])


@settings(max_examples=40, deadline=None)
@given(DIFFERENCES, TOLERANCES, SCALES, st.randoms(use_true_random=False))
def test_the_order_of_the_cases_changes_no_decision(
    differences: list[float], tolerance: float, scale: float | None, source: random.Random
) -> None:
    shuffled = list(differences)
    source.shuffle(shuffled)

    in_order = question(differences, tolerance=tolerance, largest_drop=scale)
    out_of_order = question(shuffled, tolerance=tolerance, largest_drop=scale)

    decision = decide(in_order, resamples=200)
    decision_out_of_order = decide(out_of_order, resamples=200)

    assert decision_out_of_order == decision


@settings(max_examples=40, deadline=None)
@given(DIFFERENCES, TOLERANCES, SCALES)
def test_differences_never_show_a_loss_and_its_absence(
    differences: list[float], tolerance: float, scale: float | None
) -> None:
    regression = question(differences, tolerance=tolerance, largest_drop=scale)

    decision = decide(regression, resamples=200)

    assert 0.0 < decision.p_worse <= 1.0
    assert 0.0 <= decision.p_not_worse <= 1.0
    assert max(decision.p_worse, decision.p_not_worse) > 0.05


# --- a level of its own for what stands out from no change


# All cases lost: 1 in 2^5 and 1 in 2^6 by chance, on both sides of 0.02.
FIVE_LOST = question([-1.0] * 5, tolerance=0.1)
SIX_LOST = question([-1.0] * 6, tolerance=0.1)


def test_five_losses_are_worse_at_the_level_of_the_tolerance_alone() -> None:
    decision = decide(FIVE_LOST)

    assert decision.change is WORSE


def test_five_losses_cannot_stand_out_from_no_change_at_a_stricter_level() -> None:
    (decision,) = decide_family([FIVE_LOST], alpha_unchanged=0.02)

    assert decision.change is CANNOT_TELL
    assert not decision.can_show


def test_six_losses_stand_out_from_no_change_at_a_stricter_level() -> None:
    (decision,) = decide_family([SIX_LOST], alpha_unchanged=0.02)

    assert decision.change is WORSE
    assert decision.can_show


def detectable_drops(tolerance: float) -> tuple[float, float]:
    """The drop that can be detected at the level of the tolerance alone, and at both levels."""
    spread_question = question(SPREAD, tolerance=tolerance)
    from_tolerance = decide(spread_question).detectable_drop
    (decision,) = decide_family([spread_question], alpha_unchanged=0.02)
    assert from_tolerance is not None
    assert decision.detectable_drop is not None
    return from_tolerance, decision.detectable_drop


def test_a_stricter_level_decides_the_detectable_drop_beside_a_small_tolerance() -> None:
    from_tolerance, from_both = detectable_drops(tolerance=0.0)

    assert from_both > from_tolerance


def test_a_large_tolerance_decides_the_detectable_drop() -> None:
    from_tolerance, from_both = detectable_drops(tolerance=0.3)

    assert from_both == from_tolerance


# --- several questions


def test_a_metric_in_which_nothing_moved_makes_no_correction_stricter() -> None:
    drop = question([-0.5, -0.6, -0.4, -0.7, -0.55, -0.65])
    still = question([0.0] * 80, tolerance=0.0)

    decision, *_ = decide_family([drop, still, still, still])

    assert decision.p_worse == decide(drop).p_worse
    assert decision.family == 1
    assert decision.change is WORSE


def test_no_question_has_no_decision() -> None:
    assert decide_family([]) == ()


# --- questions that cannot be answered


@pytest.mark.parametrize(
    ("tolerance", "scale"),
    [
        pytest.param(-0.1, 1.0, id="below 0"),
        pytest.param(1.0, 1.0, id="as much as a case can lose"),
        pytest.param(math.nan, 1.0, id="no number"),
        pytest.param(0.1, math.inf, id="an infinite scale"),
    ],
)
def test_a_tolerance_that_decides_nothing_is_refused(tolerance: float, scale: float) -> None:
    with pytest.raises(ConfigError, match="tolerance"):
        decide(question([0.0], tolerance=tolerance, largest_drop=scale))


def test_a_difference_beyond_the_scale_is_refused() -> None:
    with pytest.raises(InputError, match="below the smallest possible"):
        decide(question([-3.0, 0.0], tolerance=0.05, largest_drop=1.0))


UNIT = Spread(per_cluster=1.0, cluster_size=1.0)


@pytest.mark.parametrize(
    ("plan", "option"),
    [
        pytest.param(partial(detectable, UNIT, 10, alpha=0.0), "alpha", id="a level of 0"),
        pytest.param(partial(detectable, UNIT, 10, power=1.0), "power", id="a power of 1"),
        pytest.param(
            partial(clusters_to_rule_out, 0.1, UNIT, reach=0.0),
            "reach",
            id="a reach of 0",
        ),
    ],
)
def test_an_option_of_a_plan_that_cannot_be_is_named(
    plan: Callable[[], object], option: str
) -> None:
    with pytest.raises(ConfigError, match=option):
        plan()


# --- the drop that can be detected


@pytest.mark.extra("dev", package="statsmodels")
@pytest.mark.parametrize("clusters", [6, 10, 30, 200, 5000])
@pytest.mark.parametrize(("alpha", "power"), [(0.05, 0.8), (0.02, 0.9)])
def test_it_is_the_power_of_the_t_test(clusters: int, alpha: float, power: float) -> None:
    reference: Any = importlib.import_module("statsmodels.stats.power")
    expected = reference.TTestPower().solve_power(
        nobs=clusters, alpha=alpha, power=power, alternative="larger"
    )

    drop = detectable(UNIT, clusters, alpha=alpha, power=power)

    assert drop == pytest.approx(float(expected), rel=1e-4)


@pytest.mark.parametrize(
    ("clusters", "alpha", "can_show"),
    [
        # The most extreme of all signs: 1/16, above 5%.
        pytest.param(4, 0.05, False, id="four signs"),
        pytest.param(5, 0.05, True, id="five signs"),
        # 1/128, above 5% / 8; 1/256 is below.
        pytest.param(7, 0.05 / 8, False, id="seven signs at an eighth of the level"),
        pytest.param(8, 0.05 / 8, True, id="eight signs at an eighth of the level"),
    ],
)
def test_too_few_clusters_can_show_nothing(clusters: int, alpha: float, can_show: bool) -> None:
    drop = detectable(UNIT, clusters, alpha=alpha)

    assert (drop is not None) is can_show


def test_whole_numbers_lose_a_step() -> None:
    smooth = detectable(UNIT, 50)
    stepped = detectable(replace(UNIT, step=1.0), 50)

    assert smooth is not None
    assert stepped == pytest.approx(smooth + 1 / 50)


# --- the spread of a sample


# Values and clusters, whose sums are 1, -1 and 1.
TWO_CASES_IN_EACH_OF_THREE = (
    [1.0, 0.0, 0.0, -1.0, 0.0, 1.0],
    [0, 0, 1, 1, 2, 2],
)


def test_the_spread_of_clusters_of_two() -> None:
    totals = ClusterTotals.of(*TWO_CASES_IN_EACH_OF_THREE)

    spread = Spread.of(totals)

    assert spread is not None
    assert totals.standard_error is not None
    assert spread.per_cluster == pytest.approx(totals.standard_error * math.sqrt(3))
    assert spread.cluster_size == 2.0
    assert spread.step == 1.0


def test_totals_around_a_null_mean_between_the_steps_have_no_step() -> None:
    # 1.3, -0.7 and 1.3: .7 does not divide 1.3.
    totals = ClusterTotals.of(*TWO_CASES_IN_EACH_OF_THREE)

    spread = Spread.of(totals, -0.15)

    assert spread is not None
    assert spread.step == 0.0


@pytest.mark.parametrize("values", [[0.5, 0.5, 0.5], [0.5]], ids=["equal values", "one value"])
def test_values_that_do_not_differ_have_no_spread(values: list[float]) -> None:
    assert Spread.of(ClusterTotals.of(values)) is None


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

    assert spread is not None
    assert spread.step == pytest.approx(step)


# --- the sample that rules a drop out


@settings(deadline=None)
@given(st.floats(0.02, 3.0), st.floats(0.01, 2.0), st.floats(1.0, 9.0))
def test_without_a_scale_the_sample_is_the_first_that_detects(
    distance: float, per_cluster: float, size: float
) -> None:
    spread = Spread(per_cluster=per_cluster, cluster_size=size)

    needed = clusters_to_rule_out(distance, spread)

    assert needed is not None
    detected = detectable(spread, needed)
    detected_by_fewer = detectable(spread, needed - 1)
    assert detected is not None
    assert detected <= distance
    assert detected_by_fewer is None or detected_by_fewer > distance


@pytest.mark.parametrize(
    ("distance", "reach"),
    [
        pytest.param(0.0, 1.0, id="no distance"),
        pytest.param(-0.1, None, id="a negative distance"),
        pytest.param(1e-9, None, id="a sample beyond all use"),
    ],
)
def test_no_sample_settles_a_distance_of_nothing(distance: float, reach: float | None) -> None:
    assert clusters_to_rule_out(distance, UNIT, reach=reach) is None


def test_with_noise_ruling_out_takes_little_more_than_the_t_test() -> None:
    noisy = Spread(per_cluster=0.6, cluster_size=2.0)

    bounded = clusters_to_rule_out(0.05, noisy, reach=0.95)
    student = clusters_to_rule_out(0.05, noisy)

    # (1.645 + 0.842)^2 * (0.6 / 0.05)^2 = 890 clusters of two.
    assert student == 892
    assert bounded is not None
    assert 892 < bounded < 1.1 * 892


# --- the cases that settle a question


FEW = [-1.0] * 3 + [1.0] * 3 + [0.0] * 14
UNEVEN = [-0.3, 0.2, 0.45, -0.7, 0.1, 0.05, -0.25, 0.3, 0.0, 0.0]


@pytest.mark.parametrize(
    ("values", "tolerance"),
    [
        (FEW, 0.05),
        (FEW, 0.1),
        (UNEVEN, 0.02),
        ([-1.0, 1.0] + [0.0] * 4, 0.1),
    ],
)
def test_a_question_is_settled_by_what_rules_a_drop_out_with_the_spread_enlarged(
    values: list[float], tolerance: float
) -> None:
    """``n t - r - z(.8) s sqrt(n) >= z(.95) sqrt(n (s^2 + t^2) + r^2)``, by scipy's quantiles."""
    z_alpha = NormalDist().inv_cdf(0.95)
    z_power = NormalDist().inv_cdf(0.8)
    factor = float(nct.ppf(0.8, len(values) - 1, z_alpha)) / (z_alpha + z_power)
    spread = stdev(values) * max(1.0, factor)
    reach = 1.0 - tolerance

    def is_enough(cases: int) -> bool:
        noise = z_power * spread * math.sqrt(cases)
        shown = cases * tolerance - reach - noise
        squares = cases * (spread**2 + tolerance**2) + reach**2
        return shown >= z_alpha * math.sqrt(squares)

    expected = 2
    while not is_enough(expected):
        expected += 1

    needed = cases_to_settle(ClusterTotals.of(values), tolerance, largest_drop=1.0)

    # Never fewer than twice the cases at hand.
    assert needed == max(expected, 2 * len(values))


def test_cases_that_move_together_count_once() -> None:
    doubled_values: list[float] = []
    documents: list[str] = []
    for number, value in enumerate(FEW):
        doubled_values += [value, value]
        documents += [f"document {number}"] * 2

    totals = ClusterTotals.of(FEW)
    doubled_totals = ClusterTotals.of(doubled_values, documents)

    alone = cases_to_settle(totals, 0.05, largest_drop=1.0)
    doubled = cases_to_settle(doubled_totals, 0.05, largest_drop=1.0)

    assert alone is not None
    assert doubled == 2 * alone


@pytest.mark.parametrize(
    ("values", "tolerance"),
    [
        pytest.param([], 0.05, id="no case"),
        pytest.param([-0.5] * 3, 0.05, id="no spread"),
        pytest.param(FEW, 0.0, id="no tolerance"),
    ],
)
def test_without_a_spread_or_a_tolerance_no_number_settles_it(
    values: list[float], tolerance: float
) -> None:
    needed = cases_to_settle(ClusterTotals.of(values), tolerance, largest_drop=1.0)

    assert needed is None
