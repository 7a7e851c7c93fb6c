"""A mean or a share with its interval."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist

from ragbench.core.validation import Share
from ragbench.errors import ConfigError, InputError
from ragbench.stats.clusters import ClusterTotals, Label, check_share


class IntervalMethod(StrEnum):
    """How the ends of an interval were found."""

    STUDENT = "student-t"
    """Student-t with cluster-robust standard errors, degrees of freedom = clusters - 1."""
    PERCENTILE = "percentile"
    """Percentiles of a bootstrap over clusters."""
    BCA = "bca"
    """Bias-corrected and accelerated percentiles of a bootstrap over clusters."""
    EQUAL_VALUES = "equal-values"
    """Exact bound for values that are all equal, from the ends of their scale."""
    NONE = "none"
    """There is no interval; the note says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """A mean and a range that holds the true mean in ``confidence`` of all repetitions."""

    mean: float | None
    """Mean over the cases; None without any."""
    low: float | None
    """Lower end; None when there is no interval."""
    high: float | None
    """Upper end; None when there is no interval."""
    confidence: float
    """Share of repetitions whose interval holds the true mean, such as 0.95."""
    standard_error: float | None
    """Cluster-robust standard error of the mean; None with fewer than two clusters."""
    cases: int
    """Number of values."""
    clusters: int
    """Number of independent observations."""
    method: IntervalMethod
    """How the ends were found."""
    note: str = ""
    """Why another method was used than the one asked for, or why there is no interval."""


# From here on the normal expansion of the quantile is exact to about 1e-14.
_MANY = 2000


def student_cdf(value: float, degrees: int) -> float:
    """P(T <= value) for Student's t with a whole number of degrees of freedom.

    Source: Abramowitz & Stegun 1964, 26.7.3 and 26.7.4 (finite sums in the angle
    ``atan(value / sqrt(degrees))``).

    Args:
        degrees: degrees of freedom, at least 1.
    """
    angle = math.atan2(value, math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    term = cosine if odd else 1.0
    terms = [] if degrees == 1 else [term]
    for step in range(3 if odd else 2, degrees - 1, 2):
        term *= cosine * cosine * (step - 1) / step
        terms.append(term)
    inside = sine * math.fsum(terms)
    share = 2.0 / math.pi * (angle + inside) if odd else inside
    return min(1.0, max(0.0, 0.5 + 0.5 * share))


@functools.lru_cache(maxsize=4096)
def student_quantile(probability: float, degrees: int) -> float:
    """The t with P(T <= t) = probability.

    Source: Newton's method on :func:`student_cdf`, started at and for many degrees of freedom
    replaced by the expansion of Abramowitz & Stegun 1964, 26.7.5.

    Args:
        probability: between 0 and 1, both excluded.
        degrees: degrees of freedom, at least 1.

    Raises:
        ConfigError: an argument is out of range.
    """
    check_share(probability, name="probability")
    if degrees < 1:
        raise ConfigError(f"degrees of freedom are {degrees}: at least 1 is needed")
    if probability < 0.5:
        return -student_quantile(1.0 - probability, degrees)
    if degrees == 1:
        return math.tan(math.pi * (probability - 0.5))
    if degrees >= _MANY:
        return _expansion(NormalDist().inv_cdf(probability), degrees)
    return _solve(probability, degrees)


def _expansion(normal: float, degrees: int) -> float:
    z, square = normal, normal * normal
    terms = (
        z * (square + 1) / 4,
        z * (5 * square**2 + 16 * square + 3) / 96,
        z * (3 * square**3 + 19 * square**2 + 17 * square - 15) / 384,
        z * (79 * square**4 + 776 * square**3 + 1482 * square**2 - 1920 * square - 945) / 92160,
    )
    return z + math.fsum(term / degrees**power for power, term in enumerate(terms, start=1))


def _solve(probability: float, degrees: int) -> float:
    """Bisection kept inside a bracket, sped up by Newton steps that stay in it."""
    low, high = 0.0, 2.0
    while student_cdf(high, degrees) < probability and high < 1e9:
        low, high = high, high * 2.0
    scale = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)
    height = math.exp(scale) / math.sqrt(degrees * math.pi)
    value = (low + high) / 2.0
    for _ in range(100):
        missing = probability - student_cdf(value, degrees)
        low, high = (value, high) if missing > 0 else (low, value)
        density = height * (1.0 + value * value / degrees) ** (-(degrees + 1) / 2)
        following = value + missing / density if density > 0 else low
        if not low <= following <= high:
            following = (low + high) / 2.0
        if abs(following - value) <= 1e-15 * max(1.0, value):
            return following
        value = following
    return value


