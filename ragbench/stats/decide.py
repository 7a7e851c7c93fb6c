"""Decides whether metrics got worse: two tests against what is tolerated, for one and for many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragbench.errors import ConfigError
from ragbench.stats.bounded_mean import bounded_mean_p_value
from ragbench.stats.clusters import ClusterTotals
from ragbench.stats.corrections import holm
from ragbench.stats.decision import Change, Decision, Question
from ragbench.stats.inputs import check_share
from ragbench.stats.interval import Interval
from ragbench.stats.mean import student_interval, student_p_value
from ragbench.stats.permutation import SignFlipTest, sign_flip_tests
from ragbench.stats.power import (
    SampleSize,
    Spread,
    clusters_to_detect,
    clusters_to_rule_out,
    detectable,
)

__all__ = ["decide", "decide_family"]


def decide(
    question: Question,
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
    questions: Sequence[Question],
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
        _check(question)
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


def _check(question: Question) -> None:
    tolerance, scale = question.tolerance, question.largest_drop
    if not 0.0 <= tolerance < float("inf"):
        raise ConfigError(f"tolerance is {tolerance}: a tolerated drop is 0 or more")
    if scale is not None and not tolerance < scale < float("inf"):
        raise ConfigError(
            f"tolerance is {tolerance:g} and the largest possible drop {scale:g}: no run could "
            "ever be worse; tolerate less"
        )


def _bounds(question: Question) -> tuple[float, float] | None:
    scale = question.largest_drop
    return None if scale is None else (-scale, scale)


def _p_values_not_worse(
    samples: Sequence[ClusterTotals], questions: Sequence[Question], resamples: int, seed: int
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
    question: Question, evidence: _Evidence, *, alpha: float, power: float, family: int
) -> Decision:
    change = Change.CANNOT_TELL
    if evidence.p_worse <= alpha:
        change = Change.WORSE
    elif evidence.p_safe <= alpha:
        change = Change.NOT_WORSE
    spread = Spread.of(evidence.totals, -question.tolerance)
    found = None
    observed = unchanged = None
    if spread is not None:
        clusters = evidence.totals.clusters
        found = detectable(spread, clusters, alpha=alpha / family, power=power)
        if change is Change.CANNOT_TELL:
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
    question: Question, spread: Spread, mean: float, alpha: float, power: float, family: int
) -> SampleSize | None:
    margin = mean + question.tolerance
    if margin < 0.0:
        return clusters_to_detect(-margin, spread, alpha=alpha / family, power=power)
    scale = question.largest_drop
    reach = None if scale is None else scale - question.tolerance
    return clusters_to_rule_out(margin, spread, reach=reach, alpha=alpha, power=power)


def _reason(question: Question, evidence: _Evidence, change: Change, level: float) -> str:
    mean, tolerance = evidence.difference.mean, question.tolerance
    if mean is None:
        return "no case was measured in both runs"
    seen = f"mean difference {mean:+.4g}, tolerated {-tolerance:+.4g}"
    if change is Change.WORSE:
        return f"{seen}: a drop larger than tolerated is shown (p = {evidence.p_worse:.2g})"
    if change is Change.NOT_WORSE:
        return f"{seen}: the drop is shown to be smaller (p = {evidence.p_safe:.2g})"
    if 2.0**-evidence.totals.clusters > level:
        return f"{seen}: {evidence.totals.clusters} independent cases can never show a drop"
    return (
        f"{seen}: neither is shown (worse p = {evidence.p_worse:.2g}, "
        f"not worse p = {evidence.p_safe:.2g})"
    )
