"""What a sample can show, and how large one must be to show it."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from statistics import NormalDist

from ragbench.core.record import Record, replace
from ragbench.errors import ConfigError
from ragbench.stats.mean import ClusterTotals, check_share, student_quantile

POWER = 0.8
"""Share of samples in which what is looked for is found, where nothing else is said."""
_MOST_CLUSTERS = 10**9
"""Larger samples are not an answer that anybody could use."""
_WORTH = 2
"""So many times the cases at hand are advised at least."""


class Spread(Record):
    """How much a mean varies with the sample: what planning needs to know of the data."""

    per_cluster: float
    """Standard error of the mean times the square root of the number of clusters."""
    cluster_size: float
    """Cases of a cluster, on average."""
    step: float = 0.0
    """Cluster totals are whole multiples of it (as for yes/no scores); 0 when they are not."""

    @classmethod
    def of(cls, totals: ClusterTotals, null_mean: float = 0.0) -> Spread | None:
        """The spread of a sample of differences, by which larger samples are planned.

        None where no spread can be seen: below two clusters, or equal values.

        Args:
            null_mean: the mean that a test asks about, from which totals may be whole steps away.
        """
        error = totals.standard_error
        if not error:
            return None
        return cls(
            per_cluster=error * math.sqrt(totals.clusters),
            cluster_size=totals.cases / totals.clusters,
            step=_step_of_totals(totals.shifted_sums(-null_mean)),
        )


def detectable(
    spread: Spread, clusters: int, *, alpha: float = 0.05, power: float = POWER
) -> float | None:
    """The smallest true distance from the null mean that a one-sided test mostly finds.

    It tells a user what a sample of this size can show: it is found in ``power`` of all samples.

    ``SE(G) * nc + step / cases``: nc is the noncentrality at which a noncentral t with G - 1
    degrees of freedom exceeds the critical t in ``power`` of all samples. The second term is what
    a test of whole numbers loses on average because it cannot use up its level: flipped totals
    lie two steps apart, and half of that distance is lost.

    Source: Cohen 1988, "Statistical Power Analysis", chapter 2; Miller 2024, section 5;
    continuity: Fleiss, Levin & Paik 2003, section 4.

    Args:
        alpha: one-sided level.
        power: share of samples that shall find it.

    None where not even the most extreme signs reach the level: 2^-clusters > alpha.
    """
    from scipy.special import nctdtrinc

    check_share(alpha, name="alpha")
    check_share(power, name="power")
    # 2^-1000 is still above 0 as a float, and below any level.
    if math.ldexp(1.0, -min(clusters, 1000)) > alpha or clusters < 2:
        return None
    critical = student_quantile(1.0 - alpha, clusters - 1)
    noncentrality = float(nctdtrinc(clusters - 1, 1.0 - power, critical))
    standard_error = spread.per_cluster / math.sqrt(clusters)
    cases = clusters * spread.cluster_size
    return standard_error * noncentrality + spread.step / cases


def clusters_to_rule_out(
    margin: float, spread: Spread, *, reach: float | None = None, alpha: float = 0.05
) -> int | None:
    """The clusters of the smallest sample that shows "not worse" in `POWER` of all samples.

    Normal approximation of :func:`ragbench.stats.bounded_mean.bounded_mean_p_value`, whose added
    cluster lowers the total by ``reach * cluster_size`` and adds its square to the variance:
    ``G m - b - z_power s sqrt(G) >= z_alpha sqrt(G (s^2 + m^2) + b^2)`` in units of a cluster.
    Without ``reach`` it is the t test: the sample whose `detectable` distance is the margin.

    Source: Miller 2024, section 5; Learned-Miller & Thomas 2019.

    Args:
        alpha: one-sided level.

    None when no sample of a usable size does, as for a margin of 0.
    """
    check_share(alpha, name="alpha")
    if reach is not None and reach <= 0.0:
        raise ConfigError(f"reach is {reach}: it must be positive")
    if margin <= 0.0:
        return None
    is_enough = partial(_rules_out, margin=margin, spread=spread, reach=reach, alpha=alpha)
    return smallest_count(is_enough)


def _rules_out(
    clusters: int, *, margin: float, spread: Spread, reach: float | None, alpha: float
) -> bool:
    """Whether so many clusters show "not worse" in `POWER` of all samples.

    The formula is that of `clusters_to_rule_out`, which looks for the smallest such number: if a
    number is enough, each larger one has to be, too.

    Args:
        margin: how far the mean may fall.
        reach: how far one cluster can fall at most; None for the t test.
        alpha: one-sided level.
    """
    # Without a bound the test for bounded values does not apply.
    if reach is None:
        distance = detectable(spread, clusters, alpha=alpha)
        return distance is not None and distance <= margin
    z_alpha = NormalDist().inv_cdf(1.0 - alpha)
    z_power = NormalDist().inv_cdf(POWER)
    variance = spread.per_cluster**2
    # The two sides of the formula: what so many clusters show, and what the test demands.
    shown = clusters * margin - reach - z_power * math.sqrt(clusters * variance)
    demanded = z_alpha * math.sqrt(clusters * (variance + margin**2) + reach**2)
    return shown >= demanded


def cases_to_settle(
    totals: ClusterTotals, tolerance: float, *, largest_drop: float | None, alpha: float = 0.05
) -> int | None:
    """How many cases, with those at hand, would show an undecided metric to be "not worse".

    The number holds if the system has not changed. A report gives it to the user as the way out of
    "inconclusive".

    The spread is estimated from the cases at hand: it is enlarged by ``c / (z_alpha + z_power)``,
    with c the ``power`` quantile of a noncentral t with G - 1 degrees of freedom and noncentrality
    z_alpha, so that the chance holds on average over such estimates.

    Source: Julious & Owen 2006, "Sample size calculations for clinical studies allowing for
    uncertainty about the variance".

    None where no number would (nothing is tolerated), and where no spread is seen.
    """
    from scipy.special import nctdtrit

    spread = Spread.of(totals, -tolerance)
    if spread is None:
        return None
    z_alpha = NormalDist().inv_cdf(1.0 - alpha)
    z_power = NormalDist().inv_cdf(POWER)
    quantile = float(nctdtrit(totals.clusters - 1, z_alpha, POWER))
    factor = max(1.0, quantile / (z_alpha + z_power))
    enlarged = replace(spread, per_cluster=spread.per_cluster * factor)
    reach = None
    if largest_drop is not None:
        # Beyond what is tolerated: so far the added cluster lies below the limit.
        reach = largest_drop - tolerance
    clusters = clusters_to_rule_out(tolerance, enlarged, reach=reach, alpha=alpha)
    if clusters is None:
        return None
    # A few cases more would hardly settle what so many left undecided.
    clusters = max(clusters, _WORTH * totals.clusters)
    # Less a rounding error, which would ask for one case more.
    return math.ceil(clusters * enlarged.cluster_size - 1e-9)


def smallest_count(is_enough: Callable[[int], bool]) -> int | None:
    """The smallest number, from 2 on, for which a condition holds, such as a sample size.

    None when it does not hold for numbers up to `_MOST_CLUSTERS`.

    Args:
        is_enough: whether the condition holds for a number; if so, it has to hold for all larger
            ones, too.
    """
    # Doubled until the condition holds: the first such number is then above half of `high`.
    high = 2
    while not is_enough(high):
        high *= 2
        if high > _MOST_CLUSTERS:
            return None
    counts = range(high // 2 + 1, high + 1)
    # The last number is known to be enough: without it, no number is asked twice.
    position = bisect_left(counts, True, hi=len(counts) - 1, key=is_enough)
    return counts[position]


def _step_of_totals(totals: tuple[float, ...]) -> float:
    """The step of which all cluster totals are whole multiples, as for yes/no scores; else 0.

    A test of whole steps cannot use up its level, which planning has to know.

    Args:
        totals: differences from the null mean, summed up by cluster.
    """
    # By size alone: a step down is as long as one up.
    sizes = [abs(total) for total in totals]
    rounding = 1e-9 * max(sizes, default=0.0)
    step = min((size for size in sizes if size > rounding), default=0.0)
    if step == 0.0:
        return 0.0
    for size in sizes:
        nearest_multiple = step * round(size / step)
        if abs(size - nearest_multiple) > rounding:
            return 0.0
    return step
