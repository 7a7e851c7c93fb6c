"""Small seeded simulations of the promises; the large one is benchmarks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from ragbench import RegressionQuestion, decide
from ragbench.stats.decide import ChangeKind
from ragbench.stats.power import Spread, detectable
from tests.unit.stats.builders import question

pytestmark = pytest.mark.nightly

TRIALS = 300
Array = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int, float], Array]


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
    world: Draw, cases: int, drop: float, size: int, tolerance: float, change: ChangeKind,
    least: float, most: float,
) -> None:  # fmt: skip
    draw = np.random.default_rng(1)
    clusters = [str(place // size) for place in range(cases)]
    questions = [
        question(world(draw, cases, drop), clusters=clusters, tolerance=tolerance)
        for _ in range(TRIALS)
    ]
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
