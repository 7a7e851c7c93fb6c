"""An always-valid test of a mean: look after every observation, stop when you like.

A p-value that is looked at again and again falls below 5% sooner or later, whatever is true. A bet
does not: who bets against a true hypothesis, at odds that are fair under it, multiplies the stake
by 20 with a chance of at most one in twenty, over all time (Ville's inequality).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ragbench.errors import InputError

_MOST = 0.75
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

    def see(self, value: float, *, lowest: float, highest: float) -> None:
        slack = 1e-9 * self.scale
        if not lowest - slack <= value <= highest + slack:
            raise InputError(f"a value of {value:g} lies outside of {lowest:g} to {highest:g}")
        distance = self._mean() - self.limit
        spread = _PRIOR * self.scale
        variance = (spread**2 + self._squares) / (self.count + 1)
        bet, away = distance / (variance + distance**2), value - self.limit
        most = _MOST / max(self.limit - lowest, self.scale * _NARROW)
        self.above += math.log1p(min(max(bet, 0.0), most) * away)
        most = _MOST / max(highest - self.limit, self.scale * _NARROW)
        self.below += math.log1p(max(min(bet, 0.0), -most) * away)
        self.best_above = max(self.best_above, self.above)
        self.best_below = max(self.best_below, self.below)
        self.count += 1
        self._sum += value
        self._squares += (value - self._mean()) ** 2

    @property
    def p_below(self) -> float:
        """p-value of "the mean is not below the limit", valid whenever one stops."""
        return math.exp(-max(0.0, self.best_below))

    @property
    def p_above(self) -> float:
        """p-value of "the mean is not above the limit", valid whenever one stops."""
        return math.exp(-max(0.0, self.best_above))

    @property
    def mean(self) -> float | None:
        """Of the values so far; None without any."""
        return self._sum / self.count if self.count else None

    def _mean(self) -> float:
        """Drawn to the limit by one value that lies there."""
        return (self.limit + self._sum) / (self.count + 1)
