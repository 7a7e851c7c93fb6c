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
from ragbench.stats.mean import (
    ClusterTotals,
    MeanInterval,
    check_share,
    mean_interval,
    student_p_value,
)
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
    difference: MeanInterval
    tolerance: float
    alpha: float
    strictest: float
    """The smaller level of the two at which a loss has to stand out."""
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
    is_worse: bool
    """Whether it shows a loss, against what is tolerated and against none."""
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
        """Whether a drop was found that rare gains, unseen in so few cases, could make up for.

        Then the decision stays "inconclusive", and a report says why.
        """
        return self.change is ChangeKind.CANNOT_TELL and self.is_worse

    @property
    def can_show(self) -> bool:
        """Whether so many independent cases could show a drop at all, however large it is.

        If not, the decision's "inconclusive" says nothing of the system. Of n flipped signs one in
        2^n is all losses: no p-value is smaller. Beyond 1,000 the power would be 0 in a float.
        """
        clusters = self.test.clusters
        if clusters == 0:
            return False
        smallest_p_value = 0.5 ** min(clusters, 1000)
        return smallest_p_value <= self.strictest


def decide(
    question: RegressionQuestion, *, alpha: float = 0.05, resamples: int = 10_000, seed: int = 0
) -> Decision:
    """Decides whether one metric of two runs fell by more than is tolerated.

    The one question is a family of its own; see `decide_family`.
    """
    return decide_family([question], alpha=alpha, resamples=resamples, seed=seed)[0]


