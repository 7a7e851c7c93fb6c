"""Scores of different scales, made comparable within one list of candidates."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["min_max", "standard"]


def min_max(scores: Sequence[float]) -> list[float]:
    """Maps the lowest score to 0 and the highest to 1; equal scores all become 0.5."""
    low, high = min(scores), max(scores)
    # Halves: the difference of two finite numbers may be infinite.
    spread = high / 2 - low / 2
    if spread == 0:
        return [0.5] * len(scores)
    return [(score / 2 - low / 2) / spread for score in scores]


def standard(scores: Sequence[float]) -> list[float]:
    """Subtracts the mean and divides by the standard deviation; equal scores all become 0."""
    scaled = min_max(scores)
    mean = math.fsum(scaled) / len(scaled)
    deviation = math.sqrt(math.fsum((score - mean) ** 2 for score in scaled) / len(scaled))
    if deviation == 0:
        return [0.0] * len(scores)
    return [(score - mean) / deviation for score in scaled]
