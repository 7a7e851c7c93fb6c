"""Worse, not worse, inconclusive; for one metric and a family."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum

from ragbench.core.record import Record, replace
from ragbench.errors import ConfigError
from ragbench.stats.bounded_mean import RARE_GAINS, bounded_mean_p_value, rare_gains_p_value
from ragbench.stats.exchange import exchange_p_values
from ragbench.stats.family import FINENESS, FamilyTest, SignFlipTest, family_test
from ragbench.stats.mean import Interval, check_share, mean_interval, student_p_value
from ragbench.stats.paired import PairedSample
from ragbench.stats.power import Spread, cases_to_settle, detectable


class ChangeKind(StrEnum):
    """What two runs say about one metric."""

    WORSE = "worse"
    """It fell by more than is tolerated."""
    NOT_WORSE = "not worse"
    """It did not fall by more than is tolerated."""
    CANNOT_TELL = "inconclusive"
    """The cases do not show the one or the other."""


class RegressionQuestion(Record):
    """Did this metric fall by more than is tolerated?"""

    sample: PairedSample
    """Paired differences; a negative one is a loss."""
    tolerance: float = 0.0
    """Largest drop of the mean that is accepted, in units of the metric; not negative."""
    largest_drop: float | None = None
    """Largest drop that one case can take: the length of the metric's scale, such as 1.0. None
    for metrics without bounds, such as latency."""


class Decision(Record):
    """The answer to a question, with everything that it rests on."""

    change: ChangeKind
    difference: Interval
    tolerance: float
    alpha: float
    level: float
    """Level that this test has within the family."""
    resolution: float
    """Smallest p-value that the family's test could have given; 0 where all were counted."""
    family: int
    """Tests that the correction is for; 0 where none could find anything."""
    test: SignFlipTest
    """The test for a drop larger than tolerated, alone."""
    p_worse: float
    """Its p-value, corrected for the family."""
    p_not_worse: float
    """p-value of the test that the drop is smaller than tolerated; not corrected."""
    detectable_drop: float | None
    """True drop of the mean that this sample would have called worse with the power asked for:
    the tolerance included, at the level within the family. None where it cannot be known."""
    needed: int | None
    """Cases that would settle an undecided question with the power asked for, if nothing has
    changed. None when it is settled, or when no number would."""

    @property
    def hides_rare_gains(self) -> bool:
        """A drop was found, but so few cases could have missed rare gains that make up for it."""
        return self.change is ChangeKind.CANNOT_TELL and self.p_worse <= self.alpha

    @property
    def can_show(self) -> bool:
        """Whether so many independent cases could show a drop at all."""
        return self.test.clusters > 0 and 0.5 ** min(self.test.clusters, 1000) <= self.alpha


def decide(
    question: RegressionQuestion, *, alpha: float = 0.05, resamples: int = 10_000, seed: int = 0
) -> Decision:
    """Decides whether one metric fell by more than is tolerated."""
    return decide_family([question], alpha=alpha, resamples=resamples, seed=seed)[0]


