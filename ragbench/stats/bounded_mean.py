"""Is the mean above a limit, whatever the distribution, when values cannot fall below a bound?

A t test or a bootstrap trusts the spread that it sees. Where most cases do not change and a few
could break completely, a sample without such a case shows no spread at all, and "not worse" would
be declared far too often. This test adds one cluster in which everything broke.

Turned around, it asks whether gains so rare that none was seen could make up for a loss. Swapping
two runs describes noise, and not a change that takes a little from nearly every case and gives much
to a few: its mean may not have moved, and a sample that holds none of the few is certain of a loss.
"""

from __future__ import annotations

import math
from collections import Counter

from ragbench.errors import ConfigError, InputError
from ragbench.plugins import Floats, np
from ragbench.stats.mean import ClusterTotals

_STEP = 1.0 / 16.0
"""Of the sum over a grid: halving it changes a p-value of 1e-3 by 1e-14, one of 1e-11 by 1e-17."""
_NEGLIGIBLE = 1e-17
"""The first term below this share of the sum ends it."""
RARE_GAINS = 0.15
"""Largest p-value that a loss may keep against rare large gains; see `decide_family`."""
_RARE_SHARE = 0.05
"""Up to this share of clusters that gain, gains count as rare."""
_FEW_UPWARD = 0.1
"""Up to this share of upward moves, of all that moved, rare gains are looked for."""


def bounded_mean_p_value(totals: ClusterTotals, null_mean: float, *, lowest: float) -> float:
    """One-sided p-value of "the true mean is null_mean or less" for values of at least lowest.

    The gate shows "not worse" by it, whatever the distribution: a sample in which no case broke
    does not prove that none can.

    With z_c the total of ``value - null_mean`` in cluster c, z_0 = ``lowest - null_mean`` times
    the largest cluster size (one more cluster, in which every case fell to the bound), and E
    independent standard exponential weights: ``p = P(sum(E_c * z_c) + E_0 * z_0 <= 0)``. It is the
    Bayesian bootstrap with that cluster added.

    For values that are either at the bound or at one other value it is the exact binomial test
    (Clopper & Pearson 1934); without any value at the bound that is the "rule of three". For all
    bounded distributions its level is conjectured, and no counterexample is known. With clusters
    of different sizes it relies on sizes that do not depend on the values.

    Source: Gaffke 2005, "Three test statistics for a nonparametric one-sided hypothesis on the
    mean of a nonnegative variable"; Learned-Miller & Thomas 2019, "A New Confidence Interval for
    the Mean of a Bounded Random Variable"; Bayesian bootstrap: Rubin 1981. The probability is
    computed, not simulated: the inversion integral of the moment generating function
    ``prod(1 / (1 - s * z_c))``, along a vertical line through its saddle point (Daniels 1954).
    """
    if null_mean <= lowest:
        raise ConfigError(
            f"the limit {null_mean:g} is not above the smallest possible value {lowest:g}: every "
            "mean would do"
        )
    if not totals.sizes:
        return 1.0
    for total, size in zip(totals.sums, totals.sizes, strict=True):
        mean = total / size
        if mean < lowest - 1e-9 * max(1.0, abs(lowest)):
            raise InputError(
                f"a mean of {mean:g} in a cluster of {size} lies below the smallest possible "
                f"value {lowest:g}: give the bound of the scale that was used"
            )
    # Scaled so that the cluster in which every case fell to the bound has a total of -1. No
    # cluster fell further: what is below -1 is rounding.
    reach = (null_mean - lowest) * max(totals.sizes)
    # Each different total once, with how many clusters have it: most clusters did not move.
    counts: Counter[float] = Counter()
    for total in totals.shifted_sums(-null_mean):
        counts[max(-1.0, total / reach)] += 1
    counts[-1.0] += 1  # the added cluster
    scaled_totals = sorted(counts)
    if scaled_totals[-1] <= 0.0:
        return 1.0
    times = [counts[total] for total in scaled_totals]
    return _share_below_zero(np.array(scaled_totals), np.array(times, dtype=np.float64))


