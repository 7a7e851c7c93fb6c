"""The honest gain: unbiased where nothing is better, not lowered where something is."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import pair
from ragbench.errors import ConfigError
from ragbench.stats.mean import student_interval
from ragbench.stats.nested import honest_gain

ALONE: Mapping[str, str | None] = {}


def columns(matrix: np.ndarray) -> list[dict[str, float]]:
    return [{f"c{at}": float(value) for at, value in enumerate(row)} for row in matrix]


def test_a_gain_in_every_case_is_found_whole() -> None:
    values = [dict.fromkeys("abcdef", 0.25), dict.fromkeys("abcdef", 0.75)]
    found = honest_gain(values, ALONE)
    assert (found.gain, found.low, found.high) == (0.5, 0.5, 0.5)
    assert found.chosen == (0.0, 1.0)
    assert (found.cases, found.clusters) == (6, 6)


def test_by_hand_over_all_halves_of_four_cases() -> None:
    # Gains of the second: 3, -1, -1, -1. It is chosen by the half without c0 never (sum -2), by
    # the half with it always (sum 2): then the other half gives -1. The third is never best.
    ids = [f"c{at}" for at in range(4)]
    values: list[dict[str, float]] = [
        dict.fromkeys(ids, 0.0),
        {"c0": 3.0, "c1": -1.0, "c2": -1.0, "c3": -1.0},
        dict.fromkeys(ids, -9.0),
    ]
    found = honest_gain(values, ALONE, partitions=7)
    assert found.gain == pytest.approx(-0.5)
    assert found.chosen == pytest.approx((0.5, 0.5, 0.0))
    # Errors of both halves, each of half of the weight: 0 for the first one, 0 for equal losses.
    assert (found.low, found.high) == pytest.approx((-0.5, -0.5))


def test_the_interval_by_hand() -> None:
    # The second is always chosen: each half has gains of 1 and 3, so 2 +- 12.7 * 1 each.
    values = [dict.fromkeys("abcd", 0.0), {"a": 1.0, "b": 1.0, "c": 3.0, "d": 3.0}]
    found = honest_gain(values, {"a": "p", "b": "q", "c": "p", "d": "q"}, partitions=3)
    # Two clusters, each with a mean of 2: one in each half, of whose spread nothing is known.
    assert (found.gain, found.low, found.high, found.clusters) == (2.0, None, None, 2)
    values = [dict.fromkeys("abcd", 0.0), {"a": 3.0, "b": 3.0, "c": 3.0, "d": 3.0}]
    values[1]["a"] = 1.0
    found = honest_gain(values, ALONE, partitions=3)
    # The half with a: 1 and 3, error 1; the other half: 3 and 3, error 0. Mean error 0.5.
    assert found.gain == 2.5
    assert found.high == pytest.approx(2.5 + 0.5 * 12.7062, abs=1e-3)


def test_where_nothing_is_better_the_honest_interval_holds_zero() -> None:
    rng = np.random.default_rng(3)
    honest = naive = 0
    gains: list[float] = []
    for _ in range(200):
        matrix = rng.normal(0, 0.2, (8, 60))
        values = columns(matrix)
        found = honest_gain(values, ALONE, partitions=8)
        gains.append(found.gain)
        assert found.low is not None
        assert found.high is not None
        honest += found.low <= 0 <= found.high
        best = int(np.argmax(matrix.mean(axis=1)))
        alone = student_interval(pair(values[0], values[best], clusters={}).totals())
        naive += alone.low is None or alone.low <= 0
    assert honest / 200 >= 0.95
    assert naive / 200 < 0.90
    assert abs(np.mean(gains)) < 0.004  # 0.2 * sqrt(2 / 60 / 200) = 0.0026


def test_a_planted_winner_keeps_its_gain() -> None:
    rng = np.random.default_rng(4)
    held = 0
    for _ in range(50):
        matrix = rng.normal(0, 0.2, (8, 60))
        matrix[5] += 0.3
        found = honest_gain(columns(matrix), ALONE, partitions=8)
        assert found.low is not None
        assert found.high is not None
        assert found.chosen[5] > 0.9
        held += found.low <= 0.3 <= found.high
        assert found.low > 0
    assert held >= 47


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10), order=st.permutations(list(range(12))))
def test_the_order_of_the_cases_changes_nothing(seed: int, order: list[int]) -> None:
    matrix = np.random.default_rng(seed).normal(0, 1, (3, 12))
    values = columns(matrix)
    turned = [{f"c{at}": one[f"c{at}"] for at in order} for one in values]
    clusters = {f"c{at}": f"k{at // 2}" for at in range(12)}
    first = honest_gain(values, clusters, seed=seed, partitions=5)
    assert honest_gain(turned, clusters, seed=seed, partitions=5) == first
    assert first.clusters == 6


def test_the_cases_of_a_cluster_stay_together() -> None:
    # A lucky cluster: were it split, its one half would choose what its other half then confirms.
    values = [dict.fromkeys(map(str, range(12)), 0.0), {str(at): -1.0 for at in range(12)}]
    values[1].update({str(at): 20.0 for at in range(4)})
    clusters = {str(at): "lucky" if at < 4 else str(at) for at in range(12)}
    found = honest_gain(values, clusters)
    assert found.gain < 0
    assert honest_gain(values, ALONE).gain > 0


def test_of_equal_candidates_the_first_is_chosen() -> None:
    values = [{"a": 1.0, "b": 2.0, "c": 3.0}] * 3
    assert honest_gain(values, ALONE).chosen == (1.0, 0.0, 0.0)


def test_what_cannot_be_cut_is_refused() -> None:
    values = [{"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 2.0}]
    with pytest.raises(ConfigError, match="folds must be at least 2"):
        honest_gain(values, ALONE, folds=1)
    with pytest.raises(ConfigError, match="3 folds need as many independent cases; there are 2"):
        honest_gain(values, ALONE, folds=3)
    with pytest.raises(ConfigError, match="there are 1"):
        honest_gain(values, {"a": "one", "b": "one"})


def test_by_hand_over_three_folds() -> None:
    # Without c0, which alone gains, the second is not chosen; without c1 or c2 it is, and loses.
    gains = {"c0": 3.0, "c1": -1.0, "c2": -1.0}
    values: list[dict[str, float]] = [dict.fromkeys(gains, 0.0), gains]
    found = honest_gain(values, ALONE, folds=3, partitions=2)
    assert found.gain == pytest.approx(-2 / 3)
    assert found.chosen == pytest.approx((1 / 3, 2 / 3))
    assert (found.low, found.high) == (None, None)  # one case says nothing of the spread


def test_clusters_of_several_sizes_by_hand() -> None:
    gains = {"p": [9.0], "q": [4.0, 6.0], "r": [2.0, 4.0, 6.0], "s": [7.0, 7.0]}
    cases = {f"{name}{at}": gain for name, of in gains.items() for at, gain in enumerate(of)}
    values = [dict.fromkeys(cases, 0.0), cases]
    found = honest_gain(values, {case: case[0] for case in cases}, partitions=1)
    expected: list[float] = []
    for other in "qrs":
        error = 0.0
        for half in ({"p", other}, set("pqrs") - {"p", other}):
            size = sum(len(gains[name]) for name in half)
            mean = sum(sum(gains[name]) for name in half) / size
            spread = sum((sum(gains[name]) - mean * len(gains[name])) ** 2 for name in half)
            error += size / 8 * (2 * spread) ** 0.5 / size
        expected.append(error)
    assert found.gain == pytest.approx(45 / 8)
    assert found.high is not None
    reached = (found.high - found.gain) / 12.7062
    assert any(reached == pytest.approx(error, rel=1e-4) for error in expected)
