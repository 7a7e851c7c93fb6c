"""A score among several: exact by hand on small data, and level where flips of signs have none."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from ragbench import RegressionQuestion, decide, pair
from ragbench.stats.decide import ChangeKind
from ragbench.stats.exchange import exchange_p_values
from ragbench.stats.paired import PairedSample
from tests.unit.stats.builders import stepped_down

Scores = Sequence[Sequence[float | None]]


def sample_of(present: Scores, earlier: Scores, *, higher: bool = True) -> PairedSample:
    """Cases as rows; their means are compared."""

    def means(rows: Scores) -> dict[str, float | None]:
        known = [[value for value in row if value is not None] for row in rows]
        return {f"q{at:04}": sum(row) / len(row) if row else None for at, row in enumerate(known)}

    rows = zip(means(present), present, earlier, strict=True)
    repeats = {name: (tuple(now), tuple(before)) for name, now, before in rows}
    return pair(means(earlier), means(present), higher_is_better=higher, repeats=repeats)


def test_the_direction_and_what_is_tolerated() -> None:
    rise, loss = (
        sample_of([[0.9]] * 6, [[0.5, 0.4]] * 6, higher=higher) for higher in (True, False)
    )
    assert exchange_p_values([rise], null_means=[0.0]) == (1.0,)
    assert exchange_p_values([loss], null_means=[0.0])[0] < 0.01
    assert exchange_p_values([loss], null_means=[-0.6])[0] > 0.5


@pytest.mark.parametrize(
    ("present", "earlier", "expected"),
    [
        # One of three runs is the present one; the one that did not measure is neither up nor down.
        ([[0.0]] * 4, [[1.0, None]] * 4, pytest.approx(1 / 81, rel=0.2)),
        ([[0.1]] * 3, [[0.1, 0.1, 0.1]] * 3, 1.0),
        ([[None]], [[1.0, 1.0]], 1.0),
    ],
)
def test_what_was_not_measured_is_no_evidence(present: Any, earlier: Any, expected: float) -> None:
    sample = sample_of(present, earlier)
    assert exchange_p_values([sample], null_means=[0.0], resamples=20_000) == (expected,)


def test_a_second_metric_that_is_the_same_costs_nothing_and_the_seed_decides() -> None:
    rng = np.random.default_rng(3)
    sample = sample_of(rng.random((30, 1)).tolist(), (rng.random((30, 3)) + 0.15).tolist())
    (alone,) = exchange_p_values([sample], null_means=[0.0])
    assert exchange_p_values([sample, sample], null_means=[0.0, 0.0]) == (alone, alone)
    assert exchange_p_values([sample], null_means=[0.0]) == (alone,)
    assert exchange_p_values([sample], null_means=[0.0], seed=1) != (alone,)


def test_an_unchanged_system_that_is_rarely_right_is_not_blocked() -> None:
    """Flips of signs alone block 21% of these pairs; see benchmarks/gate_baseline.py."""
    rng = np.random.default_rng(8)
    blocked = 0
    for _ in range(100):
        scores = (rng.random((20, 11)) < 0.05).astype(float)
        sample = sample_of(scores[:, :1].tolist(), scores[:, 1:].tolist())
        question = RegressionQuestion(sample=sample, tolerance=0.02, largest_drop=1.0)
        blocked += decide(question, resamples=400).change is ChangeKind.WORSE
    assert blocked <= 5


def written_out(tests: Sequence[np.ndarray], null_means: Sequence[float]) -> list[float]:
    """Step-down p-values by all labellings; rows are cases, the first column the present run."""
    centred = []
    for scores, null_mean in zip(tests, null_means, strict=True):
        moved = scores.copy()
        moved[:, 0] -= null_mean
        centred.append(moved - moved.mean(axis=1, keepdims=True))
    cases, width = tests[0].shape
    picks = list(product(range(width), repeat=cases))
    # What is drawn: for each test, minus the sum over cases of the score that is picked.
    drawn = np.array(
        [[-sum(one[case, at] for case, at in enumerate(pick)) for pick in picks] for one in centred]
    )
    return stepped_down(drawn / drawn.std(axis=1, keepdims=True))


def test_several_tests_step_down_over_all_labellings() -> None:
    """Three runs of five cases, 243 labellings; metrics of different scales and drops."""
    rng = np.random.default_rng(12)
    tests = [rng.normal(size=(5, 3)) * scale for scale in (0.1, 10, 1)]
    tests.append(rng.exponential(size=(5, 3)))
    for test, moved in zip(tests, (-0.25, -8.0, 0.5, 0.0), strict=True):
        test[:, 0] += moved
    null_means = [0.0, -1.0, 0.0, -0.2]
    samples = [sample_of(one[:, :1].tolist(), one[:, 1:].tolist()) for one in tests]
    found = exchange_p_values(samples, null_means=null_means, resamples=40_000)
    expected = written_out(tests, null_means)
    assert list(found) == pytest.approx(expected, abs=0.012)
    assert len({round(p_value, 2) for p_value in expected}) == 4
