"""Bets on a mean and on the fall of main: exact fairness, and numbers by hand."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import InputError
from ragbench.stats.bets import LEAST, CaseSums, MeanBet, bet_on_fall, fall, stake

# --- a bet on a mean


def bet_on(values: list[float], *, limit: float = 0.0) -> MeanBet:
    """A bet that has seen these values, of which each could lie from -1 to 1."""
    bet = MeanBet(limit=limit, scale=1.0)
    for value in values:
        bet.see(value, lowest=-1.0, highest=1.0)
    return bet


def test_the_first_bet_stakes_nothing() -> None:
    bet = bet_on([1.0])

    assert bet.above == 0.0
    assert bet.below == 0.0


def test_a_second_bet_that_follows_the_first_value_wins() -> None:
    """mean (0 + 1) / 2 = .5, variance (.25 + .25) / 2: the bet is .5 / (.25 + .25), cut to .75."""
    bet = bet_on([1.0, 1.0])

    assert bet.above == pytest.approx(math.log(1.75))
    assert bet.p_above == pytest.approx(1 / 1.75)
    assert bet.below == 0.0
    assert bet.p_below == 1.0
    assert bet.mean == 1.0
    assert bet.count == 2


def test_a_second_bet_that_follows_the_first_value_loses() -> None:
    """Of the stake .75 is lost."""
    bet = bet_on([1.0, -1.0])

    assert bet.above == pytest.approx(math.log(0.25))
    assert bet.p_above == 1.0


def stake_by(mean: float, variance: float) -> float:
    return mean / (variance + mean**2)


# After one .1: mean (0 + .1) / 2 = .05.
SECOND_STAKE = stake_by(mean=0.05, variance=(0.25 + 0.05**2) / 2)
# After two: mean (0 + .1 + .1) / 3 = .2 / 3, from which .1 is 1/30 away.
THIRD_SQUARES = 0.25 + 0.05**2 + (1 / 30) ** 2
THIRD_STAKE = stake_by(mean=0.2 / 3, variance=THIRD_SQUARES / 3)


def test_the_stakes_by_hand() -> None:
    assert pytest.approx(0.388350, abs=1e-6) == SECOND_STAKE
    assert pytest.approx(0.749220, abs=1e-6) == THIRD_STAKE


def test_the_second_bet_follows_mean_and_variance_so_far() -> None:
    bet = bet_on([0.1, 0.1])

    second_win = math.log(1 + SECOND_STAKE * 0.1)
    assert bet.above == pytest.approx(second_win)


def test_the_third_bet_follows_mean_and_variance_so_far() -> None:
    bet = bet_on([0.1, 0.1, 0.1])

    second_win = math.log(1 + SECOND_STAKE * 0.1)
    third_win = math.log(1 + THIRD_STAKE * 0.1)
    assert bet.above == pytest.approx(second_win + third_win)


def test_a_bet_that_has_seen_nothing_has_no_mean() -> None:
    bet = bet_on([])

    assert bet.mean is None
    assert bet.p_above == 1.0
    assert bet.p_below == 1.0


@pytest.fixture(name="coin_bets", scope="module")
def bets_on_all_sequences_of_a_coin() -> list[MeanBet]:
    """All 2^12 sequences of a fair coin."""
    sequences = product((-1.0, 1.0), repeat=12)
    return [bet_on(list(values)) for values in sequences]


def test_a_stake_keeps_its_mean_in_a_fair_game(coin_bets: list[MeanBet]) -> None:
    stakes_above = [math.exp(bet.above) for bet in coin_bets]
    stakes_below = [math.exp(bet.below) for bet in coin_bets]

    assert math.fsum(stakes_above) / 2**12 == pytest.approx(1.0)
    assert math.fsum(stakes_below) / 2**12 == pytest.approx(1.0)


def test_a_fair_game_is_rarely_won_whenever_one_stops(coin_bets: list[MeanBet]) -> None:
    won = [bet for bet in coin_bets if bet.p_above <= 0.05]

    assert 0 < len(won) <= 0.05 * 2**12


VALUES = st.lists(st.floats(-1.0, 1.0), max_size=40)
LIMITS = st.floats(-0.9, 0.9)


@settings(max_examples=60, deadline=None)
@given(values=VALUES, limit=LIMITS)
def test_the_two_sides_are_mirror_images(values: list[float], limit: float) -> None:
    bet = bet_on(values, limit=limit)
    mirrored = bet_on([-value for value in values], limit=-limit)

    assert bet.below == pytest.approx(mirrored.above)
    assert bet.p_above == pytest.approx(mirrored.p_below)


@settings(max_examples=60, deadline=None)
@given(values=VALUES, limit=LIMITS)
def test_no_stake_is_lost_whole(values: list[float], limit: float) -> None:
    bet = bet_on(values, limit=limit)

    assert math.isfinite(bet.above)
    assert math.isfinite(bet.below)
    assert bet.p_above > 0.0
    assert bet.p_below > 0.0


@pytest.mark.parametrize("value", [1.5, -1.5])
def test_a_value_that_could_not_be_is_refused(value: float) -> None:
    with pytest.raises(InputError, match="outside of -1 to 1"):
        bet_on([value])


# --- a bet on the fall of main


def sums(*scores: float | None, first: int = 0) -> CaseSums:
    """The sums of a case's scores in the runs from the number ``first`` on."""
    score_of_first, *later_scores = scores
    case_sums = CaseSums.of(first, score_of_first or 0.0)
    for run, score in enumerate(later_scores, first + 1):
        case_sums = case_sums.then(run, score)
    return case_sums


