from __future__ import annotations

import importlib
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import ConfigError, InputError
from ragbench.stats.bounded_mean import bounded_mean_p_value, rare_gains_p_value
from ragbench.stats.clusters import ClusterTotals


def p_value(
    values: list[float], limit: float, *, lowest: float = -1.0, labels: list[int] | None = None
) -> float:
    return bounded_mean_p_value(ClusterTotals.of(values, labels), limit, lowest=lowest)


def binomial(breaks: int, cases: int, chance: Fraction) -> float:
    return float(
        sum(
            math.comb(cases, each) * chance**each * (1 - chance) ** (cases - each)
            for each in range(breaks + 1)
        )
    )


@settings(deadline=None)
@given(st.integers(1, 150), st.data())
def test_all_or_nothing_is_the_exact_binomial_test(cases: int, data: st.DataObject) -> None:
    breaks = data.draw(st.integers(0, cases - 1))
    percent = data.draw(st.integers(1, 60))
    expected = binomial(breaks, cases, Fraction(percent, 100))
    values = [0.0] * (cases - breaks) + [-1.0] * breaks
    assert p_value(values, -percent / 100) == pytest.approx(expected, rel=1e-6, abs=1e-13)


def test_a_large_cluster_may_hide_as_much_as_its_size() -> None:
    """The one that nobody saw is taken to be as large as the largest, and to lose everything."""
    sizes, means = [1, 1, 1, 2, 6], [0.3, -0.2, 0.1, 0.2, 0.05]
    values = [mean for mean, size in zip(means, sizes, strict=True) for _ in range(size)]
    labels = [at for at, size in enumerate(sizes) for _ in range(size)]
    draw = np.random.default_rng(5)
    weights = draw.exponential(size=(200_000, 6))
    moved = [size * (mean + 0.3) for mean, size in zip(means, sizes, strict=True)]
    expected = float((weights @ np.array([*moved, -0.7 * 6]) <= 0.0).mean())
    assert p_value(values, -0.3, labels=labels) == pytest.approx(expected, abs=0.004)
    assert 0.05 < expected < 0.95


@given(st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=30), st.floats(0.01, 0.9))
def test_it_is_a_probability_and_better_values_lower_it(values: list[float], drop: float) -> None:
    found = p_value(values, -drop)
    assert 0.0 <= found <= 1.0
    better = p_value([value + (1.0 - value) / 2 for value in values], -drop)
    assert better <= found + 1e-9


def test_many_cases_are_the_t_test() -> None:
    stats: Any = importlib.import_module("scipy.stats")
    values = np.random.default_rng(9).normal(-0.02, 0.1, 20_000)
    expected = float(stats.ttest_1samp(values, -0.021, alternative="greater").pvalue)
    found = p_value([float(value) for value in np.clip(values, -1, 1)], -0.021)
    assert found == pytest.approx(expected, abs=0.02)
    assert found > expected


def test_bad_input_is_refused() -> None:
    with pytest.raises(ConfigError, match="every mean would do"):
        p_value([0.0], -1.0)
    with pytest.raises(InputError, match="below the smallest possible"):
        p_value([-1.5, 0.0], -0.1)


@pytest.mark.parametrize(("values", "tolerance", "scale", "are_rare"), [
    # Of 19 cases the twentieth gains 1: together they may have lost 1, and no more.
    ([0.0] * 18 + [-1.0], 0.0, 1.0, True), ([0.0] * 17 + [-1.0, -0.01], 0.0, 1.0, False),
    # On a scale of 2 it gains 2.
    ([-0.1] * 19, 0.0, 2.0, True), ([-0.11] * 19, 0.0, 2.0, False),
    # Beyond the tolerated 0.1 each of 19 lost 0.05 (0.95) or 0.06 (1.14); the gain is 1.1.
    ([-0.15] * 19, 0.1, 1.0, True), ([-0.16] * 19, 0.1, 1.0, False),
    # Gains are rare up to a tenth of what moved; what did not move says nothing.
    ([-0.02] * 9 + [0.02], 0.0, 1.0, True), ([-0.02] * 8 + [0.02], 0.0, 1.0, False),
    ([-0.02] * 8 + [0.02] + [0.0] * 20, 0.0, 1.0, False),
    ([-0.01] * 20, 0.0, None, False), ([-0.9] * 20, 0.0, 1.0, False),
])  # fmt: skip
def test_rare_gains_are_asked_about_where_they_could_make_up_for_the_loss(
    values: list[float], tolerance: float, scale: float | None, are_rare: bool
) -> None:
    found = rare_gains_p_value(ClusterTotals.of(values), tolerance, scale=scale)
    assert (found is not None) is are_rare


@pytest.mark.parametrize(
    ("loss", "tolerance", "scale", "ratio"),
    [(0.05, 0.0, 1.0, 0.05), (0.05, 0.0, 2.0, 0.025), (0.06, 0.02, 1.0, 0.04 / 1.02)],
)
def test_the_p_value_of_equal_losses_by_hand(
    loss: float, tolerance: float, scale: float, ratio: float
) -> None:
    # P(E_0 >= ratio * sum(E_c)) of independent exponentials is (1 + ratio) ** -n.
    found = rare_gains_p_value(ClusterTotals.of([-loss] * 20), tolerance, scale=scale)
    assert found == pytest.approx((1.0 + ratio) ** -20)
