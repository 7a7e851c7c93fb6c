"""Worse, not worse, cannot tell; for one metric and a family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ragbench.errors import ConfigError, InputError
from ragbench.stats.bounded_mean import bounded_mean_p_value
from ragbench.stats.clusters import ClusterTotals, check_share
from ragbench.stats.mean import Interval, student_interval, student_p_value
from ragbench.stats.paired import PairedSample
from ragbench.stats.permutation import SignFlipTest, sign_flip_tests
from ragbench.stats.power import (
    SampleSize,
    Spread,
    clusters_to_detect,
    clusters_to_rule_out,
    detectable,
)

__all__ = [
    "ChangeKind",
    "Decision",
    "RegressionQuestion",
    "benjamini_hochberg",
    "decide",
    "decide_family",
    "holm",
]


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values that control the chance of *any* false alarm, however tests correlate.

    The k-th smallest of m p-values is multiplied by ``m - k + 1`` and raised to the largest one
    before it.

    Source: Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure".

    Args:
        p_values: between 0 and 1.

    Returns:
        Adjusted p-values in the order given, at most 1.

    Raises:
        InputError: a p-value is not between 0 and 1.
    """
    _check_p_values(p_values)
    count, running = len(p_values), 0.0
    adjusted = [0.0] * count
    for rank, position in enumerate(sorted(range(count), key=p_values.__getitem__)):
        running = max(running, min(1.0, (count - rank) * p_values[position]))
        adjusted[position] = running
    return tuple(adjusted)


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values that control the expected *share* of false alarms among the alarms.

    The k-th smallest of m p-values is multiplied by ``m / k`` and lowered to the smallest one
    after it. Holds for independent and for positively dependent tests.

    Source: Benjamini & Hochberg 1995, "Controlling the False Discovery Rate"; dependence:
    Benjamini & Yekutieli 2001.

    Args:
        p_values: between 0 and 1.

    Returns:
        Adjusted p-values in the order given, at most 1.

    Raises:
        InputError: a p-value is not between 0 and 1.
    """
    _check_p_values(p_values)
    count, running = len(p_values), 1.0
    adjusted = [0.0] * count
    order = sorted(range(count), key=p_values.__getitem__)
    for rank in range(count, 0, -1):
        position = order[rank - 1]
        running = min(running, count / rank * p_values[position])
        adjusted[position] = running
    return tuple(adjusted)


def _check_p_values(p_values: Sequence[float]) -> None:
    for position, p_value in enumerate(p_values):
        if not 0.0 <= p_value <= 1.0:
            raise InputError(f"p-value {position} is {p_value}: it must lie between 0 and 1")


class ChangeKind(StrEnum):
    """What two runs say about one metric."""

    WORSE = "worse"
    """It fell by more than is tolerated."""
    NOT_WORSE = "not worse"
    """It did not fall by more than is tolerated."""
    CANNOT_TELL = "cannot tell"
    """The cases do not show the one or the other."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RegressionQuestion:
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

    change: ChangeKind
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


