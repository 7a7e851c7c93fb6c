"""Bets on a mean and on the fall of main: exact fairness, and numbers by hand."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import InputError
from ragbench.stats.bets import LEAST, CaseSums, MeanBet, bet_on_fall, fall, stake


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


STILL = (0.0,) * (LEAST - 1)


def sums(*scores: float | None, first: int = 0) -> CaseSums:
    found = CaseSums.of(first, scores[0] or 0.0)
    for at, score in enumerate(scores[1:], first + 1):
        found = found.then(at, score)
    return found


def test_a_line_by_least_squares() -> None:
    """Around 1.5, the mean of 0 to 3: -1.5 + .5 = -1 over 2 (1.5^2 + .5^2) = 5."""
    assert sums(1, 0, 1, 0).slope(3) == (-1.0, 5.0)
    assert sums(1, 0, 1, 0, first=7).slope(10) == (-1.0, 5.0)
    assert sums(1).slope(0) == (0.0, 0.0)
    # What was not measured had what it had on average: 1, .5 and .75 lie on no line but 0's mean.
    assert sums(1, 0, None, 0.5) == CaseSums(0, 2.0, 2.5, 0.5)


def test_the_fall_is_that_of_the_line_from_its_first_run_to_its_last() -> None:
    assert fall([sums(1.0, 0.9, 0.8, 0.7)], 3) == pytest.approx(0.3)
    assert fall([sums(1.0, 0.9, 0.8, 0.7), sums(0, 0.1, 0.2, 0.3)], 3) == pytest.approx(0.0)
    assert fall([sums(0.4)], 0) == 0.0


def test_a_bet_wins_by_how_many_standard_errors_it_fell() -> None:
    """Sixteen cases that fell alike: z = 16 / sqrt(16) = 4, and exp(4 * 4 - 8) = e^8."""
    cases = [sums(1, 1, 1, 0, 0, 0)] * 16
    labels = [None] * 16
    won = bet_on_fall(cases, labels, 5, tolerance=0.0, steps=STILL)
    assert won == pytest.approx(math.exp(8.0))
    # As one document they are one observation: z = 1.
    assert bet_on_fall(cases, ["a"] * 16, 5, tolerance=0.0, steps=STILL) == pytest.approx(
        math.exp(-4.0)
    )
    # 4.5 per case less what is tolerated of the slope, .2 / 5 * 17.5: 3.8, which moves all alike.
    assert bet_on_fall(cases, labels, 5, tolerance=0.2, steps=STILL) == pytest.approx(won)
    assert bet_on_fall(cases, labels, 5, tolerance=2.0, steps=STILL) < 1e-10
    # Runs that move as a whole explain it.
    shaken = (0.8, -0.8, 0.8, -0.8, 0.8)
    assert bet_on_fall(cases, labels, 5, tolerance=0.0, steps=shaken) < 1.0
    # Too few runs, or nothing that moved: nothing is won or lost.
    assert bet_on_fall(cases, labels, 5, tolerance=0.0, steps=STILL[1:]) == 1.0
    assert bet_on_fall([sums(*[1.0] * 6)], [None], 5, tolerance=0.0, steps=STILL) == 1.0


@given(st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=6, max_size=6), max_size=6))
def test_a_bet_is_fair_where_each_case_could_have_come_in_the_reverse_order(
    scores: list[list[float]],
) -> None:
    """The mean over all 2^k ways to turn cases around is at most 1, so that P(M >= 20) <= 1/20."""
    ways = list(product(*((one, one[::-1]) for one in scores)))
    won = [
        bet_on_fall([sums(*one) for one in way], [None] * len(way), 5, tolerance=0.0, steps=STILL)
        for way in ways
        if way
    ]
    assert math.fsum(won) <= len(won) * (1.0 + 1e-9)


def test_the_stakes_of_all_looks_are_one_unit() -> None:
    assert math.fsum(map(stake, range(1, 100))) == pytest.approx(0.99)
