"""The mean of one run's scores with its interval: cheap enough for every line of a report."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.stats.clusters import ClusterTotals, Label
from ragbench.stats.inputs import check_share
from ragbench.stats.interval import Interval, IntervalMethod
from ragbench.stats.student import student_cdf, student_quantile

__all__ = ["mean_interval", "student_interval", "student_p_value"]


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
        values: a finite score a measured case; failed and skipped cases are left out before.
        clusters: what each case shares with others; None means that it stands alone.
        confidence: share of repetitions whose interval shall hold the true mean.
        bounds: smallest and largest value that the metric can take. They cut the interval, and
            they allow one where all values are equal.

    Returns:
        An interval; its ends are None, and its note says why, for no value, one cluster, or equal
        values on a scale without bounds.

    Raises:
        InputError: a value is NaN, infinite or too large, or the lengths differ.
        ConfigError: ``confidence`` is not between 0 and 1.
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
