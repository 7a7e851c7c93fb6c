"""Worse, not worse, or cannot tell: the question about one metric, and its answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ragbench.stats.interval import Interval
from ragbench.stats.paired import PairedSample
from ragbench.stats.permutation import SignFlipTest
from ragbench.stats.power import SampleSize

__all__ = ["Change", "Decision", "Question"]


class Change(StrEnum):
    """What two runs say about one metric."""

    WORSE = "worse"
    """It fell by more than is tolerated."""
    NOT_WORSE = "not worse"
    """It did not fall by more than is tolerated."""
    CANNOT_TELL = "cannot tell"
    """The cases do not show the one or the other."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """Did this metric fall by more than is tolerated?"""

    sample: PairedSample
    """Paired differences; a negative one is a loss."""
    tolerance: float = 0.0
    """Largest drop of the mean that is accepted, in units of the metric; not negative."""
    largest_drop: float | None = None
    """Largest drop that one case can take: the length of the metric's scale, such as 1.0. None
    for metrics without bounds, such as latency."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """The answer to a question, with everything that it rests on."""

    change: Change
    """The answer."""
    reason: str
    """The answer's ground in a sentence."""
    difference: Interval
    """Mean paired difference with its two-sided interval."""
    tolerance: float
    """Largest drop of the mean that is accepted."""
    alpha: float
    """Level of each one-sided test."""
    test: SignFlipTest
    """The test for a drop larger than tolerated."""
    p_worse: float
    """Its p-value, corrected for the number of metrics in the family (Holm)."""
    p_not_worse: float
    """p-value of the test that the drop is smaller than tolerated; not corrected."""
    detectable_drop: float | None
    """True drop of the mean that this sample would have called worse with the power asked for:
    the tolerance included, at the level left by the correction. None where it cannot be known."""
    needed_as_observed: SampleSize | None
    """Sample that would settle an undecided question if the true difference were the observed
    one. None when it is settled, or when no sample would."""
    needed_if_unchanged: SampleSize | None
    """Sample that would show "not worse" if nothing had changed. None when the question is
    settled, or when no sample would (nothing is tolerated)."""
