"""A judge's figures, corrected by labels: by hand, against ppi-python, and by simulation."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np
import pytest

from ragbench.errors import InputError
from ragbench.stats.corrected import Plan, corrected_difference, corrected_mean

JUDGED = [1.0, 1.0, 0.0, 0.0, 1.0, 0.0]
LABELS = [1.0, 0.0, 0.0, 0.0, None, None]


def test_a_mean_by_hand() -> None:
    # slope .5, residuals .5, -.5, 0, 0: 0 + .5 * .5; variance .5^2 * .25 / 6 + .5 / (4 * 2)
    found = corrected_mean(JUDGED, LABELS)
    assert found is not None
    assert found.mean == pytest.approx(0.25)
    assert found.standard_error == pytest.approx(math.sqrt(7 / 96))
    assert found.correlation == pytest.approx(1 / math.sqrt(3))
    assert (found.cases, found.labels, found.degrees) == (6, 4, 2)
    assert (found.low, found.high) == (None, None)  # four labels show no interval
    # A metric that no case has a value of.
    assert (corrected_mean([], []), corrected_difference([], [])) == (None, None)


@pytest.mark.parametrize(
    ("judged", "labels", "expected"),
    [
        # A judge that never varies corrects nothing: the labels' own mean, Wilson with t(4).
        ([1.0] * 12, [1, 0, 1, 0, 1, 0, *[None] * 6], 0.5),
        # Labels that all agree: an interval still, of as many labels as there are.
        ([1.0, 0.0] * 6, [1, 1, 1, 1, 1, 1, *[None] * 6], 1.0),
        # One that is right about all it was asked is believed about the rest.
        ([1.0, 0.0, 1.0, 0.0, 1.0, 0.0, *[1.0] * 6], [1, 0, 1, 0, 1, 0, *[None] * 6], 0.75),
    ],
)
def test_means_and_intervals(
    judged: list[float], labels: list[float | None], expected: float
) -> None:
    found = corrected_mean(judged, labels)
    assert found is not None and found.low is not None and found.high is not None
    assert found.mean == pytest.approx(expected)
    assert 0 <= found.low < found.high <= 1


def test_cases_of_a_cluster_are_one_observation() -> None:
    judged, labels = [1.0, 0.0, 0.0, 1.0, 1.0, 0.0] * 5, [1.0, 0.0, 1.0, None, None, None] * 5
    alone = corrected_mean(judged, labels)
    tripled = corrected_mean(
        [value for value in judged for _ in range(3)],
        [value for value in labels for _ in range(3)],
        [at for at in range(30) for _ in range(3)],
    )
    assert alone is not None and tripled is not None
    assert tripled.standard_error == pytest.approx(alone.standard_error)
    assert (tripled.low, tripled.high) == pytest.approx((alone.low, alone.high))
    assert (alone.labels, tripled.labels, tripled.degrees) == (15, 45, alone.degrees)


def test_the_same_answers_are_no_difference_without_a_label() -> None:
    judged, labels = [1.0, 0.0, -1.0, 1.0] * 5, [1.0, 0.0, 0.0, None] * 5
    half = corrected_difference(
        judged + [0.0] * 20, labels + [None] * 20, same=[False] * 20 + [True] * 20
    )
    whole = corrected_difference(judged, labels)
    assert half is not None and whole is not None
    assert half.mean == pytest.approx(whole.mean / 2)
    assert half.standard_error < whole.standard_error
    # No label saw a difference, or one that the judge did not see: 0.025^(1/20) = 1 - 0.1684.
    none = corrected_difference([0.0] * 40, [0.0] * 20 + [None] * 20)
    assert none is not None and none.mean == 0.0
    assert none.high == pytest.approx(0.1684, abs=1e-4)
    # One of twenty did: as if one more had.
    one = corrected_difference([0.0] * 40, [0.5, *[0.0] * 19] + [None] * 20)
    assert one is not None and one.standard_error == pytest.approx(1 / 20)
    assert none.p_above(0.2) > 0.98 > 0.5 > none.p_above(-0.2)


def test_bad_input_is_refused() -> None:
    assert corrected_mean([1.0], [None]) is None
    with pytest.raises(InputError, match="one label, or None"):
        corrected_mean([1.0, 0.0], [1.0])
    with pytest.raises(InputError, match="finite"):
        corrected_mean([1.0, 0.0], [math.nan, None])


@pytest.mark.parametrize(("count", "seed"), [(30, 4), (80, 2)])
def test_prediction_powered_inference_agrees(count: int, seed: int) -> None:
    """The formulas of ppi-python 0.2.3, which it was held against: it brings a package `tests`."""
    draw = np.random.default_rng(seed)
    h = draw.normal(size=600)
    f = 0.7 * h + draw.normal(size=600) * 0.6 + 0.3
    found = corrected_mean(list(f), [*h[:count], *[None] * (600 - count)], bounds=None)
    assert found is not None and found.low is not None and found.high is not None
    slope = np.cov(h[:count], f[:count])[0, 1] / f[:count].var(ddof=1)
    # There the labelled cases are none of the others, which changes the weight alone.
    weight, rest = slope * (1 - count / 600), f[count:]
    rectifier = h[:count] - weight * f[:count]
    # That the slope is an estimate, too, they leave out.
    steep = 1 + (f.mean() - f[:count].mean()) ** 2 / f[:count].var()
    error = (steep * rectifier.var() / count + (weight * rest).var() / len(rest)) ** 0.5
    assert found.mean == pytest.approx(weight * rest.mean() + rectifier.mean())
    assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.1)  # t for z


def test_what_labels_can_be_expected_to_show() -> None:
    plan = Plan(margin=0.1, deviation=0.6, correlation=0.6, cases=300)
    chances = [plan.chance(count) for count in (4, 60, 100, 197)]
    assert chances == pytest.approx([0.0, 0.447, 0.600, 0.801], abs=0.001)
    assert plan.needed == 197
    assert Plan(margin=0.01, deviation=0.6, correlation=0.6, cases=300).needed is None
    assert Plan(margin=0.0, deviation=0.6, correlation=0.6, cases=300).chance(300) == 0.0


def held(draws: int, count: int, rate: float, error: float, bias: float, clustered: bool) -> float:
    source, right = random.Random(count * 7 + round(rate * 100)), 0
    for _ in range(draws):
        h: list[float] = []
        f: list[float] = []
        clusters: list[int] = []
        for case in range(200):
            if clustered and case % 2:
                h.append(h[-1])
                clusters.append(clusters[-1])
            else:
                h.append(float(source.random() < rate))
                clusters.append(case)
            wrong = source.random() < (bias if h[-1] == 0 else error)
            f.append(h[-1] if not wrong else 1 - h[-1])
        asked = set(source.sample(range(200), count))
        labels: Sequence[float | None] = [x if at in asked else None for at, x in enumerate(h)]
        found = corrected_mean(f, labels, clusters)
        assert found is not None and found.low is not None and found.high is not None
        right += found.low <= rate <= found.high
    return right / draws


@pytest.mark.nightly
@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("rate", [0.09, 0.27, 0.55])
@pytest.mark.parametrize("count", [20, 30, 50, 100])
def test_intervals_hold_the_truth(count: int, rate: float, clustered: bool) -> None:
    for error, bias in ((0.1, 0.3), (0.3, 0.1), (0.45, 0.45)):
        # Three standard errors of 1,000 draws below what every judge was found to reach.
        assert held(1000, count, rate, error, bias, clustered) >= 0.925 - 3 * 0.0083


@pytest.mark.nightly
@pytest.mark.parametrize("count", [20, 30, 50, 100])
def test_equal_systems_are_not_called_different(count: int) -> None:
    source, called = random.Random(count), 0
    for _ in range(1000):
        h = [source.choice((0, 0, 0, 1, -1)) for _ in range(300)]
        f = [x + (source.random() < 0.13) for x in h]  # likes the second system's style
        found = corrected_difference(f, [*map(float, h[:count]), *[None] * (300 - count)])
        assert found is not None and found.low is not None and found.high is not None
        called += not found.low <= 0 <= found.high
    assert called / 1000 <= 0.07
