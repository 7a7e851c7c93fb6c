"""Bootstrap intervals that resample whole clusters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ragbench.errors import ConfigError
from ragbench.stats.clusters import ClusterTotals, Label
from ragbench.stats.draws import resample_counts
from ragbench.stats.fixed_point import to_fixed_point
from ragbench.stats.inputs import check_share
from ragbench.stats.interval import Interval, IntervalMethod
from ragbench.stats.mean import student_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["bootstrap_interval", "bootstrap_intervals"]

# Below this many clusters resamples are too alike: the percentiles are too narrow.
_FEWEST_CLUSTERS = 20


def bootstrap_interval(
    values: Sequence[float],
    clusters: Sequence[Label] | None = None,
    confidence: float = 0.95,
    *,
    method: IntervalMethod = IntervalMethod.BCA,
    resamples: int = 10_000,
    seed: int = 0,
    bounds: tuple[float, float] | None = None,
) -> Interval:
    """Interval of the mean from resamples of whole clusters.

    A resample draws as many clusters as there are, with replacement, and takes the mean over all
    cases in them. ``percentile`` cuts the sorted resampled means; ``bca`` corrects the cuts for
    bias (share of resampled means below the observed one) and for a spread that changes with the
    mean (skewness of the leave-one-cluster-out means).

    Falls back, and says so in the note: to Student-t below 20 clusters, where resamples are too
    alike; from ``bca`` to ``percentile`` where the correction does not exist (all resampled means
    on one side of the observed one) or its cut lies outside the resamples.

    Source: Efron & Tibshirani 1993, "An Introduction to the Bootstrap", chapters 13 and 14;
    Efron 1987, "Better Bootstrap Confidence Intervals" (BCa); resampling of clusters: Davison &
    Hinkley 1997, section 3.8; Cameron, Gelbach & Miller 2008.

    Args:
        values: a value a case, such as a paired difference.
        clusters: what each case shares with others; None means that it stands alone.
        confidence: share of repetitions whose interval shall hold the true mean.
        method: ``bca`` or ``percentile``.
        resamples: number of resamples; at least 100.
        seed: of the draws.
        bounds: smallest and largest possible value, as for
            :func:`ragbench.stats.mean.mean_interval`; used where Student-t is fallen back to.

    Raises:
        InputError: a value is NaN, infinite or too large, or the lengths differ.
        ConfigError: an option is out of range.
    """
    totals = ClusterTotals.of(values, clusters)
    return bootstrap_intervals(
        [totals], confidence, method=method, resamples=resamples, seed=seed, bounds=[bounds]
    )[0]


def bootstrap_intervals(
    samples: Sequence[ClusterTotals],
    confidence: float = 0.95,
    *,
    method: IntervalMethod = IntervalMethod.BCA,
    resamples: int = 10_000,
    seed: int = 0,
    bounds: Sequence[tuple[float, float] | None] | None = None,
) -> tuple[Interval, ...]:
    """Several intervals; samples of as many clusters share their draws.

    Each interval is the same as that of :func:`bootstrap_interval` on its sample alone.

    Args:
        samples: values summed up by cluster.
        confidence: as for :func:`bootstrap_interval`.
        method: as for :func:`bootstrap_interval`.
        resamples: as for :func:`bootstrap_interval`.
        seed: as for :func:`bootstrap_interval`.
        bounds: ends of the scale a sample, or None for all.

    Raises:
        ConfigError: an option is out of range.
    """
    check_share(confidence, name="confidence")
    if method not in (IntervalMethod.BCA, IntervalMethod.PERCENTILE):
        raise ConfigError(f"bootstrap method is '{method}': choose 'bca' or 'percentile'")
    if resamples < 100:
        raise ConfigError(f"resamples is {resamples}: at least 100 are needed for an interval")
    if seed < 0:
        raise ConfigError(f"seed is {seed}: it must not be negative")
    ends = [None] * len(samples) if bounds is None else bounds
    intervals = [
        student_interval(sample, confidence, bounds=end)
        for sample, end in zip(samples, ends, strict=True)
    ]
    enough: dict[int, list[int]] = {}
    for position, (sample, interval) in enumerate(zip(samples, intervals, strict=True)):
        if interval.method is not IntervalMethod.STUDENT:
            continue
        if sample.clusters < _FEWEST_CLUSTERS:
            note = f"{sample.clusters} clusters are too few to resample"
            intervals[position] = replace(interval, note=note)
        else:
            enough.setdefault(sample.clusters, []).append(position)
    for clusters, positions in enough.items():
        means = _resampled_means([samples[each] for each in positions], clusters, resamples, seed)
        for position, column in zip(positions, means, strict=True):
            intervals[position] = _cut(samples[position], intervals[position], column, method)
    return tuple(intervals)


def _resampled_means(
    samples: Sequence[ClusterTotals], clusters: int, resamples: int, seed: int
) -> list[NDArray[np.float64]]:
    """Sorted means of the resamples, a sample; sums are exact whole numbers."""
    import numpy as np

    numbers = [to_fixed_point(np.array(sample.sums), clusters) for sample in samples]
    columns = [column for column, _ in numbers] + [
        np.array(sample.sizes, dtype=np.float64) for sample in samples
    ]
    table = np.stack(columns, axis=1)
    totals = np.concatenate(
        [counts @ table for counts in resample_counts(seed, resamples, clusters)]
    )
    count = len(samples)
    return [
        np.sort(np.ldexp(totals[:, each] / totals[:, count + each], numbers[each][1]))
        for each in range(count)
    ]


def _cut(
    totals: ClusterTotals, student: Interval, means: NDArray[np.float64], method: IntervalMethod
) -> Interval:
    tail = (1.0 - student.confidence) / 2.0
    note = ""
    shares: tuple[float, float] | None = None
    if method is IntervalMethod.BCA:
        shares, note = _corrected_shares(totals, means, tail)
    used = IntervalMethod.PERCENTILE if shares is None else IntervalMethod.BCA
    low, high = shares or (tail, 1.0 - tail)
    return replace(
        student, low=_quantile(means, low), high=_quantile(means, high), method=used, note=note
    )


def _corrected_shares(
    totals: ClusterTotals, means: NDArray[np.float64], tail: float
) -> tuple[tuple[float, float] | None, str]:
    """Where BCa cuts the resampled means, or why it cannot."""
    import numpy as np
    from scipy.special import ndtr, ndtri

    assert totals.mean is not None  # student_interval gave an interval
    observed = totals.mean
    # A mean counts as tied when it differs by rounding only; ties count half.
    near = 1e-12 * float(np.max(np.abs(means)))
    below = np.count_nonzero(means < observed - near)
    ties = np.count_nonzero(np.abs(means - observed) <= near)
    share = (int(below) + int(ties) / 2.0) / len(means)
    if not 0.0 < share < 1.0:
        return None, "all resampled means lie on one side: percentiles instead of BCa"
    bias = float(ndtri(share))
    acceleration = _acceleration(totals)
    cuts: list[float] = []
    for end in (tail, 1.0 - tail):
        moved = bias + float(ndtri(end))
        room = 1.0 - acceleration * moved
        if room <= 0.0:
            return None, "the spread changes too fast with the mean: percentiles instead of BCa"
        cuts.append(float(ndtr(bias + moved / room)))
    finest = 1.0 / len(means)
    if cuts[0] < finest or cuts[1] > 1.0 - finest:
        return None, "BCa would cut outside the resamples: percentiles instead"
    return (cuts[0], cuts[1]), ""


def _acceleration(totals: ClusterTotals) -> float:
    """Skewness of the leave-one-cluster-out means over 6 (Efron 1987, equation 6.6)."""
    sum_, cases = math.fsum(totals.sums), totals.cases
    left = [
        (sum_ - total) / (cases - size)
        for total, size in zip(totals.sums, totals.sizes, strict=True)
    ]
    centre = math.fsum(left) / len(left)
    largest = max(abs(centre - each) for each in left)
    if largest == 0.0:
        return 0.0
    apart = [(centre - each) / largest for each in left]
    squares = math.fsum(each**2 for each in apart)
    return math.fsum(each**3 for each in apart) / (6.0 * squares * math.sqrt(squares))


def _quantile(ordered: NDArray[np.float64], share: float) -> float:
    """Linear interpolation between order statistics (Hyndman & Fan 1996, type 7)."""
    place = share * (len(ordered) - 1)
    floor = min(int(place), len(ordered) - 2)
    low, high = float(ordered[floor]), float(ordered[floor + 1])
    return low + (high - low) * (place - floor)