def _share_below_zero(totals: Floats, times: Floats) -> float:
    """The p-value of the test for bounded values: P(sum of exponential weights * totals <= 0).

    The p-value is the integral that `bounded_mean_p_value` names, along a vertical line in the
    complex plane.

    Args:
        totals: z of the formula, each different one once, from -1 up to something positive.
        times: how many clusters have each of these totals.
    """
    # Along the line centre + i t, in both directions alike: half of it is summed up.
    centre = _saddle_point(totals, times)
    factors = 1.0 - centre * totals
    curvature = _sum_in_order(times * (totals / factors) ** 2) + 1.0 / centre**2
    width = 1.0 / math.sqrt(curvature)
    # t = width * sinh(x) turns the slow decay of few clusters into an exponential one, and x takes
    # equal steps (the trapezoidal rule, so the first term counts half).
    integral = 0.5 * width / -centre
    # Ends at the first negligible term; the number is a guard alone.
    for step in range(1, 1000):
        x = step * _STEP
        t = width * math.sinh(x)
        # The log of (1 - (c + it) z) / (1 - c z), summed over the clusters: decay + i angle.
        tilt = t * totals / factors
        decay = 0.5 * _sum_in_order(times * np.log1p(tilt * tilt))
        angle = -_sum_in_order(times * np.arctan(tilt))
        value = complex(math.cos(angle), -math.sin(angle)) / -complex(centre, t)
        size = math.exp(-decay)
        speed = width * math.cosh(x)  # dt / dx
        integral += size * value.real * speed
        if size * speed * abs(value) < _NEGLIGIBLE * abs(integral):
            break
    log_at_centre = -_sum_in_order(times * np.log(factors))
    probability = integral * _STEP / math.pi * math.exp(log_at_centre)
    # Rounding may take the probability out of 0 to 1.
    return min(1.0, max(0.0, probability))


def _saddle_point(totals: Floats, times: Floats) -> float:
    """The place on the real axis between -1 and 0 where the integrand of the p-value is smallest.

    The integral along the vertical line through that place converges fastest. Its value is the same
    along every such line between the poles, so a rough place is enough.

    Args:
        totals: z of the formula, each different one once.
        times: how many clusters have each of these totals.
    """
    low = -1.0
    middle = -0.5
    high = 0.0
    # Close is enough: the integral is the same along every line between the poles.
    while high - low > 1e-3 * min(-middle, 1.0 + middle):
        middle = (low + high) / 2.0
        slope = _sum_in_order(times * totals / (1.0 - middle * totals)) - 1.0 / middle
        if slope < 0.0:
            low = middle
        else:
            high = middle
    return middle


def _sum_in_order(terms: Floats) -> float:
    """The sum of some terms in one order on every machine.

    The order in which a dot product adds depends on the machine's library: by it p-values would
    differ in last digits.
    """
    return float(terms.sum())


def rare_gains_p_value(
    totals: ClusterTotals, tolerance: float, *, scale: float | None
) -> float | None:
    """p-value of "the loss is not larger than tolerated" if one more cluster had gained everything.

    A small sample can miss rare large gains that make up for a small loss in most cases; a loss is
    called worse only if it outweighs these, too. None where the test does not apply: where the
    scale has no end, where one cluster in twenty that gains the whole scale would not make up for
    the loss, and where gains are not rare (more than a tenth of the clusters that moved).

    Args:
        tolerance: the drop of the mean that is accepted.
        scale: the largest change of a case; None for a metric without bounds.
    """
    if scale is None:
        return None
    # A cluster that did not move is no evidence of the share of upward moves.
    moved = [total for total in totals.shifted_sums(tolerance) if total]
    # What one cluster in twenty would gain beyond the tolerated loss, at the end of the scale.
    rare_gains = _RARE_SHARE / (1.0 - _RARE_SHARE)
    largest_gain = rare_gains * (scale + tolerance) * totals.cases
    loss = -math.fsum(moved)
    # Even such gains would not make up for the loss; the factor leaves room for rounding.
    if loss > largest_gain * (1.0 + 1e-9):
        return None
    upward = sum(total > 0.0 for total in moved)
    if upward > _FEW_UPWARD * len(moved):
        return None
    # The same test with signs turned: could one more cluster, gaining all, make up for the loss?
    return bounded_mean_p_value(totals.turned(), tolerance, lowest=-scale)
