"""Small seeded simulations of the promises; the large one is benchmarks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from ragbench import RegressionQuestion, decide, pair
from ragbench.stats.decide import ChangeKind, decide_family

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


def noisy_documents(draw: np.random.Generator, cases: int, drop: float) -> Array:
    shared = np.repeat(draw.normal(-drop, 0.14, -(-cases // 5)), 5)[:cases]
    return (shared + draw.normal(0.0, 0.08, cases)).clip(-1.0, 1.0)


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


WORSE, NOT_WORSE = ChangeKind.WORSE, ChangeKind.NOT_WORSE


@pytest.mark.parametrize(
    ("world", "cases", "drop", "size", "tolerance", "change", "least", "most"),
    [
        # 5% and four standard errors; a test that ignores clusters is far off.
        (noisy_documents, 50, 0.0, 5, 0.0, WORSE, 0.01, 0.10),
        (noisy_documents, 50, 0.0, 1, 0.0, WORSE, 0.14, 1.0),
        # Every cluster losing made a drop of .15 look like hidden gains: 44% were called worse.
        (noisy_documents, 50, 0.15, 5, 0.02, WORSE, 0.7, 1.0),
        (flips, 20, 0.0, 1, 0.0, WORSE, 0.0, 0.09),
        (flips, 4, 0.0, 1, 0.0, WORSE, 0.0, 0.0),
        # A t test calls more than one in ten of these not worse.
        (breaks, 60, 0.05, 1, 0.05, NOT_WORSE, 0.0, 0.10),
        (rare_gains, 20, 0.0, 1, 0.0, WORSE, 0.0, 0.05),
        (rare_gains, 50, 0.0, 1, 0.0, WORSE, 0.0, 0.05),
        (rare_gains, 200, 0.0, 1, 0.0, WORSE, 0.0, 0.05),
    ],
)
def test_how_often_a_world_is_called_changed(
    world: Draw,
    cases: int,
    drop: float,
    size: int,
    tolerance: float,
    change: ChangeKind,
    least: float,
    most: float,
) -> None:
    draw = np.random.default_rng(1)
    questions = [
        question(world(draw, cases, drop), size=size, tolerance=tolerance) for _ in range(TRIALS)
    ]
    assert least <= rate(questions, change) <= most


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
