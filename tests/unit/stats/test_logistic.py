"""A logistic curve: by hand where two points decide it, and held back where labels do not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ragbench.stats.logistic import logistic_fit, platt_targets

LOG_3 = math.log(3.0)
"""The logit of 3/4; that of 1/4 is its negative."""
FROM_A_QUARTER_TO_THREE = (2 * LOG_3, -LOG_3)
"""Slope and offset of the curve that is 1/4 at 0 and 3/4 at 1: the logit rises by 2 ln 3."""


def fit(
    inputs: list[float],
    targets: list[float],
    weights: list[float] | None = None,
    *,
    start: tuple[float, float] = (0.0, 0.0),
    ridge: tuple[float, float] = (0.0, 0.0),
) -> tuple[float, float]:
    """Slope and offset of the curve; every row counts once unless weights are given."""
    if weights is None:
        weights = [1.0] * len(inputs)
    return logistic_fit(
        np.array(inputs),
        np.array(targets),
        np.array(weights),
        start=start,
        ridge=ridge,
        longest=5.0,
    )


# --- the curve


def test_a_curve_through_two_points_by_hand() -> None:
    inputs = [0.0, 1.0]
    targets = [1 / 4, 3 / 4]

    slope, offset = fit(inputs, targets)

    # The logit rises from -ln 3 to ln 3.
    assert slope == pytest.approx(2 * LOG_3)
    assert offset == pytest.approx(-LOG_3)


def test_labels_at_a_place_count_as_their_share() -> None:
    inputs = [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]
    labels = [1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0]

    coefficients = fit(inputs, labels)

    assert coefficients == pytest.approx(FROM_A_QUARTER_TO_THREE)


def test_a_weight_of_three_counts_as_three_rows() -> None:
    inputs = [0.0, 0.0, 1.0, 1.0]
    labels = [1.0, 0.0, 1.0, 0.0]
    weights = [1.0, 3.0, 3.0, 1.0]

    coefficients = fit(inputs, labels, weights)

    assert coefficients == pytest.approx(FROM_A_QUARTER_TO_THREE)


@pytest.mark.parametrize("start", [(10.0, 10.0), (-40.0, 40.0)])
def test_the_curve_does_not_depend_on_where_the_fit_begins(start: tuple[float, float]) -> None:
    inputs = [0.0, 0.5, 1.0]
    targets = [0.2, 0.4, 0.9]

    from_zero = fit(inputs, targets)
    from_start = fit(inputs, targets, start=start)

    assert from_start == pytest.approx(from_zero)


# --- a curve that is held back


def test_a_strong_ridge_keeps_the_curve_where_the_fit_begins() -> None:
    inputs = [0.0, 1.0]
    targets = [1 / 4, 3 / 4]
    start = (1.0, 2.0)

    coefficients = fit(inputs, targets, start=start, ridge=(1e9, 1e9))

    assert coefficients == pytest.approx(start, abs=1e-6)


def test_a_ridge_of_the_slope_alone_leaves_the_offset_free() -> None:
    inputs = [-1.0, 1.0]
    targets = [3 / 4, 3 / 4]

    slope, offset = fit(inputs, targets, start=(0.0, 0.0), ridge=(1e9, 0.0))

    assert slope == pytest.approx(0.0, abs=1e-6)
    assert offset == pytest.approx(LOG_3)


# --- labels that a curve could not reach


def test_the_targets_of_platt_by_hand() -> None:
    targets = platt_targets(positive=8, negative=3)

    # (8 + 1) / (8 + 2) and 1 / (3 + 2).
    assert targets == (9 / 10, 1 / 5)


def test_without_a_label_nothing_is_known_of_either_side() -> None:
    assert platt_targets(positive=0, negative=0) == (1 / 2, 1 / 2)


def test_labels_that_a_threshold_parts_have_a_finite_curve_by_the_targets_of_platt() -> None:
    inputs = [0.0, 0.0, 1.0, 1.0]
    # Two labels of 1 and two of 0: 3/4 and 1/4.
    high, low = platt_targets(positive=2, negative=2)

    coefficients = fit(inputs, [low, low, high, high])

    assert coefficients == pytest.approx(FROM_A_QUARTER_TO_THREE)
