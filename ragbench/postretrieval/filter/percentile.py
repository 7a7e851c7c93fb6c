"""Chunks whose score reaches a percentile of the scores."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ragbench.postretrieval.contract import OperatorInput, OperatorOutput, refuse
from ragbench.postretrieval.filter.scored import reaching
from ragbench.postretrieval.settings import between

__all__ = ["Percentile"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Percentile:
    """Keeps chunks that score at least the p-th percentile of this query's scores.

    The percentile is that of the nearest rank: of n scores in rising order the one at place
    ``max(1, ceil(p / 100 * n))``. So 50 of four chunks keeps three, 0 keeps all, 100 only the
    best. A chunk without a score is kept.

    Raises:
        ConfigError: ``percentile`` is outside [0, 100].
    """

    percentile: float
    """p, from 0 to 100."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        refuse(between("percentile", self.percentile, 0, 100))

    @property
    def name(self) -> str:
        """See `Operator.name`."""
        return "filter.percentile"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        """See `Operator.apply`."""
        scores = sorted(entry.score for entry in context.chunks if entry.score is not None)
        if not scores:
            return reaching(context.chunks, -math.inf)
        place = max(1, math.ceil(self.percentile * len(scores) / 100))
        return reaching(context.chunks, scores[place - 1])
