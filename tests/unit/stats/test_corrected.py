"""A judge's figures, corrected by labels: by hand, against ppi-python, and by simulation."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from ragbench.errors import InputError
from ragbench.stats.corrected import Corrected, Plan, corrected_difference, corrected_mean

Labels = list[float | None]
"""What people said of each case; None where nobody was asked."""

JUDGED = [1.0, 1.0, 0.0, 0.0, 1.0, 0.0]
LABELS: Labels = [1.0, 0.0, 0.0, 0.0, None, None]


def mean_of(judged: list[float], labels: Labels, clusters: list[int] | None = None) -> Corrected:
    """The estimate of a mean, where there is one."""
    estimate = corrected_mean(judged, labels, clusters)
    assert estimate is not None
    return estimate


def difference_of(judged: list[float], labels: Labels, same: list[bool] | None = None) -> Corrected:
    estimate = corrected_difference(judged, labels, same=same or [])
    assert estimate is not None
    return estimate


def interval(estimate: Corrected) -> tuple[float, float]:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low, estimate.high


# --- a mean


def test_a_mean_by_hand() -> None:
    estimate = mean_of(JUDGED, LABELS)

    # Slope .5; residuals .5, -.5, 0, 0 have the mean 0; the judge's mean is .5.
    assert estimate.mean == pytest.approx(0 + 0.5 * 0.5)
    # .5^2 * .25 / 6 + .5 / (4 * 2)
    assert estimate.standard_error == pytest.approx(math.sqrt(7 / 96))
    assert estimate.correlation == pytest.approx(1 / math.sqrt(3))
    assert estimate.cases == 6
    assert estimate.labels == 4
    assert estimate.degrees == 2


def test_four_labels_show_no_interval() -> None:
    estimate = mean_of(JUDGED, LABELS)

    assert (estimate.low, estimate.high) == (None, None)
    assert estimate.p_above(0.0) == 0.5


def test_five_labels_show_an_interval() -> None:
    five_labels: Labels = [1.0, 0.0, 0.0, 0.0, 1.0, None]

    estimate = mean_of(JUDGED, five_labels)

    low, high = interval(estimate)
    assert 0 <= low < high <= 1


@pytest.mark.parametrize("judged", [[], [1.0]], ids=["no case", "no label"])
def test_without_a_label_there_is_no_estimate(judged: list[float]) -> None:
    no_labels: Labels = [None] * len(judged)

    assert corrected_mean(judged, no_labels) is None
    assert corrected_difference(judged, no_labels) is None


HALF_LABELLED: Labels = [1.0, 0.0, 1.0, 0.0, 1.0, 0.0, *[None] * 6]


@pytest.mark.parametrize(
    ("judged", "labels", "expected"),
    [
        pytest.param(
            [1.0] * 12,
            HALF_LABELLED,
            0.5,
            id="a judge that never varies: the labels' own mean",
        ),
        pytest.param(
            [1.0, 0.0] * 6,
            [*[1.0] * 6, *[None] * 6],
            1.0,
            id="labels that all agree: an interval",
        ),
        # Half of the six labelled ones and all six others: 9 of 12.
        pytest.param(
            [1.0, 0.0, 1.0, 0.0, 1.0, 0.0, *[1.0] * 6],
            HALF_LABELLED,
            0.75,
            id="a judge that is right about every label: believed about the others",
        ),
    ],
)
def test_means_and_intervals(judged: list[float], labels: Labels, expected: float) -> None:
    estimate = mean_of(judged, labels)

    low, high = interval(estimate)
    assert estimate.mean == pytest.approx(expected)
    assert 0 <= low < high <= 1


def test_cases_of_a_cluster_are_one_observation() -> None:
    judged = [1.0, 0.0, 0.0, 1.0, 1.0, 0.0] * 5
    labels: Labels = [1.0, 0.0, 1.0, None, None, None] * 5
    # The same 30 cases, each of them three times in a cluster: 0 to 29, 0 to 29, 0 to 29.
    clusters = list(range(30)) * 3

    alone = mean_of(judged, labels)
    tripled = mean_of(judged * 3, labels * 3, clusters)

    assert alone.labels == 15
    assert tripled.labels == 45
    assert tripled.degrees == alone.degrees
    assert tripled.standard_error == pytest.approx(alone.standard_error)
    assert interval(tripled) == pytest.approx(interval(alone))


@pytest.mark.parametrize(("count", "seed"), [(30, 4), (80, 2)])
def test_prediction_powered_inference_agrees(count: int, seed: int) -> None:
    """The formulas of ppi-python 0.2.3, which it was held against: it brings a package `tests`."""
    draw = np.random.default_rng(seed)
    people = draw.normal(size=600)
    noise = draw.normal(size=600)
    judge = 0.7 * people + 0.6 * noise + 0.3
    # The judge's scores of labelled cases and of the others, which there have no case in common:
    # this changes the weight alone.
    people_labelled = people[:count]
    judge_labelled = judge[:count]
    judge_unlabelled = judge[count:]
    covariance = np.cov(people_labelled, judge_labelled)[0, 1]
    slope = covariance / judge_labelled.var(ddof=1)
    weight = slope * (1 - count / 600)
    rectifier = people_labelled - weight * judge_labelled
    # That the slope is an estimate, too, they leave out.
    distance = judge.mean() - judge_labelled.mean()
    slope_factor = 1 + distance**2 / judge_labelled.var()
    variance_of_labels = slope_factor * rectifier.var() / count
    variance_of_scores = (weight * judge_unlabelled).var() / len(judge_unlabelled)
    error = math.sqrt(variance_of_labels + variance_of_scores)

    labels: Labels = [*people_labelled, *[None] * (600 - count)]
    estimate = corrected_mean(list(judge), labels, bounds=None)

    assert estimate is not None
    low, high = interval(estimate)
    mean = weight * judge_unlabelled.mean() + rectifier.mean()
    assert estimate.mean == pytest.approx(mean)
    # Theirs has the quantile of the normal distribution, ours that of Student's t.
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.1)


# --- a difference


def test_the_same_answers_are_no_difference_without_a_label() -> None:
    judged = [1.0, 0.0, -1.0, 1.0] * 5
    labels: Labels = [1.0, 0.0, 0.0, None] * 5
    # Twenty more cases, to which both systems gave the same answer.
    same = [False] * 20 + [True] * 20

    different = difference_of(judged, labels)
    judged_with_the_same = judged + [0.0] * 20
    labels_with_the_same = labels + [None] * 20
    half_the_same = difference_of(judged_with_the_same, labels_with_the_same, same)

    assert half_the_same.mean == pytest.approx(different.mean / 2)
    assert half_the_same.standard_error < different.standard_error


# Forty cases in which the judge saw no difference; twenty of them are labelled.
NONE_JUDGED = [0.0] * 40
NONE_LABELLED: Labels = [*[0.0] * 20, *[None] * 20]


def test_twenty_labels_without_a_difference_leave_a_sixth_of_the_cases_open() -> None:
    estimate = difference_of(NONE_JUDGED, NONE_LABELLED)

    assert estimate.mean == 0.0
    # 0.025^(1/20) = 1 - 0.1684
    assert interval(estimate) == pytest.approx((-0.1684, 0.1684), abs=1e-4)


def test_a_p_value_is_small_where_the_limit_is_far_below_the_interval() -> None:
    estimate = difference_of(NONE_JUDGED, NONE_LABELLED)

    assert estimate.p_above(0.2) > 0.98
    assert estimate.p_above(0.0) == 0.5
    assert estimate.p_above(-0.2) < 0.02


def test_the_error_is_at_least_that_of_one_more_difference() -> None:
    """A single label of twenty saw one: its own variance would be smaller."""
    labels: Labels = [0.5, *NONE_LABELLED[1:]]

    estimate = difference_of(NONE_JUDGED, labels)

    assert estimate.standard_error == pytest.approx(1 / 20)


# --- what is refused


def test_labels_of_another_length_are_refused() -> None:
    with pytest.raises(InputError, match="one label, or None"):
        corrected_mean([1.0, 0.0], [1.0])


def test_clusters_of_another_length_are_refused() -> None:
    with pytest.raises(InputError, match="one cluster for each"):
        corrected_mean([1.0, 0.0], [1.0, None], ["document"])


def test_a_label_that_is_no_number_is_refused() -> None:
    with pytest.raises(InputError, match="finite"):
        corrected_mean([1.0, 0.0], [math.nan, None])


def test_a_score_that_is_no_number_is_refused() -> None:
    with pytest.raises(InputError, match="finite"):
        corrected_mean([math.inf, 0.0], [1.0, None])


# --- how many labels are needed


@pytest.mark.parametrize(
    ("labels", "chance"),
    [
        (4, 0.0),
        (60, 0.447),
        (100, 0.600),
        (197, 0.801),
    ],
)
def test_more_labels_show_a_margin_more_often(labels: int, chance: float) -> None:
    plan = Plan(margin=0.1, deviation=0.6, correlation=0.6, cases=300)

    assert plan.chance(labels) == pytest.approx(chance, abs=0.001)


def test_as_many_labels_are_needed_as_show_a_margin_four_times_of_five() -> None:
    plan = Plan(margin=0.1, deviation=0.6, correlation=0.6, cases=300)

    assert plan.needed == 197
    assert plan.chance(196) < 0.8 <= plan.chance(197)


def test_a_margin_that_all_cases_labelled_would_not_show_needs_no_number() -> None:
    plan = Plan(margin=0.01, deviation=0.6, correlation=0.6, cases=300)

    assert plan.needed is None


def test_a_margin_of_nothing_is_never_shown() -> None:
    plan = Plan(margin=0.0, deviation=0.6, correlation=0.6, cases=300)

    assert plan.chance(300) == 0.0


# --- simulations


def coverage(
    draws: int, count: int, rate: float, misses: float, false_alarms: float, clustered: bool
) -> float:
    """The share of draws whose interval of 200 cases holds the true rate.

    Args:
        count: labels in each draw.
        misses: how often the judge says 0 where people say 1.
        false_alarms: how often it says 1 where people say 0.
        clustered: whether every two cases are the same to people.
    """
    source = random.Random(count * 7 + round(rate * 100))
    covered = 0
    for _ in range(draws):
        people: list[float] = []
        judge: list[float] = []
        clusters: list[int] = []
        for case in range(200):
            if clustered and case % 2:
                people.append(people[-1])
                clusters.append(clusters[-1])
            else:
                people.append(float(source.random() < rate))
                clusters.append(case)
            truth = people[-1]
            error_rate = misses if truth else false_alarms
            is_wrong = source.random() < error_rate
            judge.append(1 - truth if is_wrong else truth)
        labels: Labels = [None] * 200
        for case in source.sample(range(200), count):
            labels[case] = people[case]

        estimate = mean_of(judge, labels, clusters)
        low, high = interval(estimate)
        if low <= rate <= high:
            covered += 1
    return covered / draws


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("misses", "false_alarms"),
    [(0.1, 0.3), (0.3, 0.1), (0.45, 0.45)],
    ids=["lenient", "strict", "nearly blind"],
)
@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("rate", [0.09, 0.27, 0.55])
@pytest.mark.parametrize("count", [20, 30, 50, 100])
def test_intervals_hold_the_truth(
    count: int, rate: float, clustered: bool, misses: float, false_alarms: float
) -> None:
    share = coverage(1000, count, rate, misses, false_alarms, clustered)

    # Three standard errors of 1,000 draws below what every judge was found to reach.
    assert share >= 0.925 - 3 * 0.0083


@pytest.mark.nightly
@pytest.mark.parametrize("count", [20, 30, 50, 100])
def test_equal_systems_are_not_called_different(count: int) -> None:
    source = random.Random(count)
    called_different = 0
    for _ in range(1000):
        people = [float(source.choice((0, 0, 0, 1, -1))) for _ in range(300)]
        # The judge likes the second system's style, and at times gives it a point for that.
        judge = [difference + (source.random() < 0.13) for difference in people]
        labels: Labels = [*people[:count], *[None] * (300 - count)]

        estimate = difference_of(judge, labels)
        low, high = interval(estimate)
        if not low <= 0 <= high:
            called_different += 1

    assert called_different / 1000 <= 0.07
