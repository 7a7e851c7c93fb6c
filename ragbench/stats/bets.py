"""Tests that may be looked at after every observation, and stopped when you like.

A p-value that is looked at again and again falls below 5% sooner or later, whatever is true. A bet
does not: who bets against a true hypothesis, at odds that are fair under it, multiplies the stake
by 20 with a chance of at most one in twenty, over all time (Ville's inequality). So two things are
asked: does main fall, a little with each merge, and on which side of a limit does a mean lie?
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ragbench.core.record import Record
from ragbench.errors import InputError
from ragbench.stats.mean import cluster_codes

LEAST = 6
"""Runs before anything is bet: their steps show how runs move by themselves."""
_AIM = 4.0
"""How many standard errors the bet expects: the bound over the first fifty looks, about."""
_LARGEST_LOG = 600.0
"""Logarithm of the most that a bet wins, so that it stays a number."""
_CARRIED = 3.0
"""How much more a line over the runs varies where their noise carries over by half (AR(1))."""


class CaseSums(Record, kw_only=False):
    """The scores of one case over the runs of main, as far as a line through them needs them.

    Kept with the history of main, so that a new run adds one score and reads no old one.
    """

    first: int
    """Number of the run that asked it first; each later one did, too."""
    total: float
    weighted: float
    """Sum of the scores, each times the number of runs between it and the first."""
    last: float
    """The score that was measured last."""

    @classmethod
    def of(cls, run: int, score: float) -> CaseSums:
        """The sums of a case that this run is the first to ask.

        Args:
            run: the number of the run.
        """
        return cls(run, score, 0.0, score)

    def then(self, run: int, score: float | None) -> CaseSums:
        """The case's sums with the score of one more run.

        The sums are kept with the history of main, so no old score is read again.

        A case that was not measured gets its average, so that it neither rises nor falls.

        Args:
            run: the number of the run, one more than that of the run before.
            score: None where the case was not measured.
        """
        # Each run since the first has a value, so this is also the number of values so far.
        age = run - self.first
        if score is None:
            value = self.total / age
            last = self.last
        else:
            value = score
            last = score
        return CaseSums(self.first, self.total + value, self.weighted + age * value, last)

    def slope(self, run: int) -> tuple[float, float]:
        """Numerator and denominator of the slope of a line through the case's scores.

        The line is that of least squares, over the numbers of the runs. Cases are added up by these
        two parts, so they are returned apart.

        Args:
            run: the number of the latest run.
        """
        count = run - self.first + 1
        middle = (count - 1) / 2.0
        rise = self.weighted - middle * self.total
        # The sum of the squared distances of the runs from the middle one.
        width = count * (count * count - 1) / 12.0
        return rise, width


def fall(cases: Sequence[CaseSums], run: int) -> float:
    """By how much the line through the scores of all cases fell since the oldest case came in.

    The fall is in units of the metric, negative where the line rose: the drift of main that many
    small drops add up to.

    Args:
        run: the number of the latest run.
    """
    slopes = [case.slope(run) for case in cases]
    width = math.fsum(width for _, width in slopes)
    if not width:
        # All cases were asked once: no line goes through one point.
        return 0.0
    slope = math.fsum(rise for rise, _ in slopes) / width
    span = run - min(case.first for case in cases)
    return -slope * span


def bet_on_fall(
    cases: Sequence[CaseSums],
    labels: Sequence[str | None],
    run: int,
    *,
    tolerance: float,
    steps: Sequence[float],
) -> float:
    """The value of one unit that was bet on "the line of main fell by more than tolerated".

    The value is evidence that may be looked at after every merge: main may fall a little with each,
    which no single comparison shows.

    With T_c the numerator of the slope over the cases of cluster c, less what is tolerated, S their
    sum and V the sum of their squares: ``exp(a z - a^2 / 2)`` with ``z = -S / sqrt(V)`` and a = 4.
    If the runs could have come in any order, then also in the reverse one, which turns the sign of
    T_c; so the expectation is at most 1, because cosh(x) <= exp(x^2 / 2), and smaller where
    something is tolerated.

    What moves all cases of a run together is not seen in V. So the spread of the steps from run to
    run, where it exceeds what the cases explain by more than a standard error, is added threefold:
    by so much a line varies more where the noise of runs carries over by half to the next.

    Source: de la Pena 1999, "A General Class of Exponential Inequalities for Martingales and
    Ratios"; bets that are looked at again and again: Ramdas, Grunwald, Vovk & Shafer 2023,
    "Game-Theoretic Statistics and Safe Anytime-Valid Inference".

    Args:
        labels: what a case shares with others; None: nothing.
        run: number of the latest run.
        tolerance: how far the line may fall over all runs.
        steps: mean change of the cases from each run to the next.
    """
    if len(steps) < LEAST - 1:
        return 1.0
    span = run - min(case.first for case in cases)
    totals: dict[int, float] = {}  # T_c of each cluster
    width = 0.0
    for case, code in zip(cases, cluster_codes(labels), strict=True):
        rise, width_of_case = case.slope(run)
        # What a line that fell by just the tolerance would be short of in the numerator.
        tolerated = tolerance / span * width_of_case
        totals[code] = totals.get(code, 0.0) + rise + tolerated
        width += width_of_case
    squares = math.fsum(total * total for total in totals.values())
    # No more than rounding: nothing moved, so nothing is won or lost.
    if squares <= (1e-9 * width) ** 2:
        return 1.0

    mean = math.fsum(steps) / len(steps)
    spread = math.fsum((step - mean) ** 2 for step in steps) / (len(steps) - 1)
    # The variance of the mean of one run: by the cases alone, and by what all of them share. A step
    # has that of two runs, and its spread exceeds it by a standard error through chance alone.
    of_cases = squares / (width * len(cases))
    by_chance = 1.0 + math.sqrt(2.0 / (len(steps) - 1))
    shared = max(0.0, spread - 2.0 * of_cases * by_chance)
    variance = squares + _CARRIED * shared * width * len(cases)
    z = -math.fsum(totals.values()) / math.sqrt(variance)
    log_of_stake = _AIM * z - _AIM**2 / 2.0
    return math.exp(min(log_of_stake, _LARGEST_LOG))


def stake(look: int) -> float:
    """The share of the whole stake that belongs to a look at the history, from 1.

    All shares add up to 1. Each bet has an expectation of at most 1, however it hangs together with
    the others; so has the sum of bets weighed by these shares. The sum never falls, so the chance
    that it ever reaches 1 / alpha is at most alpha (Markov's inequality). The evidence of past
    looks is stored with these shares: other shares for later looks would not add up to 1 with them.
    """
    return 1.0 / (look * (look + 1.0))


_AT_STAKE = 0.75
"""Share of the stake that a single bet can lose, at most."""
_PRIOR = 0.5
"""Spread that is assumed before anything was seen, as a share of the scale; counts as one value."""
_NARROW = 1e-3
"""Share of the scale that a bet never takes a value to be closer to the limit than."""


@dataclass(kw_only=True, slots=True)
class MeanBet:
    """Two bets on the mean of bounded values: that it lies below a limit, and that it lies above.

    Each value's mean, given all that came before, must be the same number; how a value is drawn
    may depend on what came before. The stake is multiplied by ``1 + bet * (value - limit)``, the
    bet against the other side being the one that grew the stake fastest in the past (aGRAPA):
    ``(m - limit) / (v + (m - limit)^2)`` with m and v the mean and the variance so far, cut so that
    no value can take more than three quarters of the stake.

    Source: Waudby-Smith & Ramdas 2024, "Estimating means of bounded random variables by betting",
    section 4 and appendix B.3; Ville 1939.
    """

    limit: float
    """Which side of it the mean lies on is asked."""
    scale: float
    """How far values lie apart, about: what the first bets assume of their spread."""
    below: float = 0.0
    """Logarithm of the stake of the bet that the mean lies below the limit."""
    above: float = 0.0
    """Logarithm of the stake of the bet that it lies above."""
    best_below: float = 0.0
    """The largest that ``below`` has been: evidence that was there once stays."""
    best_above: float = 0.0
    """The largest that ``above`` has been."""
    count: int = 0
    """Values so far."""
    _sum: float = 0.0
    _squares: float = 0.0
    """Of the distances between each value and the cautious mean when it came."""

    def see(self, value: float, *, lowest: float, highest: float) -> None:
        """Bets on the next value, then takes it into the stakes and the mean.

        The order counts: a bet may rest on past values alone, or the p-values are not valid.

        Args:
            lowest: the smallest that this value could be.
            highest: the largest that it could be.

        Raises:
            InputError: the value is not between them.
        """
        # Rounding may carry a value a little beyond its ends.
        slack = 1e-9 * self.scale
        if not lowest - slack <= value <= highest + slack:
            raise InputError(f"a value of {value:g} lies outside of {lowest:g} to {highest:g}")
        # The bet depends on what came before, and not yet on this value.
        distance = self._cautious_mean() - self.limit
        assumed_spread = _PRIOR * self.scale
        variance = (assumed_spread**2 + self._squares) / (self.count + 1)
        bet = distance / (variance + distance**2)
        # A bet on "above" loses most at the lowest value, one on "below" at the highest: the stakes
        # are capped by these two losses.
        most_above = _AT_STAKE / max(self.limit - lowest, self.scale * _NARROW)
        most_below = _AT_STAKE / max(highest - self.limit, self.scale * _NARROW)
        bet_above = min(max(bet, 0.0), most_above)
        bet_below = max(min(bet, 0.0), -most_below)

        away = value - self.limit
        self.above += math.log1p(bet_above * away)
        self.below += math.log1p(bet_below * away)
        self.best_above = max(self.best_above, self.above)
        self.best_below = max(self.best_below, self.below)
        self.count += 1
        self._sum += value
        self._squares += (value - self._cautious_mean()) ** 2

    @property
    def p_below(self) -> float:
        """p-value of "the mean is not below the limit", valid whenever one stops.

        Small values say that the mean lies below. Evidence that was there once stays.
        """
        return math.exp(-max(0.0, self.best_below))

    @property
    def p_above(self) -> float:
        """p-value of "the mean is not above the limit", valid whenever one stops.

        Small values say that the mean lies above. Evidence that was there once stays.
        """
        return math.exp(-max(0.0, self.best_above))

    @property
    def mean(self) -> float | None:
        """The mean of the values that were bet on so far; None without any.

        A report shows it beside the p-values of the two sides.
        """
        if not self.count:
            return None
        return self._sum / self.count

    def _cautious_mean(self) -> float:
        """The mean of the values so far with one more value at the limit that is bet against.

        That added value keeps the first bets, which know little, small. A bet may go by any mean
        that rests on past values alone.
        """
        return (self.limit + self._sum) / (self.count + 1)
