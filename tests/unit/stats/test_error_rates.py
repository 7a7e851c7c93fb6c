"""Small seeded simulations of the promises; the large one is benchmarks."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from ragbench import RegressionQuestion, decide, pair
from ragbench.stats.clusters import ClusterTotals
from ragbench.stats.decide import ChangeKind, decide_family
from ragbench.stats.mean import student_p_value
from ragbench.stats.power import Spread, detectable

pytestmark = pytest.mark.nightly

TRIALS = 300
Array = NDArray[np.float64]


def question(differences: Array, *, tolerance: float = 0.0, size: int = 1) -> RegressionQuestion:
    after = {str(place): float(value) for place, value in enumerate(differences)}
    labels: dict[str, str | None] = {key: str(int(key) // size) for key in after}
    sample = pair(dict.fromkeys(after, 0.0), after, clusters=labels)
    return RegressionQuestion(sample=sample, tolerance=tolerance, largest_drop=3.0)


def rate(questions: list[RegressionQuestion], change: ChangeKind) -> float:
    decisions = [decide(each, resamples=500) for each in questions]
    return sum(each.change is change for each in decisions) / len(decisions)


def test_clustered_noise_is_rarely_called_worse_and_often_by_a_test_that_ignores_clusters() -> None:
    draw = np.random.default_rng(1)
    samples = [
        np.repeat(draw.normal(0, 0.15, 10), 5) + draw.normal(0, 0.08, 50) for _ in range(TRIALS)
    ]
    careful = rate([question(each, size=5) for each in samples], ChangeKind.WORSE)
    careless = rate([question(each) for each in samples], ChangeKind.WORSE)
    # 5% and four standard errors; ignoring clusters is far off.
    assert 0.01 <= careful <= 0.10
    assert careless > 0.14


@pytest.mark.parametrize(("cases", "most"), [(20, 0.09), (4, 0.0)])
def test_noisy_yes_no_scores_are_rarely_called_worse(cases: int, most: float) -> None:
    draw = np.random.default_rng(2)
    samples: list[Array] = []
    for _ in range(TRIALS):
        chance = draw.random(cases)
        runs = [(draw.random(cases) < chance).astype(np.float64) for _ in range(2)]
        samples.append(runs[1] - runs[0])
    assert rate([question(each) for each in samples], ChangeKind.WORSE) <= most


def test_rare_breaks_are_not_overlooked_though_a_t_test_would() -> None:
    draw = np.random.default_rng(3)
    samples = [-(draw.random(60) < 0.05).astype(np.float64) for _ in range(TRIALS)]
    questions = [
        RegressionQuestion(sample=question(each).sample, tolerance=0.05, largest_drop=1.0)
        for each in samples
    ]
    assert rate(questions, ChangeKind.NOT_WORSE) <= 0.10
    totals = [ClusterTotals.of([float(value) for value in each]) for each in samples]
    student = [student_p_value(each, -0.05) <= 0.05 for each in totals if each.standard_error]
    assert sum(student) / TRIALS > 0.12


def test_the_detectable_drop_is_detected_as_often_as_promised() -> None:
    draw = np.random.default_rng(4)
    drop = detectable(Spread(per_cluster=0.15, cluster_size=1.0), 30)
    assert drop is not None
    found = rate(
        [question(draw.normal(-0.02 - drop, 0.15, 30), tolerance=0.02) for _ in range(TRIALS)],
        ChangeKind.WORSE,
    )
    assert abs(found - 0.8) <= 4 * (0.8 * 0.2 / TRIALS) ** 0.5


def test_eight_correlated_metrics_block_no_more_often_than_one() -> None:
    draw = np.random.default_rng(5)
    blocks = single = 0
    for _ in range(TRIALS // 2):
        shared = draw.normal(0, 0.1, 30)
        family = [question(shared + draw.normal(0, 0.15, 30)) for _ in range(8)]
        decisions = decide_family(family)
        blocks += any(each.change is ChangeKind.WORSE for each in decisions)
        single += any(each.test.p_value <= 0.05 for each in decisions)
    assert blocks / (TRIALS // 2) <= 0.11
    assert single / (TRIALS // 2) > 0.15


Draw = Callable[[np.random.Generator, int, float], Array]


def noisy(draw: np.random.Generator, cases: int, drop: float) -> Array:
    return draw.normal(-drop, 0.15, cases).clip(-1.0, 1.0)


def noisy_documents(draw: np.random.Generator, cases: int, drop: float) -> Array:
    shared = np.repeat(draw.normal(-drop, 0.14, -(-cases // 5)), 5)[:cases]
    return (shared + draw.normal(0.0, 0.08, cases)).clip(-1.0, 1.0)


def mostly_ties(draw: np.random.Generator, cases: int, drop: float) -> Array:
    """Nine of ten do not move; what is lost or gained are whole answers."""
    moves = draw.choice([-1.0, -0.5, 0.5, 1.0], cases) * (draw.random(cases) < 0.1)
    return np.where(draw.random(cases) < abs(drop), -math.copysign(1.0, drop), moves)


@pytest.mark.parametrize(
    ("world", "size", "cases"),
    [(noisy, 1, 50), (noisy_documents, 5, 100), (mostly_ties, 1, 50)],
)
def test_following_the_advice_settles_an_unchanged_system_in_four_of_five(
    world: Draw, size: int, cases: int
) -> None:
    draw = np.random.default_rng(4)

    def asked(count: int) -> RegressionQuestion:
        sample = question(world(draw, count, 0.0), size=size).sample
        return RegressionQuestion(sample=sample, tolerance=0.02, largest_drop=1.0)

    settled: list[bool] = []
    while len(settled) < 120:
        needed = decide(asked(cases), resamples=500).needed
        if needed is not None:
            again = decide(asked(-(-needed // size) * size), resamples=500)
            settled.append(again.change is ChangeKind.NOT_WORSE)
    assert 0.69 <= sum(settled) / len(settled) <= 0.97


def test_ten_clusters_show_a_loss_too_large_for_rare_gains_to_hide() -> None:
    """Every cluster losing made a drop of .15 look like hidden gains: 44% were called worse."""
    draw = np.random.default_rng(5)
    losses = [noisy_documents(draw, 50, 0.15) for _ in range(TRIALS)]
    found = [
        RegressionQuestion(sample=question(each, size=5).sample, tolerance=0.02, largest_drop=1.0)
        for each in losses
    ]
    assert rate(found, ChangeKind.WORSE) >= 0.7


@pytest.mark.parametrize("cases", [20, 50, 200])
def test_rare_gains_that_make_up_for_small_losses_are_rarely_called_worse(cases: int) -> None:
    """One case in fifty gains .6, the others lose .012: nothing is lost."""
    draw = np.random.default_rng(6)
    samples = [np.where(draw.random(cases) < 0.02, 0.588, -0.012) for _ in range(TRIALS)]
    found = [
        RegressionQuestion(sample=question(each).sample, tolerance=0.0, largest_drop=1.0)
        for each in samples
    ]
    assert rate(found, ChangeKind.WORSE) <= 0.05
