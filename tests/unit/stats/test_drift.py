"""Bets on the fall of main, by numbers that can be checked by hand."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.stats.drift import LEAST, CaseSums, bet_on_fall, fall, stake

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
