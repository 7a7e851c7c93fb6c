"""McNemar's exact test: did a yes/no metric change between two runs?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ragbench.errors import InputError

__all__ = ["McNemarTest", "mcnemar_test"]


@dataclass(frozen=True, kw_only=True, slots=True)
class McNemarTest:
    """Outcome of McNemar's exact test."""

    gained: int
    """Cases that failed in the baseline and pass now."""
    lost: int
    """Cases that passed in the baseline and fail now."""
    p_value: float
    """Chance of a split at least this uneven if gains and losses were equally likely."""
    alternative: Literal["less", "greater", "two-sided"]
    """``less``: the change lost more than it gained."""


def mcnemar_test(
    gained: int,
    lost: int,
    *,
    alternative: Literal["less", "greater", "two-sided"] = "two-sided",
) -> McNemarTest:
    """Tests whether gains and losses of independent yes/no cases are equally likely.

    Only the cases that changed count; among them the gains are binomial with probability 1/2.
    It is the sign-flip test of independent 0/1 scores, computed without resampling. It does not
    hold when cases share a cluster: flip signs by cluster instead
    (:func:`ragbench.stats.permutation.sign_flip_test`).

    Source: McNemar 1947, "Note on the Sampling Error of the Difference Between Correlated
    Proportions or Percentages"; exact form: Fagerland, Lydersen & Laake 2013.

    Args:
        gained: cases that failed before and pass now.
        lost: cases that passed before and fail now.
        alternative: ``less`` asks for a loss, ``greater`` for a gain.

    Raises:
        InputError: a count is negative.
    """
    from scipy.special import bdtr

    if gained < 0 or lost < 0:
        raise InputError(f"gained is {gained} and lost is {lost}: counts cannot be negative")
    changed = gained + lost
    if alternative == "two-sided":
        p_value = min(1.0, 2.0 * float(bdtr(min(gained, lost), changed, 0.5)))
    else:
        p_value = float(bdtr(gained if alternative == "less" else lost, changed, 0.5))
    return McNemarTest(gained=gained, lost=lost, p_value=p_value, alternative=alternative)