def decide_family(
    questions: Sequence[RegressionQuestion],
    *,
    alpha: float = 0.05,
    alpha_not_worse: float | None = None,
    alpha_unchanged: float | None = None,
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
      Its p-value is not corrected: "no metric is worse" is only said when every one of the tests
      shows it, and such a claim keeps the level of each (intersection-union test).

    Neither shown: inconclusive.

    Args:
        alpha_not_worse: level of the second test where the first has only a share of it.
        alpha_unchanged: level at which a loss must stand out from no change, too; None where only
            what is tolerated counts. In a small sample a tolerance is small beside the noise, and
            a system that did not change would be called worse nearly as often as one that lost
            exactly what is tolerated.

    Source: bounded values see :func:`ragbench.stats.bounded_mean.bounded_mean_p_value`; Berger
    1982 (intersection-union); non-inferiority: Wellek 2010, "Testing Statistical Hypotheses of
    Equivalence and Noninferiority".
    """
    check_share(alpha, name="alpha")
    for question in questions:
        tolerance = question.tolerance
        scale = question.largest_drop
        if not 0.0 <= tolerance < float("inf"):
            raise ConfigError(f"tolerance is {tolerance}: a tolerated drop is 0 or more")
        if scale is not None and not tolerance < scale < float("inf"):
            raise ConfigError(
                f"tolerance is {tolerance:g} and the largest possible drop {scale:g}: no run could "
                "ever be worse; tolerate less"
            )
    # The limit of a loss: a change of the mean below it is more than tolerated.
    tolerated = [-question.tolerance for question in questions]
    family, p_worse = _p_values_of_losses(questions, tolerated, alpha, resamples, seed)
    is_worse = [p_value <= alpha for p_value in p_worse]
    if alpha_unchanged is not None and any(is_worse):
        # The second test can only take away: where nothing looks worse, it is not needed.
        no_change = [0.0] * len(questions)
        _, p_changed = _p_values_of_losses(questions, no_change, alpha_unchanged, resamples, seed)
        for place, p_value in enumerate(p_changed):
            is_worse[place] = is_worse[place] and p_value <= alpha_unchanged
    strictest = alpha
    if alpha_unchanged is not None:
        strictest = min(alpha, alpha_unchanged)
    decisions: list[Decision] = []
    for place, question in enumerate(questions):
        decisions.append(
            _decision_of_tests(
                question,
                family,
                place,
                p_worse=p_worse[place],
                is_worse=is_worse[place],
                p_not_worse=_p_value_not_worse(question, resamples, seed),
                alpha=alpha,
                strictest=strictest,
                alpha_not_worse=alpha_not_worse or alpha,
            )
        )
    return tuple(decisions)


def _p_values_of_losses(
    questions: Sequence[RegressionQuestion],
    null_means: Sequence[float],
    alpha: float,
    resamples: int,
    seed: int,
) -> tuple[FamilyTest, Sequence[float]]:
    """The sign-flip tests of a family, and each question's p-value of a loss beyond its null mean.

    Where a p-value is small and scores were repeated, that of the exchange test counts if it is
    larger: a mean of several runs cannot be swapped with one score.

    Args:
        null_means: for each question the change that does not count as a loss, 0 or below.
    """
    samples = [question.sample for question in questions]
    family = family_test(
        samples, null_means=null_means, alpha=alpha, resamples=resamples, seed=seed
    )
    is_repeated = any(sample.repeats for sample in samples)
    # The larger p-value counts: where none is small, the second test can change nothing.
    if not is_repeated or min(family.p_values, default=1.0) > alpha:
        return family, family.p_values
    exchanged = exchange_p_values(
        samples,
        null_means=null_means,
        # So many draws that a p-value of the size of alpha rests on `FINENESS` of them, not on one.
        resamples=max(resamples, math.ceil(FINENESS / alpha)),
        seed=seed,
    )
    larger = list(map(max, family.p_values, exchanged))
    return family, larger


def _p_value_not_worse(question: RegressionQuestion, resamples: int, seed: int) -> float:
    """p-value of "the metric fell by more than is tolerated, or by as much".

    If it is small, "not worse" is shown. Where the scale is known, the test for bounded values is
    used; else the larger of two p-values, since each alone trusts the spread that it sees.
    """
    sample = question.sample
    tolerance = question.tolerance
    totals = sample.totals()
    if question.largest_drop is not None:
        return bounded_mean_p_value(totals, -tolerance, lowest=-question.largest_drop)
    # Sign flips find losses: with all signs turned a gain is a loss.
    # The turned mean below the tolerance means that the metric fell by less than it.
    gains = replace(sample, differences=-sample.differences)
    flips = family_test([gains], null_means=[tolerance], resamples=resamples, seed=seed)
    p_of_flips = flips.tests[0].p_value
    return max(p_of_flips, student_p_value(totals, -tolerance))


def _decision_of_tests(
    question: RegressionQuestion,
    family: FamilyTest,
    place: int,
    *,
    p_worse: float,
    is_worse: bool,
    p_not_worse: float,
    alpha: float,
    strictest: float,
    alpha_not_worse: float,
) -> Decision:
    """The decision about one question, from the p-values that the tests of its family gave.

    A loss that a few unseen gains could make up for is not called worse: it stays undecided.

    Args:
        family: the sign-flip tests of all questions, and `place` is that of this one.
        p_worse: of a loss beyond the tolerance, corrected for the family.
        is_worse: whether a loss is shown, before rare gains are considered.
        p_not_worse: of the test that the drop is smaller than tolerated.
        alpha: level of the family.
        strictest: the smaller level of the two at which a loss has to stand out.
        alpha_not_worse: level of "not worse".
    """
    totals = question.sample.totals()
    tolerance = question.tolerance
    scale = question.largest_drop
    # A case's difference lies between the whole scale lost and the whole scale won.
    bounds: tuple[float, float] | None = None
    if scale is not None:
        bounds = (-scale, scale)
    change = ChangeKind.CANNOT_TELL
    if is_worse:
        rare = rare_gains_p_value(totals, tolerance, scale=scale)
        if rare is None or rare <= RARE_GAINS:
            change = ChangeKind.WORSE
    # A loss that stood out from the tolerance and not from no change is neither of the two.
    elif p_worse > alpha and p_not_worse <= alpha_not_worse:
        change = ChangeKind.NOT_WORSE
    needed = None
    if change is ChangeKind.CANNOT_TELL:
        needed = cases_to_settle(totals, tolerance, largest_drop=scale, alpha=alpha_not_worse)
    return Decision(
        change=change,
        # Student-t, because its intervals cover best; docs/statistics.md measures it.
        difference=mean_interval(totals, bounds=bounds),
        tolerance=tolerance,
        alpha=alpha,
        strictest=strictest,
        level=family.level,
        resolution=family.resolution,
        family=family.size,
        test=family.tests[place],
        p_worse=p_worse,
        is_worse=is_worse,
        p_not_worse=p_not_worse,
        detectable_drop=_detectable_drop(totals, tolerance, family.level, strictest / alpha),
        needed=needed,
    )


def _detectable_drop(
    totals: ClusterTotals, tolerance: float, level: float, share: float
) -> float | None:
    """The smallest true drop of the mean that would be called worse in most samples like this one.

    A user of an undecided gate sees by it which losses so few cases could show. It mirrors the rule
    by which a change is called worse: the drop has to stand out from the tolerated one and, at the
    family's stricter level, from no change as well. "Most" is the power of `detectable`. None where
    the sample shows no spread, or is too small for any drop.

    Args:
        level: of this test within its family.
        share: of that level, for standing out from no change.
    """
    # Differences below 0 are losses, so the tolerated drop lies at minus the tolerance.
    beyond_tolerance = Spread.of(totals, -tolerance)
    beyond_none = Spread.of(totals)
    if beyond_tolerance is None or beyond_none is None:
        return None
    from_tolerance = detectable(beyond_tolerance, totals.clusters, alpha=level)
    from_none = detectable(beyond_none, totals.clusters, alpha=level * share)
    if from_tolerance is None or from_none is None:
        return None
    # One distance counts from what is tolerated, the other from no change.
    return max(from_tolerance + tolerance, from_none)