def test_a_line_by_least_squares() -> None:
    """Around 1.5, the mean of 0 to 3: -1.5 + .5 = -1 over 2 (1.5^2 + .5^2) = 5."""
    case_sums = sums(1, 0, 1, 0)

    assert case_sums.slope(3) == (-1.0, 5.0)


def test_the_number_of_the_first_run_moves_no_line() -> None:
    case_sums = sums(1, 0, 1, 0, first=7)

    assert case_sums.slope(10) == (-1.0, 5.0)


def test_a_single_run_has_no_line() -> None:
    assert sums(1).slope(0) == (0.0, 0.0)


def test_a_run_that_did_not_measure_a_case_has_its_mean_so_far() -> None:
    with_a_gap = sums(1, 0, None, 0.5)

    # 1, 0 and .5 count as 1, 0, .5 and .5.
    assert with_a_gap == CaseSums(0, 2.0, 2.5, 0.5)


def test_the_fall_is_that_of_the_line_from_its_first_run_to_its_last() -> None:
    falling_case = sums(1.0, 0.9, 0.8, 0.7)

    assert fall([falling_case], 3) == pytest.approx(0.3)


def test_a_case_that_rises_makes_up_for_one_that_falls() -> None:
    falling_case = sums(1.0, 0.9, 0.8, 0.7)
    rising_case = sums(0, 0.1, 0.2, 0.3)

    assert fall([falling_case, rising_case], 3) == pytest.approx(0.0)


def test_a_single_run_has_no_fall() -> None:
    assert fall([sums(0.4)], 0) == 0.0


# Runs 0 to 5, between which the system as a whole did not move.
STILL = (0.0,) * (LEAST - 1)
SIXTEEN_FALLS = [sums(1, 1, 1, 0, 0, 0)] * 16
APART = [None] * 16


def test_a_bet_wins_by_how_many_standard_errors_it_fell() -> None:
    """Sixteen cases that fell alike: z = 16 / sqrt(16) = 4, and exp(4 * 4 - 8) = e^8."""
    winnings = bet_on_fall(SIXTEEN_FALLS, APART, 5, tolerance=0.0, steps=STILL)

    assert winnings == pytest.approx(math.exp(8.0))


def test_cases_of_a_document_are_one_observation() -> None:
    """z = 1: exp(4 * 1 - 8) = e^-4."""
    together = ["document"] * 16

    winnings = bet_on_fall(SIXTEEN_FALLS, together, 5, tolerance=0.0, steps=STILL)

    assert winnings == pytest.approx(math.exp(-4.0))


def test_a_fall_beyond_what_is_tolerated_wins() -> None:
    """4.5 per case less what is tolerated of the slope, .2 / 5 * 17.5: 3.8, of all cases alike."""
    winnings = bet_on_fall(SIXTEEN_FALLS, APART, 5, tolerance=0.2, steps=STILL)

    assert winnings == pytest.approx(math.exp(8.0))


def test_a_fall_within_what_is_tolerated_loses() -> None:
    winnings = bet_on_fall(SIXTEEN_FALLS, APART, 5, tolerance=2.0, steps=STILL)

    assert winnings < 1e-10


def test_a_fall_that_runs_which_move_as_a_whole_explain_wins_nothing() -> None:
    shaken = (0.8, -0.8, 0.8, -0.8, 0.8)

    winnings = bet_on_fall(SIXTEEN_FALLS, APART, 5, tolerance=0.0, steps=shaken)

    assert winnings < 1.0


def test_too_few_runs_win_and_lose_nothing() -> None:
    too_few = STILL[1:]

    winnings = bet_on_fall(SIXTEEN_FALLS, APART, 5, tolerance=0.0, steps=too_few)

    assert winnings == 1.0


def test_a_case_that_did_not_move_wins_and_loses_nothing() -> None:
    still_case = sums(1, 1, 1, 1, 1, 1)

    winnings = bet_on_fall([still_case], [None], 5, tolerance=0.0, steps=STILL)

    assert winnings == 1.0


SCORES_OF_SIX_RUNS = st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=6, max_size=6)


@given(st.lists(SCORES_OF_SIX_RUNS, min_size=1, max_size=6))
def test_a_bet_is_fair_where_each_case_could_have_come_in_the_reverse_order(
    scores: list[list[float]],
) -> None:
    """The mean over all 2^k ways to turn cases around is at most 1, so that P(M >= 20) <= 1/20."""
    labels = [None] * len(scores)
    winnings: list[float] = []
    for turned in product((False, True), repeat=len(scores)):
        cases: list[CaseSums] = []
        for case_scores, is_turned in zip(scores, turned, strict=True):
            in_order = case_scores[::-1] if is_turned else case_scores
            cases.append(sums(*in_order))
        winnings.append(bet_on_fall(cases, labels, 5, tolerance=0.0, steps=STILL))

    assert math.fsum(winnings) / len(winnings) <= 1.0 + 1e-9


def test_the_stakes_of_all_looks_are_one_unit() -> None:
    stakes = [stake(look) for look in range(1, 100)]

    assert math.fsum(stakes) == pytest.approx(0.99)