def decide(
    question: RegressionQuestion,
    *,
    alpha: float = 0.05,
    power: float = 0.8,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Decision:
    """Decides about one metric; see :func:`decide_family`."""
    return decide_family(
        [question],
        alpha=alpha,
        power=power,
        confidence=confidence,
        resamples=resamples,
        seed=seed,
    )[0]


def decide_family(
    questions: Sequence[RegressionQuestion],
    *,
    alpha: float = 0.05,
    power: float = 0.8,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> tuple[Decision, ...]:
    """Decides about several metrics of the same two runs.

    Two one-sided tests against the tolerance, a metric:

    - *worse*: signs of whole clusters are flipped around ``-tolerance``. Two runs of one system
      can be swapped, so its false alarms stay at or below ``alpha`` in samples of any size. The
      p-values are corrected by Holm: *any* false alarm in the family has at most that chance,
      however the metrics correlate.
    - *not worse* (non-inferiority): the exponential-weights test for bounded values where the
      scale is known; else the larger p-value of the sign flips and of cluster-robust Student-t.
      It is not corrected: "no metric is worse" is only said when every one of the tests shows it,
      and such a claim keeps the level of each (intersection-union test).

    Neither shown: cannot tell.

    Source: sign flips see :func:`ragbench.stats.permutation.sign_flip_test`; bounded values see
    :func:`ragbench.stats.bounded_mean.bounded_mean_p_value`; Holm 1979; Berger 1982
    (intersection-union); non-inferiority: Wellek 2010, "Testing Statistical Hypotheses of
    Equivalence and Noninferiority".

    Args:
        questions: a question a metric; they form one family.
        alpha: level of the tests.
        power: share of samples in which the detectable drop is found; also for sample sizes.
        confidence: of the two-sided intervals of the differences.
        resamples: arrangements of signs drawn where they are too many to count.
        seed: of the draws.

    Returns:
        A decision a question, in order. Apart from the correction, each is independent of the
        others.

    Raises:
        InputError: a difference is NaN, infinite, too large, or below the scale.
        ConfigError: an option is out of range; a tolerance is negative, or as large as the scale,
            so that nothing could ever be worse.
    """
    check_share(alpha, name="alpha")
    check_share(power, name="power")
    for question in questions:
        _check_question(question)
    samples = [question.sample.totals() for question in questions]
    nulls = [-question.tolerance for question in questions]
    tests = sign_flip_tests(
        samples, null_means=nulls, alternative="less", resamples=resamples, seed=seed
    )
    adjusted = holm([test.p_value for test in tests])
    # Student-t, because its intervals cover best; docs/statistics.md holds the measurement.
    intervals = [
        student_interval(sample, confidence, bounds=_bounds(question))
        for sample, question in zip(samples, questions, strict=True)
    ]
    safe = _p_values_not_worse(samples, questions, resamples, seed)
    return tuple(
        _decision(
            question,
            _Evidence(
                totals=totals, difference=interval, test=test, p_worse=worse, p_safe=not_worse
            ),
            alpha=alpha,
            power=power,
            family=len(questions),
        )
        for question, totals, interval, test, worse, not_worse in zip(
            questions, samples, intervals, tests, adjusted, safe, strict=True
        )
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Evidence:
    totals: ClusterTotals
    difference: Interval
    test: SignFlipTest
    p_worse: float
    p_safe: float


def _check_question(question: RegressionQuestion) -> None:
    tolerance, scale = question.tolerance, question.largest_drop
    if not 0.0 <= tolerance < float("inf"):
        raise ConfigError(f"tolerance is {tolerance}: a tolerated drop is 0 or more")
    if scale is not None and not tolerance < scale < float("inf"):
        raise ConfigError(
            f"tolerance is {tolerance:g} and the largest possible drop {scale:g}: no run could "
            "ever be worse; tolerate less"
        )


def _bounds(question: RegressionQuestion) -> tuple[float, float] | None:
    scale = question.largest_drop
    return None if scale is None else (-scale, scale)


def _p_values_not_worse(
    samples: Sequence[ClusterTotals],
    questions: Sequence[RegressionQuestion],
    resamples: int,
    seed: int,
) -> list[float]:
    p_values = [1.0] * len(samples)
    unbounded: list[int] = []
    for position, (sample, question) in enumerate(zip(samples, questions, strict=True)):
        if question.largest_drop is None:
            unbounded.append(position)
        else:
            p_values[position] = bounded_mean_p_value(
                sample, -question.tolerance, lowest=-question.largest_drop
            )
    flips = sign_flip_tests(
        [samples[position] for position in unbounded],
        null_means=[-questions[position].tolerance for position in unbounded],
        alternative="greater",
        resamples=resamples,
        seed=seed,
    )
    for position, flip in zip(unbounded, flips, strict=True):
        student = student_p_value(samples[position], -questions[position].tolerance)
        p_values[position] = max(flip.p_value, student)
    return p_values


def _decision(
    question: RegressionQuestion, evidence: _Evidence, *, alpha: float, power: float, family: int
) -> Decision:
    change = ChangeKind.CANNOT_TELL
    if evidence.p_worse <= alpha:
        change = ChangeKind.WORSE
    elif evidence.p_safe <= alpha:
        change = ChangeKind.NOT_WORSE
    spread = Spread.of(evidence.totals, -question.tolerance)
    found = None
    observed = unchanged = None
    if spread is not None:
        clusters = evidence.totals.clusters
        found = detectable(spread, clusters, alpha=alpha / family, power=power)
        if change is ChangeKind.CANNOT_TELL:
            observed = _needed(question, spread, evidence.totals.mean or 0.0, alpha, power, family)
            unchanged = _needed(question, spread, 0.0, alpha, power, family)
    return Decision(
        change=change,
        reason=_reason(question, evidence, change, alpha / family),
        difference=evidence.difference,
        tolerance=question.tolerance,
        alpha=alpha,
        test=evidence.test,
        p_worse=evidence.p_worse,
        p_not_worse=evidence.p_safe,
        detectable_drop=None if found is None else found + question.tolerance,
        needed_as_observed=observed,
        needed_if_unchanged=unchanged,
    )


def _needed(
    question: RegressionQuestion,
    spread: Spread,
    mean: float,
    alpha: float,
    power: float,
    family: int,
) -> SampleSize | None:
    margin = mean + question.tolerance
    if margin < 0.0:
        return clusters_to_detect(-margin, spread, alpha=alpha / family, power=power)
    scale = question.largest_drop
    reach = None if scale is None else scale - question.tolerance
    return clusters_to_rule_out(margin, spread, reach=reach, alpha=alpha, power=power)


def _reason(
    question: RegressionQuestion, evidence: _Evidence, change: ChangeKind, level: float
) -> str:
    mean, tolerance = evidence.difference.mean, question.tolerance
    if mean is None:
        return "no case was measured in both runs"
    seen = f"mean difference {mean:+.4g}, tolerated {-tolerance:+.4g}"
    if change is ChangeKind.WORSE:
        return f"{seen}: a drop larger than tolerated is shown (p = {evidence.p_worse:.2g})"
    if change is ChangeKind.NOT_WORSE:
        return f"{seen}: the drop is shown to be smaller (p = {evidence.p_safe:.2g})"
    if 2.0**-evidence.totals.clusters > level:
        return f"{seen}: {evidence.totals.clusters} independent cases can never show a drop"
    return (
        f"{seen}: neither is shown (worse p = {evidence.p_worse:.2g}, "
        f"not worse p = {evidence.p_safe:.2g})"
    )
