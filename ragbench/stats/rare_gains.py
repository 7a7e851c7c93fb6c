"""Could gains so rare that none was seen make up for a loss?

Swapping two runs describes noise. It does not describe a change that takes a little from nearly
every case and gives much to a few: its mean may not have moved at all, and a sample that holds none
of the few is certain of a loss. So a small loss that next to nothing speaks against is also tested
with one cluster added that gained the whole scale.
"""

from __future__ import annotations

import math

from ragbench.stats.bounded_mean import bounded_mean_p_value
from ragbench.stats.clusters import ClusterTotals

RARE_GAINS = 0.15
"""Largest p-value that a loss may keep against rare large gains; see `decide_family`."""
_RARE = 0.05
"""Up to this share of clusters that gain, gains count as rare."""
_FEW = 0.1
"""Up to this share of upward moves, of all that moved, rare gains are looked for."""


def rare_gains_p_value(
    totals: ClusterTotals, tolerance: float, *, scale: float | None
) -> float | None:
    """p-value of "the loss is not larger than tolerated", one more cluster gaining all of it.

    Source: `ragbench.stats.bounded_mean.bounded_mean_p_value`, turned around.

    None where rare gains cannot be what was missed.
    """
    if scale is None or not gains_are_rare(totals, tolerance, scale=scale):
        return None
    return bounded_mean_p_value(totals.turned(), tolerance, lowest=-scale)


def gains_are_rare(totals: ClusterTotals, tolerance: float, *, scale: float | None) -> bool:
    """Whether gains so rare that none was seen could make up for the loss that was.

    Not where one cluster in twenty, gaining the whole scale, would not make up for it; and not
    where gains were seen: more than a tenth of what moved.
    """
    if scale is None:
        return False
    moved = [total for total in totals.shifted(tolerance) if total]
    made_up = _RARE / (1.0 - _RARE) * (scale + tolerance) * totals.cases
    if -math.fsum(moved) > made_up * (1.0 + 1e-9):
        return False
    return sum(total > 0.0 for total in moved) <= _FEW * len(moved)
