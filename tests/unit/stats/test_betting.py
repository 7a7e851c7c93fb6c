"""Bets on a mean: exact fairness, and what looking again and again does to the level."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import InputError
from ragbench.stats.betting import MeanBet


def seen(values: list[float], *, limit: float = 0.0) -> MeanBet:
    bet = MeanBet(limit=limit, scale=1.0)
    for value in values:
        bet.see(value, lowest=-1.0, highest=1.0)
    return bet


def test_the_first_bet_stakes_nothing_and_the_second_follows_the_first_value() -> None:
    """mean (0 + 1) / 2 = .5, variance (.25 + .25) / 2: the bet is .5 / (.25 + .25), cut to .75."""
    assert (seen([1.0]).above, seen([1.0]).below) == (0.0, 0.0)
    two = seen([1.0, 1.0])
    assert two.above == pytest.approx(math.log(1.75))
    assert two.below == 0.0
    assert two.p_above == pytest.approx(1 / 1.75)
    assert (two.p_below, two.mean, two.count) == (1.0, 1.0, 2)
    lost = seen([1.0, -1.0])
    assert lost.above == pytest.approx(math.log(0.25))
    assert lost.p_above == 1.0


def test_the_third_bet_follows_mean_and_variance_so_far() -> None:
    """After one .1: mean .05, variance (.25 + .0025) / 2, the bet .05 / (.12625 + .0025).

    After two: mean .2 / 3, variance (.25 + .0025 + (1 / 30)^2) / 3, the bet .749208.
    """
    first = 0.05 / (0.12625 + 0.05**2)
    mean = 0.2 / 3
    second = mean / ((0.25 + 0.0025 + (0.1 - mean) ** 2) / 3 + mean**2)
    assert (first, second) == pytest.approx((0.388350, 0.749220), abs=1e-6)
    assert seen([0.1, 0.1]).above == pytest.approx(math.log(1 + first * 0.1))
    expected = math.log(1 + first * 0.1) + math.log(1 + second * 0.1)
    assert seen([0.1] * 3).above == pytest.approx(expected)
    assert seen([]).mean is None


def test_the_game_is_fair_and_rarely_won_whenever_one_stops() -> None:
    """All 2^12 sequences of a fair coin: the stake keeps its mean, and 20 times is rarely seen."""
    ends: list[float] = []
    won = 0
    for values in product((-1.0, 1.0), repeat=12):
        bet = seen(list(values))
        ends += [math.exp(bet.above), math.exp(bet.below)]
        won += bet.p_above <= 0.05
    assert sum(ends) / len(ends) == pytest.approx(1.0)
    assert 0 < won / 2**12 <= 0.05


@settings(max_examples=60, deadline=None)
@given(values=st.lists(st.floats(-1.0, 1.0), max_size=40), limit=st.floats(-0.9, 0.9))
def test_both_sides_are_mirror_images_and_no_stake_is_lost_whole(
    values: list[float], limit: float
) -> None:
    there, back = seen(values, limit=limit), seen([-value for value in values], limit=-limit)
    assert there.below == pytest.approx(back.above)
    assert there.p_above == pytest.approx(back.p_below)
    assert all(map(math.isfinite, (there.above, there.below)))
    assert min(there.p_above, there.p_below) > 0.0


def test_a_value_that_could_not_be_is_refused() -> None:
    with pytest.raises(InputError, match="outside of -1 to 1"):
        seen([1.5])