def mean_interval(
    values: Sequence[float],
    clusters: Sequence[Label] | None = None,
    confidence: float = 0.95,
    *,
    bounds: tuple[float, float] | None = None,
) -> Interval:
    """Mean of the values and the range in which the true mean is to be expected.

    Student-t with cluster-robust standard errors. Uses the standard library only.

    Source: Miller 2024, "Adding Error Bars to Evals", sections 2.1 and 2.2; Cameron & Miller 2015.

    Args:
        confidence: share of repetitions whose interval shall hold the true mean.
    """
    return student_interval(ClusterTotals.of(values, clusters), confidence, bounds=bounds)


def student_interval(
    totals: ClusterTotals, confidence: float = 0.95, *, bounds: tuple[float, float] | None = None
) -> Interval:
    """As :func:`mean_interval`, for values that are already summed up by cluster."""
    check_share(confidence, name="confidence")
    mean, error = totals.mean, totals.standard_error
    low = high = None
    method, note = IntervalMethod.NONE, ""
    if mean is None:
        note = "no case was measured"
    elif error is None:
        note = "one cluster says nothing about the spread between clusters"
    elif error > 0.0:
        reach = student_quantile(0.5 + confidence / 2, totals.clusters - 1) * error
        low, high, method = mean - reach, mean + reach, IntervalMethod.STUDENT
        if bounds is not None:
            low, high = max(low, min(bounds[0], mean)), min(high, max(bounds[1], mean))
    elif bounds is None:
        note = "all values are equal: their spread is not known"
    else:
        low, high = _equal_values(mean, totals.clusters, confidence, bounds)
        method = IntervalMethod.EQUAL_VALUES
        note = "all values are equal: the interval follows from the ends of the scale"
    return Interval(
        mean=mean,
        low=low,
        high=high,
        confidence=confidence,
        standard_error=error,
        cases=totals.cases,
        clusters=totals.clusters,
        method=method,
        note=note,
    )


def student_p_value(totals: ClusterTotals, null_mean: float = 0.0) -> float:
    """One-sided p-value of "the true mean is null_mean or less" by cluster-robust Student-t.

    For the other side subtract it from 1. Equal values are evidence of nothing here: they give
    0.5, as does a single cluster or none.

    Source: Cameron & Miller 2015, section VI.D (t with clusters - 1 degrees of freedom).
    """
    mean, error = totals.mean, totals.standard_error
    if mean is None or not error:
        return 0.5
    return student_cdf(-(mean - null_mean) / error, totals.clusters - 1)


def _equal_values(
    mean: float, clusters: int, confidence: float, bounds: tuple[float, float]
) -> tuple[float, float]:
    """Range for n equal values: whatever differs was not met n times in a row.

    For a 0/1 metric this is the exact interval of Clopper & Pearson 1934 at its ends (the "rule
    of three"). Source for other values: Learned-Miller & Thomas 2019, whose bound takes this
    form when all values are equal.
    """
    low, high = bounds
    unseen = ((1.0 - confidence) / 2.0) ** (1.0 / clusters)
    return min(mean, low + (mean - low) * unseen), max(mean, high - (high - mean) * unseen)


def proportion_interval(
    successes: int, trials: int, confidence: float = 0.95
) -> tuple[float, float]:
    """The range in which the true share of successes is to be expected.

    Source: Clopper & Pearson 1934, "The Use of Confidence or Fiducial Limits Illustrated in the
    Case of the Binomial", by quantiles of the beta distribution. It covers at least
    ``confidence``, however few the trials are.

    Args:
        trials: independent trials; 0 gives the whole range from 0 to 1.
        confidence: share of repetitions whose interval holds the true share.
    """
    from scipy.special import betaincinv

    check_share(confidence, name="confidence")
    if not 0 <= successes <= trials:
        raise InputError(f"{successes} successes of {trials} trials: give counts that fit")
    tail = (1.0 - confidence) / 2.0
    failures = trials - successes
    low = float(betaincinv(successes, failures + 1, tail)) if successes else 0.0
    high = float(betaincinv(successes + 1, failures, 1.0 - tail)) if failures else 1.0
    return low, high


def share_of(count: int, total: int) -> Share:
    """A share with its exact 95% interval; of nothing, neither."""
    if not total:
        return Share(count=0, total=0, share=None, low=None, high=None)
    low, high = proportion_interval(count, total)
    return Share(count=count, total=total, share=count / total, low=low, high=high)
