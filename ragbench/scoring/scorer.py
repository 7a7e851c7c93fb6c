"""The one thing that a family of metrics has to bring: cells for a batch of cases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ragbench.records.cells import Cell
from ragbench.records.metrics import Metric
from ragbench.runs.trace import Trace
from ragbench.scoring.matching import Matching

__all__ = ["GoldScorer", "Scorer"]


class Scorer(Protocol):
    """Computes metrics. A definition names its class or factory, which is called without arguments.

    What a metric's definition says that it needs is there in every trace: the plan keeps other
    cases away.
    """

    def score(self, metrics: Sequence[Metric], traces: Sequence[Trace]) -> list[list[Cell]]:
        """Scores a batch.

        Args:
            metrics: metrics whose definitions name this scorer.
            traces: the cases.

        Returns:
            One list a metric, each with one cell a trace, both in the order given. A cell that
            the scorer cannot measure is skipped with its reason. An exception costs the case
            that raises it, not the batch: the plan asks again in smaller batches.
        """
        ...


@runtime_checkable
class GoldScorer(Protocol):
    """A scorer that compares what was retrieved with what is relevant."""

    def with_matching(self, matching: Matching) -> Scorer:
        """The same scorer, comparing in the way given."""
        ...
