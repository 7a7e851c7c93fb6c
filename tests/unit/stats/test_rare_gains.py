"""Whether a small loss could be made up for by gains so rare that none was seen."""

from __future__ import annotations

import pytest

from ragbench.stats.clusters import ClusterTotals
from ragbench.stats.rare_gains import gains_are_rare, rare_gains_p_value


def totals(*values: float) -> ClusterTotals:
    return ClusterTotals.of(values)


def test_one_cluster_in_twenty_that_gains_the_whole_scale_makes_up_for_a_loss() -> None:
    # Of 19 cases the twentieth gains 1: together they may have lost 1, and no more.
    assert gains_are_rare(totals(*[0.0] * 18, -1.0), 0.0, scale=1.0)
    assert not gains_are_rare(totals(*[0.0] * 17, -1.0, -0.01), 0.0, scale=1.0)
    # On a scale of 2 it gains 2.
    assert gains_are_rare(totals(*[-0.1] * 19), 0.0, scale=2.0)
    assert not gains_are_rare(totals(*[-0.11] * 19), 0.0, scale=2.0)


def test_what_is_tolerated_is_no_loss_and_adds_to_the_gain() -> None:
    # Beyond the tolerated 0.1 each of 19 lost 0.05 (0.95) or 0.06 (1.14); the gain is 1.1.
    assert gains_are_rare(totals(*[-0.15] * 19), 0.1, scale=1.0)
    assert not gains_are_rare(totals(*[-0.16] * 19), 0.1, scale=1.0)


def test_gains_are_rare_up_to_a_tenth_of_what_moved() -> None:
    assert gains_are_rare(totals(*[-0.02] * 9, 0.02), 0.0, scale=1.0)
    assert not gains_are_rare(totals(*[-0.02] * 8, 0.02), 0.0, scale=1.0)
    # Cases that did not move say nothing about it.
    assert not gains_are_rare(totals(*[-0.02] * 8, 0.02, *[0.0] * 20), 0.0, scale=1.0)


def test_a_scale_without_ends_says_nothing() -> None:
    assert not gains_are_rare(totals(*[-0.01] * 20), 0.0, scale=None)
    assert rare_gains_p_value(totals(*[-0.01] * 20), 0.0, scale=None) is None
    assert rare_gains_p_value(totals(*[-0.9] * 20), 0.0, scale=1.0) is None


@pytest.mark.parametrize(
    ("loss", "tolerance", "scale", "ratio"),
    [
        (0.05, 0.0, 1.0, 0.05),
        (0.05, 0.0, 2.0, 0.025),
        (0.06, 0.02, 1.0, 0.04 / 1.02),
    ],
)
def test_the_p_value_of_equal_losses_by_hand(
    loss: float, tolerance: float, scale: float, ratio: float
) -> None:
    # P(E_0 >= ratio * sum(E_c)) of independent exponentials is (1 + ratio) ** -n.
    found = rare_gains_p_value(totals(*[-loss] * 20), tolerance, scale=scale)
    assert found == pytest.approx((1.0 + ratio) ** -20)
