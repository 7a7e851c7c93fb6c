"""A drift and a step are told from noise; what cannot be told is not."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest

from ragbench.stats.trend import Trend, trends


def one(figures: Sequence[float | None]) -> Trend:
    (found,) = trends([figures])
    assert found is not None
    return found


def test_five_runs_that_only_fall_are_two_of_their_120_orders() -> None:
    found = one([0.5, 0.4, 0.3, 0.2, 0.1])
    assert found.p_value == pytest.approx(2 / 120)
    assert found.step is None
    assert [found.before, found.after] == pytest.approx([0.5, 0.1])


def test_a_step_is_found_where_it_is() -> None:
    found = one([0.8, 0.8, 0.8, 0.6, 0.6, 0.6])
    # Three high ones and three low ones: 20 ways, of which two are perfect steps.
    assert found.p_value == pytest.approx(2 / 20)
    assert found.step == 3
    assert [found.before, found.after] == pytest.approx([0.8, 0.6])


def test_what_does_not_vary_has_not_changed() -> None:
    for figures in ([0.1 + 0.2] * 4 + [0.3] * 4, [0.7] * 5):
        assert (one(figures).p_value, one(figures).step) == (1.0, None)


def test_with_fewer_than_five_figures_nothing_is_said() -> None:
    assert trends([[0.9, 0.1, 0.0, None], [1.0, 0.5, 0.2, 0.1]]) == (None, None)
    assert trends([]) == ()
    few, enough = trends([[None, None, 0.1, 0.2, 0.3], [0.5, 0.4, 0.3, 0.2, 0.1]])
    assert few is None
    assert enough is not None


def test_the_direction_does_not_matter_and_a_copy_costs_nothing() -> None:
    rng = np.random.default_rng(1)
    figures = (rng.normal(0.5, 0.02, 12) - 0.01 * np.arange(12)).tolist()
    falling = one(figures)
    assert one([1.0 - figure for figure in figures]).p_value == falling.p_value
    assert trends([figures, figures]) == (falling, falling)


def test_unchanged_noisy_runs_are_seldom_marked() -> None:
    """12 merges, 8 correlated metrics: at most one in twenty has any mark."""
    rng = np.random.default_rng(4)
    marked = 0
    for _ in range(200):
        shared = rng.normal(0.0, 0.02, 12)
        series = [(0.7 + shared + rng.normal(0.0, 0.01, 12)).tolist() for _ in range(8)]
        marked += any(t is not None and t.p_value <= 0.05 for t in trends(series, resamples=400))
    assert marked <= 16  # 5% of 200, and two standard errors


def test_a_slow_decline_over_ten_of_twelve_merges_is_seen() -> None:
    rng = np.random.default_rng(5)
    loss = 0.01 * np.minimum(np.arange(12), 10)
    seen = 0
    for _ in range(50):
        noise = rng.normal(0.0, math.sqrt(1 / 6 / 400), 12)  # 400 questions of 0 or 1
        (found,) = trends([(0.6 - loss + noise).tolist()], resamples=400)
        assert found is not None
        seen += found.p_value <= 0.05
    assert seen >= 45


def strongest(series: np.ndarray) -> np.ndarray:
    """The largest correlation of each row with a line, and with each step, by numpy."""
    length = series.shape[1]
    shapes = [list(range(length))]
    shapes += [[0] * at + [1] * (length - at) for at in range(2, length - 1)]
    return np.array(
        [max(abs(float(np.corrcoef(row, shape)[0, 1])) for shape in shapes) for row in series]
    )


def test_p_values_are_those_of_all_orders_stepping_down() -> None:
    """Of six runs: both figures together for the strongest one, the other one alone then."""
    series = np.array([[0.81, 0.79, 0.83, 0.74, 0.76, 0.71], [0.5, 0.9, 0.4, 0.8, 0.55, 0.6]])
    seen = strongest(series)
    assert seen[0] > seen[1]
    drawn = np.array([strongest(series[:, order]) for order in itertools.permutations(range(6))])
    first = float((drawn.max(axis=1) >= seen[0] - 1e-9).mean())
    second = max(first, float((drawn[:, 1] >= seen[1] - 1e-9).mean()))
    one_p, other_p = (found.p_value for found in trends(series.tolist()) if found is not None)
    assert (one_p, other_p) == pytest.approx((first, second))
    turned = [found.p_value for found in trends(series[::-1].tolist()) if found is not None]
    assert turned == [other_p, one_p]


def test_a_line_is_that_of_least_squares_through_the_runs_that_have_the_figure() -> None:
    known = [0.95, 0.82, 0.71, 0.62, 0.48, 0.41, 0.3, 0.19, 0.11]
    found = one([None, *known[:4], None, *known[4:]])
    slope, start = np.polyfit([1, 2, 3, 4, 6, 7, 8, 9, 10], known, 1)
    assert found.step is None
    assert [found.before, found.after] == pytest.approx([start + slope, start + 10 * slope])


def test_a_step_leaves_two_runs_on_either_side_and_its_means_are_those_of_known_runs() -> None:
    """One run that is off at the end is no step."""
    found = one([0.5, 0.5, None, 0.5, 0.1, 0.1, None, 0.1, 0.1])
    assert found.step == 4
    assert [found.before, found.after] == pytest.approx([0.5, 0.1])
    found = one([0.5, 0.5, 0.5, 0.5, 0.5, 0.1])
    assert found.step != 5
