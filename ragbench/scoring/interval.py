"""The confidence interval of a mean of scores whose cases may belong together."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ragbench.records.summaries import Interval

__all__ = ["mean_interval"]


def mean_interval(
    values: Sequence[float], clusters: Sequence[int], *, level: float = 0.95
) -> Interval | None:
    """Student-t interval of a mean, robust against values of one cluster being alike.

    With G clusters and n values of mean m, the variance of m is G / (G - 1) / n² times the sum over
    clusters of (sum of value - m)², with G - 1 degrees of freedom (Miller 2024, "Adding Error Bars
    to Evals", arXiv:2411.00640, with the usual correction for few clusters). Where each value is
    its own cluster this is the ordinary interval of a mean.

    Args:
        values: the measured scores.
        clusters: the cluster of each, as any number.
        level: confidence, between 0 and 1.

    Returns:
        None when there are fewer than two clusters, or when all of them agree exactly: from those
        no spread can be estimated, and an interval without width would claim certainty.
    """
    size = len(values)
    mean = math.fsum(values) / size if size else 0.0
    groups = len(set(clusters))
    if groups < 2:
        return None
    if groups == size:  # most datasets have no clusters: a value is its own sum
        squares = math.fsum([(value - mean) ** 2 for value in values])
    else:
        sums: dict[int, list[float]] = {}
        for value, cluster in zip(values, clusters, strict=True):
            sums.setdefault(cluster, []).append(value - mean)
        squares = math.fsum(math.fsum(deviations) ** 2 for deviations in sums.values())
    if squares <= 1e-24 * size:
        return None
    from scipy.special import stdtrit

    error = math.sqrt(groups / (groups - 1) * squares) / size
    reach = float(stdtrit(groups - 1, (1 + level) / 2)) * error
    return Interval(low=mean - reach, high=mean + reach, level=level)
