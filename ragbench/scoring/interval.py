"""The confidence interval of a mean of scores whose cases may belong together."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.records.summaries import Interval
from ragbench.stats import mean

__all__ = ["mean_interval"]


def mean_interval(
    values: Sequence[float], clusters: Sequence[int], *, level: float = 0.95
) -> Interval | None:
    """Student-t interval of a mean, robust against values of one cluster being alike.

    See `ragbench.stats.mean.mean_interval` for the formula and its sources.

    Args:
        values: the measured scores.
        clusters: the cluster of each, as any number.
        level: confidence, between 0 and 1.

    Returns:
        None when there are fewer than two clusters, or when all of them agree exactly: from those
        no spread can be estimated, and an interval without width would claim certainty.
    """
    found = mean.mean_interval(values, clusters, level)
    if found.low is None or found.high is None or found.low == found.high:
        return None
    return Interval(low=found.low, high=found.high, level=level)
