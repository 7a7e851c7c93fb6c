"""What would settle an undecided drop, and how surely.

The true difference is not known: it is what the present cases leave open. So the chance that a new
sample of N cases settles the question is averaged over that, instead of taking the observed
difference for the true one, and two numbers are given: with the smaller one an even chance, with
the larger one a good chance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

from ragbench.stats.clusters import ClusterTotals
from ragbench.stats.mean import student_quantile
from ragbench.stats.power import Spread, smallest_count

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "EVEN",
    "LIKELY",
    "Outlook",
    "outlook",
]

EVEN, LIKELY = 0.5, 0.8
"""The two chances for which a number of cases is given."""
_USUAL = 0.05
"""Changes are taken to vary by this share of the scale: two in three are smaller."""
_POINTS = 40
"""Differences over which the chance is averaged, each as likely as the others."""
_MOST_CLUSTERS = 10**7
_NORMAL = NormalDist()


@dataclass(frozen=True, kw_only=True, slots=True)
class Outlook:
    """Cases that would settle the question."""

    even: int
    """With so many cases it is settled in half of all such situations."""
    likely: int | None
    """With so many in four of five; None where that takes more than anybody could use."""
    alike: bool = False
    """The cases seen show no spread at all: both numbers hold if further ones do as these."""


def outlook(
    totals: ClusterTotals,
    tolerance: float,
    *,
    largest_drop: float | None,
    alpha: float = 0.05,
    level: float | None = None,
    weakest: float = 1.0,
) -> Outlook | None:
    """How many cases would settle whether a drop is larger than tolerated.

    For each of many differences that the cases leave open (Student-t around the observed one, which
    is drawn towards 0 as far as changes are usually small), the chance that N cases show "worse" or
    "not worse", by the normal approximations of `ragbench.stats.power`; averaged. N is that of a
    new sample of the same kind.

    Source: assurance, O'Hagan, Stevens & Campbell 2005, "Assurance in clinical trial design".

    Args:
        totals: differences summed up by cluster; a negative one is a loss.
        tolerance: largest drop that is accepted.
        largest_drop: length of the metric's scale; None without bounds.
        alpha: level of "not worse".
        level: level of "worse", after a correction; ``alpha`` by default.
        weakest: largest p-value that a total loss may keep in the test against rare gains.

    Returns:
        None where no number of cases would settle it (every case lost exactly what is tolerated,
        or nothing is tolerated and nothing lost), or where nothing is known of the spread.
    """
    import numpy as np

    worse = alpha if level is None else level
    mean = totals.mean
    if mean is None:
        return None
    size = totals.cases / totals.clusters
    spread = Spread.of(totals, -tolerance)
    if spread is None:
        margin = math.fsum(totals.shifted(tolerance)) / totals.cases
        clusters = _alike(margin, tolerance, largest_drop, alpha, worse, weakest)
        if clusters is None:
            return None
        cases = math.ceil(clusters * size - 1e-9)
        return Outlook(even=cases, likely=cases, alike=True)
    centre, error = _left_open(totals, mean, spread, largest_drop)
    degrees = totals.clusters - 1
    margins = np.array(
        [
            centre + tolerance + error * student_quantile((point + 0.5) / _POINTS, degrees)
            for point in range(_POINTS)
        ]
    )
    reach = None if largest_drop is None else largest_drop - tolerance

    def chance(clusters: int) -> float:
        found = _settles(margins, clusters, spread.per_cluster, reach, alpha, worse)
        return math.fsum(found) / len(margins)

    even = smallest_count(lambda clusters: chance(clusters) >= EVEN, most=_MOST_CLUSTERS)
    if even is None:
        return None
    likely = smallest_count(lambda clusters: chance(clusters) >= LIKELY, most=_MOST_CLUSTERS)
    return Outlook(
        even=spread.sample_size(even).cases,
        likely=None if likely is None else spread.sample_size(likely).cases,
    )


def _left_open(
    totals: ClusterTotals, mean: float, spread: Spread, largest_drop: float | None
) -> tuple[float, float]:
    """Centre and spread of the true differences that the cases leave open.

    Few cases leave large ones open, too, which few cases would settle; but real changes are small.
    """
    error = spread.per_cluster / math.sqrt(totals.clusters)
    if largest_drop is None:
        return mean, error
    usual = _USUAL * largest_drop
    weight = usual**2 / (usual**2 + error**2)
    return weight * mean, math.sqrt(weight) * error


def _settles(
    margins: NDArray[np.float64],
    clusters: int,
    spread: float,
    reach: float | None,
    alpha: float,
    worse: float,
) -> NDArray[np.float64]:
    """Chance that so many clusters decide, by how far the true mean lies above the limit."""
    import numpy as np
    from scipy.special import ndtr

    noise = spread * math.sqrt(clusters)
    totals = clusters * margins
    can_show = math.ldexp(1.0, -min(clusters, 1000)) <= worse
    shown = ndtr(-totals / noise - _NORMAL.inv_cdf(1.0 - worse)) if can_show else 0.0
    added = 0.0 if reach is None else reach
    squares = spread**2 + (0.0 if reach is None else margins**2)
    needed = _NORMAL.inv_cdf(1.0 - alpha) * np.sqrt(clusters * squares + added**2)
    found: NDArray[np.float64] = np.minimum(1.0, shown + ndtr((totals - added - needed) / noise))
    return found


def _alike(
    margin: float,
    tolerance: float,
    largest_drop: float | None,
    alpha: float,
    worse: float,
    weakest: float,
) -> int | None:
    """Clusters that decide where every one of them says the same."""
    if margin == 0.0:
        return None
    if margin < 0.0:
        least = math.ceil(-math.log2(worse) - 1e-9)
        if largest_drop is not None and weakest < 1.0:
            gain = math.log1p(-margin / (largest_drop + tolerance))
            least = max(least, math.ceil(-math.log(weakest) / gain - 1e-9))
        return least
    if largest_drop is None or largest_drop <= tolerance:
        return None
    return math.ceil(-math.log(alpha) / math.log1p(margin / (largest_drop - tolerance)) - 1e-9)
