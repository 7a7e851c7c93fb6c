"""A mean or a share with its interval."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeVar

from ragbench.core import report
from ragbench.core.validation import Share
from ragbench.errors import ConfigError, InputError
from ragbench.stats.clusters import ClusterTotals, Label, check_share

KeyT = TypeVar("KeyT", str, tuple[str, str, str])


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """A mean and a range that holds the true mean in ``confidence`` of all repetitions."""

    mean: float | None
    low: float | None
    high: float | None
    confidence: float
    """Share of repetitions whose interval holds the true mean, such as 0.95."""
    standard_error: float | None
    """Cluster-robust standard error of the mean; None with fewer than two clusters."""
    cases: int
    clusters: int

    @property
    def reported(self) -> report.Interval | None:
        """As reports hold it; None where there is none."""
        if self.low is None or self.high is None:
            return None
        return report.Interval(low=self.low, high=self.high, level=self.confidence)


@functools.lru_cache(maxsize=4096)
def student_quantile(probability: float, degrees: int) -> float:
    """The t with P(T <= t) = probability, for this many degrees of freedom.

    Every evaluation needs one, and SciPy takes a quarter of a second to load. To 1e-12 by Newton's
    method; beyond a thousand degrees by the expansion in 1 / degrees.

    Source: Abramowitz and Stegun 1964, 26.7.3 to 26.7.5.
    """
    check_share(probability, name="probability")
    if degrees < 1:
        raise ConfigError(f"degrees of freedom are {degrees}: at least 1 is needed")
    if probability < 0.5:
        return -student_quantile(1.0 - probability, degrees)
    n, z = degrees, NormalDist().inv_cdf(probability)
    if n > 1_000 and z * z < n / 60:
        terms = (
            (z**3 + z) / 4,
            (5 * z**5 + 16 * z**3 + 3 * z) / 96,
            (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
            (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92_160,
        )
        return z + math.fsum(term / n**power for power, term in enumerate(terms, 1))
    t, scale = z, math.exp(math.lgamma((n + 1) / 2) - math.lgamma(n / 2)) / math.sqrt(n * math.pi)
    for _ in range(200):  # the density falls: each step ends before the quantile, or on it
        density = scale * (1 + t * t / n) ** (-(n + 1) / 2)
        step = (probability - 0.5 - _student_share(t, n) / 2) / density
        t += step
        if abs(step) <= 1e-14 * t:
            break
    return t


def _student_share(t: float, degrees: int) -> float:
    """P(-t <= T <= t)."""
    angle = math.atan2(t, math.sqrt(degrees))
    square = degrees / (degrees + t * t)
    is_odd = degrees % 2
    term, total = (math.cos(angle) if is_odd else 1.0), 0.0
    for power in range(is_odd, degrees - 1, 2):
        total += term
        term *= square * (power + 1) / (power + 2)
    inside = math.sin(angle) * total
    return 2 / math.pi * (angle + inside) if is_odd else inside


def mean_interval(
    values: Sequence[float],
    clusters: Sequence[Label] | None = None,
    confidence: float = 0.95,
    *,
    bounds: tuple[float, float] | None = None,
) -> Interval:
    """Mean of the values and the range in which the true mean is to be expected.

    Student-t with cluster-robust standard errors. Without a spread (one cluster, or equal values
    whose scale has no ends) there is no interval.

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
    if mean is not None and error:
        reach = student_quantile(0.5 + confidence / 2, totals.clusters - 1) * error
        low, high = mean - reach, mean + reach
        if bounds is not None:
            low, high = max(low, min(bounds[0], mean)), min(high, max(bounds[1], mean))
    elif mean is not None and error is not None and bounds is not None:
        low, high = _equal_values(mean, totals.clusters, confidence, bounds)
    return Interval(
        mean=mean,
        low=low,
        high=high,
        confidence=confidence,
        standard_error=error,
        cases=totals.cases,
        clusters=totals.clusters,
    )


def student_p_value(totals: ClusterTotals, null_mean: float = 0.0) -> float:
    """One-sided p-value of "the true mean is null_mean or less" by cluster-robust Student-t.

    For the other side subtract it from 1. Equal values are evidence of nothing here: they give
    0.5, as does a single cluster or none.

    Source: Cameron & Miller 2015, section VI.D (t with clusters - 1 degrees of freedom).
    """
    from scipy.special import stdtr

    mean, error = totals.mean, totals.standard_error
    if mean is None or not error:
        return 0.5
    return float(stdtr(totals.clusters - 1, -(mean - null_mean) / error))


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


def most_frequent(counts: Mapping[KeyT, int]) -> tuple[tuple[KeyT, int], ...]:
    """What was counted, the most frequent first; what is equally frequent in its own order."""
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
