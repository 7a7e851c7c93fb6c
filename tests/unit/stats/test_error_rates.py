"""Small seeded simulations of the promises; the large one is benchmarks."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from ragbench import RegressionQuestion, decide, pair
from ragbench.stats.decide import ChangeKind, decide_family
from ragbench.stats.power import Spread, detectable

pytestmark = pytest.mark.nightly

TRIALS = 300
Array = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int, float], Array]


def question(differences: Array, *, tolerance: float = 0.0, size: int = 1) -> RegressionQuestion:
    after = {str(place): float(value) for place, value in enumerate(differences)}
    labels: dict[str, str | None] = {key: str(int(key) // size) for key in after}
    sample = pair(dict.fromkeys(after, 0.0), after, clusters=labels)
    return RegressionQuestion(sample=sample, tolerance=tolerance, largest_drop=1.0)


def rate(questions: list[RegressionQuestion], change: ChangeKind) -> float:
    decisions = [decide(each, resamples=500) for each in questions]
    return sum(each.change is change for each in decisions) / len(decisions)


def noisy(draw: np.random.Generator, cases: int, drop: float) -> Array:
    return draw.normal(-drop, 0.15, cases).clip(-1.0, 1.0)


def noisy_documents(draw: np.random.Generator, cases: int, drop: float) -> Array:
    shared = np.repeat(draw.normal(-drop, 0.14, -(-cases // 5)), 5)[:cases]
    return (shared + draw.normal(0.0, 0.08, cases)).clip(-1.0, 1.0)


def mostly_ties(draw: np.random.Generator, cases: int, drop: float) -> Array:
    """Nine of ten do not move; what is lost or gained are whole answers."""
    moves = draw.choice([-1.0, -0.5, 0.5, 1.0], cases) * (draw.random(cases) < 0.1)
    return np.where(draw.random(cases) < abs(drop), -math.copysign(1.0, drop), moves)


def flips(draw: np.random.Generator, cases: int, _: float) -> Array:
    """Yes or no, by a chance of each case."""
    chance = draw.random(cases)
    before, after = ((draw.random(cases) < chance).astype(np.float64) for _ in range(2))
    return after - before


def breaks(draw: np.random.Generator, cases: int, drop: float) -> Array:
    return -(draw.random(cases) < drop).astype(np.float64)


def rare_gains(draw: np.random.Generator, cases: int, _: float) -> Array:
    """One case in fifty gains .6, the others lose .012: nothing is lost."""
    return np.where(draw.random(cases) < 0.02, 0.588, -0.012)


@pytest.mark.parametrize(
    ("world", "cases", "drop", "size", "tolerance", "least", "most"),
    [
        # 5% and four standard errors; a test that ignores clusters is far off.
        (noisy_documents, 50, 0.0, 5, 0.0, 0.01, 0.10),
        (noisy_documents, 50, 0.0, 1, 0.0, 0.14, 1.0),
        # Every cluster losing made a drop of .15 look like hidden gains: 44% were called worse.
        (noisy_documents, 50, 0.15, 5, 0.02, 0.7, 1.0),
        (flips, 20, 0.0, 1, 0.0, 0.0, 0.09),
        (flips, 4, 0.0, 1, 0.0, 0.0, 0.0),
        # A t test calls more than one in ten of these not worse.
        (breaks, 60, 0.05, 1, 0.05, 0.0, 0.10),
        *((rare_gains, cases, 0.0, 1, 0.0, 0.0, 0.05) for cases in (20, 50, 200)),
    ],
)
def test_how_often_a_world_is_called_changed(
    world: Draw, cases: int, drop: float, size: int, tolerance: float, least: float, most: float
) -> None:
    draw = np.random.default_rng(1)
    questions = [
        question(world(draw, cases, drop), size=size, tolerance=tolerance) for _ in range(TRIALS)
    ]
    change = ChangeKind.NOT_WORSE if world is breaks else ChangeKind.WORSE
    assert least <= rate(questions, change) <= most


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


@pytest.mark.parametrize(
    ("world", "size", "cases"), [(noisy, 1, 50), (noisy_documents, 5, 100), (mostly_ties, 1, 50)]
)
def test_following_the_advice_settles_an_unchanged_system_in_four_of_five(
    world: Draw, size: int, cases: int
) -> None:
    draw = np.random.default_rng(4)

    def asked(count: int) -> RegressionQuestion:
        return question(world(draw, count, 0.0), size=size, tolerance=0.02)

    settled: list[bool] = []
    while len(settled) < 120:
        needed = decide(asked(cases), resamples=500).needed
        if needed is not None:
            again = decide(asked(-(-needed // size) * size), resamples=500)
            settled.append(again.change is ChangeKind.NOT_WORSE)
    assert 0.69 <= sum(settled) / len(settled) <= 0.97
