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
from ragbench.stats.paired import CaseScores, PairedSample
from tests.unit.stats.builders import stepped_down

Scores = Sequence[Sequence[float | None]]
"""A row for each case, a column for each run; None where a run did not measure the case."""


def mean_of(row: Sequence[float | None]) -> float | None:
    measured = [score for score in row if score is not None]
    if not measured:
        return None
    return sum(measured) / len(measured)


def sample_of(present: Scores, earlier: Scores, *, higher: bool = True) -> PairedSample:
    """The means of the present runs beside those of the earlier ones, case by case."""
    baseline: dict[str, float | None] = {}
    candidate: dict[str, float | None] = {}
    repeats: dict[str, CaseScores] = {}
    rows = zip(present, earlier, strict=True)
    for number, (present_row, earlier_row) in enumerate(rows):
        case_id = f"q{number:04}"
        baseline[case_id] = mean_of(earlier_row)
        candidate[case_id] = mean_of(present_row)
        repeats[case_id] = (tuple(present_row), tuple(earlier_row))
    return pair(baseline, candidate, higher_is_better=higher, repeats=repeats)


def sample_of_first_column(scores: np.ndarray) -> PairedSample:
    """The first run is the present one."""
    present = scores[:, :1]
    earlier = scores[:, 1:]
    return sample_of(present.tolist(), earlier.tolist())


# --- the direction, and what is tolerated


# Each of six cases rises from a mean of .45 in two runs.
PRESENT = [[0.9]] * 6
EARLIER = [[0.5, 0.4]] * 6


def test_a_rise_is_no_loss() -> None:
    rise = sample_of(PRESENT, EARLIER)

    p_values = exchange_p_values([rise], null_means=[0.0])

    assert p_values == (1.0,)


def test_a_rise_is_a_loss_where_lower_is_better() -> None:
    loss = sample_of(PRESENT, EARLIER, higher=False)

    (p_value,) = exchange_p_values([loss], null_means=[0.0])

    assert p_value < 0.01


def test_a_loss_within_what_is_tolerated_is_no_evidence() -> None:
    # Each case lost .45.
    loss = sample_of(PRESENT, EARLIER, higher=False)

    (p_value,) = exchange_p_values([loss], null_means=[-0.6])

    assert p_value > 0.5


# --- what is evidence


@pytest.mark.parametrize(
    ("present", "earlier", "expected"),
    [
        # In each of four cases any of three runs could be the present one: 1 / 3^4. The run that
        # did not measure is neither up nor down.
        pytest.param(
            [[0.0]] * 4,
            [[1.0, None]] * 4,
            pytest.approx(1 / 81, rel=0.2),
            id="one run failed",
        ),
        # Two of three runs are the present ones, in three ways for each case: 1 / 3^4.
        pytest.param(
            [[0.0, 0.0]] * 4,
            [[1.0]] * 4,
            pytest.approx(1 / 81, rel=0.2),
            id="two present runs",
        ),
        pytest.param(
            [[0.1]] * 3,
            [[0.1, 0.1, 0.1]] * 3,
            1.0,
            id="nothing moved",
        ),
        pytest.param(
            [[None]],
            [[1.0, 1.0]],
            1.0,
            id="the present run failed",
        ),
    ],
)
def test_what_was_not_measured_is_no_evidence(
    present: Scores, earlier: Scores, expected: Any
) -> None:
    sample = sample_of(present, earlier)

    p_values = exchange_p_values([sample], null_means=[0.0], resamples=20_000)

    assert p_values == (expected,)


@pytest.fixture(name="loss_of_thirty")
def sample_of_thirty_cases() -> PairedSample:
    """One present run and three earlier ones, .15 better."""
    draw = np.random.default_rng(3)
    present = draw.random((30, 1))
    earlier = draw.random((30, 3)) + 0.15
    return sample_of(present.tolist(), earlier.tolist())


def test_a_second_metric_that_is_the_same_costs_nothing(loss_of_thirty: PairedSample) -> None:
    (p_value,) = exchange_p_values([loss_of_thirty], null_means=[0.0])

    p_values = exchange_p_values([loss_of_thirty, loss_of_thirty], null_means=[0.0, 0.0])

    assert p_values == (p_value, p_value)


def test_the_same_seed_draws_the_same_p_value(loss_of_thirty: PairedSample) -> None:
    p_values = exchange_p_values([loss_of_thirty], null_means=[0.0])
    same_seed = exchange_p_values([loss_of_thirty], null_means=[0.0])
    another_seed = exchange_p_values([loss_of_thirty], null_means=[0.0], seed=1)

    assert same_seed == p_values
    assert another_seed != p_values


def test_an_unchanged_system_that_is_rarely_right_is_not_blocked() -> None:
    """Flips of signs alone block 21% of these pairs; see benchmarks/gate_baseline.py."""
    draw = np.random.default_rng(8)
    blocked = 0
    for _ in range(100):
        is_right = draw.random((20, 11)) < 0.05
        sample = sample_of_first_column(is_right.astype(float))
        question = RegressionQuestion(sample=sample, tolerance=0.02, largest_drop=1.0)
        decision = decide(question, resamples=400)
        if decision.change is ChangeKind.WORSE:
            blocked += 1

    assert blocked <= 5


# --- several tests


def counted_p_values(tests: Sequence[np.ndarray], null_means: Sequence[float]) -> list[float]:
    """Step-down p-values by all labellings; rows are cases, the first column the present run."""
    cases, runs = tests[0].shape
    # A labelling says for each case which of its runs is the present one. The first labelling,
    # all zeros, is the observed one.
    labellings = list(product(range(runs), repeat=cases))
    statistics = np.zeros((len(tests), len(labellings)))
    for row, (scores, null_mean) in enumerate(zip(tests, null_means, strict=True)):
        shifted = scores.copy()
        shifted[:, 0] -= null_mean
        centred = shifted - shifted.mean(axis=1, keepdims=True)
        for column, labelling in enumerate(labellings):
            statistics[row, column] = -centred[range(cases), labelling].sum()
    return stepped_down(statistics / statistics.std(axis=1, keepdims=True))


def test_several_tests_step_down_over_all_labellings() -> None:
    """Three runs of five cases, 243 labellings; metrics of different scales and drops."""
    draw = np.random.default_rng(12)
    small = draw.normal(size=(5, 3)) * 0.1
    large = draw.normal(size=(5, 3)) * 10
    risen = draw.normal(size=(5, 3))
    skewed = draw.exponential(size=(5, 3))
    small[:, 0] -= 0.25
    large[:, 0] -= 8.0
    risen[:, 0] += 0.5
    tests = [small, large, risen, skewed]
    null_means = [0.0, -1.0, 0.0, -0.2]
    samples = [sample_of_first_column(scores) for scores in tests]

    p_values = exchange_p_values(samples, null_means=null_means, resamples=40_000)

    expected = counted_p_values(tests, null_means)
    assert list(p_values) == pytest.approx(expected, abs=0.012)
    # Else the tests would not show that each step has a p-value of its own.
    different_p_values = {round(p_value, 2) for p_value in expected}
    assert len(different_p_values) == 4
