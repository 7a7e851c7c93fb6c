"""A mean with its uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Interval", "IntervalMethod"]


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