def decide_family(
    questions: Sequence[RegressionQuestion],
    *,
    alpha: float = 0.05,
    alpha_not_worse: float | None = None,
    resamples: int = 10_000,
    seed: int = 0,
) -> tuple[Decision, ...]:
    """Decides about several metrics, or slices, of the same two runs.

    Two one-sided tests against the tolerance, a question:

    - *worse*: signs of whole clusters are flipped around ``-tolerance``, in all questions jointly,
      and the largest statistic counts (`ragbench.stats.family`). Two runs of one system can be
      swapped, so *any* false alarm in the family has at most the chance ``alpha``, in samples of
      any size, however the questions depend on one another. A change that takes a little from
      nearly every case and gives much to a few, which this sample may have missed, is not a loss,
      and swapping the runs does not describe it. So where the metric's scale is known, and the
      loss so small that one case in twenty could make up for it, and at most a tenth of what
      moved moved upwards, the drop must also have a p-value of at most `RARE_GAINS` in the test
      for bounded values. Where scores are means of several runs, the present one must also stand
      out among them (`ragbench.stats.exchange`): a score and a mean cannot be swapped.
    - *not worse* (non-inferiority): the exponential-weights test for bounded values where the
      scale is known; else the larger p-value of the sign flips and of cluster-robust Student-t.
      It is not corrected: "no metric is worse" is only said when every one of the tests shows it,
      and such a claim keeps the level of each (intersection-union test).

    Neither shown: inconclusive.

    Args:
        alpha_not_worse: level of the second test where the first has only a share of it.

    Source: bounded values see :func:`ragbench.stats.bounded_mean.bounded_mean_p_value`; Berger
    1982 (intersection-union); non-inferiority: Wellek 2010, "Testing Statistical Hypotheses of
    Equivalence and Noninferiority".
    """
    check_share(alpha, name="alpha")
    for question in questions:
        tolerance, scale = question.tolerance, question.largest_drop
        if not 0.0 <= tolerance < float("inf"):
            raise ConfigError(f"tolerance is {tolerance}: a tolerated drop is 0 or more")
        if scale is not None and not tolerance < scale < float("inf"):
            raise ConfigError(
                f"tolerance is {tolerance:g} and the largest possible drop {scale:g}: no run could "
                "ever be worse; tolerate less"
            )
    family = family_test(
        [question.sample for question in questions],
        null_means=[-question.tolerance for question in questions],
        alpha=alpha,
        resamples=resamples,
        seed=seed,
    )
    p_worse = _p_values_worse(questions, family, alpha, resamples, seed)
    safe = (_p_value_not_worse(question, resamples, seed) for question in questions)
    return tuple(
        _decision(question, test, (worse, not_worse), (alpha, alpha_not_worse or alpha), family)
        for question, test, worse, not_worse in zip(
            questions, family.tests, p_worse, safe, strict=True
        )
    )


def _p_values_worse(
    questions: Sequence[RegressionQuestion],
    family: FamilyTest,
    alpha: float,
    resamples: int,
    seed: int,
) -> Sequence[float]:
    """Of the sign flips; and, where that is small and scores were repeated, of the exchange."""
    is_repeated = any(question.sample.repeats for question in questions)
    if not is_repeated or all(p_value > alpha for p_value in family.p_values):
        return family.p_values
    exchanged = exchange_p_values(
        [question.sample for question in questions],
        null_means=[-question.tolerance for question in questions],
        resamples=max(resamples, math.ceil(FINENESS / alpha)),
        seed=seed,
    )
    return [max(both) for both in zip(family.p_values, exchanged, strict=True)]


def _p_value_not_worse(question: RegressionQuestion, resamples: int, seed: int) -> float:
    sample, tolerance = question.sample, question.tolerance
    totals = sample.totals()
    if question.largest_drop is not None:
        return bounded_mean_p_value(totals, -tolerance, lowest=-question.largest_drop)
    gains = replace(sample, differences=-sample.differences)
    flips = family_test([gains], null_means=[tolerance], resamples=resamples, seed=seed)
    return max(flips.tests[0].p_value, student_p_value(totals, -tolerance))


def _decision(
    question: RegressionQuestion,
    test: SignFlipTest,
    p_values: tuple[float, float],
    levels: tuple[float, float],
    family: FamilyTest,
) -> Decision:
    (p_worse, p_not_worse), (alpha, alpha_not_worse) = p_values, levels
    totals, tolerance = question.sample.totals(), question.tolerance
    scale = question.largest_drop
    bounds = None if scale is None else (-scale, scale)
    change = ChangeKind.CANNOT_TELL
    if p_worse > alpha and p_not_worse <= alpha_not_worse:
        change = ChangeKind.NOT_WORSE
    elif p_worse <= alpha:
        rare = rare_gains_p_value(totals, tolerance, scale=scale)
        if rare is None or rare <= RARE_GAINS:
            change = ChangeKind.WORSE
    needed = found = None
    if change is ChangeKind.CANNOT_TELL:
        needed = cases_to_settle(totals, tolerance, largest_drop=scale, alpha=alpha_not_worse)
    if (spread := Spread.of(totals, -tolerance)) is not None:
        found = detectable(spread, totals.clusters, alpha=family.level)
    return Decision(
        change=change,
        # Student-t, because its intervals cover best; docs/statistics.md measures it.
        difference=mean_interval(totals, bounds=bounds),
        tolerance=tolerance,
        alpha=alpha,
        level=family.level,
        resolution=family.resolution,
        family=family.size,
        test=test,
        p_worse=p_worse,
        p_not_worse=p_not_worse,
        detectable_drop=None if found is None else found + tolerance,
        needed=needed,
    )
